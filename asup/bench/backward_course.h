// How far a backward has come when it comes to a parameter's gradient: the share of its work that
// was done until then, and so the time at which a simulated one has that gradient.
//
// It is known by the processor time that went by before each gradient in the batches before. In the
// first ones, which do much for the first time, and on a GPU, whose work a processor's clock does
// not show, the number of elements stands for it. Used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace asup::bench {

class BackwardCourse {
 public:
  BackwardCourse() = default;
  explicit BackwardCourse(const std::vector<std::int64_t>& elements);

  // A backward begins, on this thread.
  void begin();
  // It has come to this gradient: the share that is done with it, at most 1.
  double reach(std::size_t parameter);
  // What was done since, beside backward (adding up, sending), is over.
  void go_on();

 private:
  void measure(std::size_t parameter);

  std::vector<double> work_;   // of each parameter: elements, then seconds
  std::vector<double> spent_;  // processor seconds before each, in all backwards but the first
  double all_ = 0, done_ = 0;  // work of a backward, and of this one so far
  std::int64_t backwards_ = 0;
  std::thread::id thread_;  // that began this backward
  double since_ = 0;        // its processor time
};

}  // namespace asup::bench
