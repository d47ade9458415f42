// By which workers that never all meet hear of each other's progress: how many samples each has
// done, and which fence was called.
//
// A worker tells one other after each step, in turn, what it knows of all (counts.h): what one
// knows all hear after some steps, as with a rumour. A fence is told to all at once. Called by the
// thread that trains; waits for nobody.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "asup/net/mail.h"
#include "asup/pairwise/circle.h"
#include "asup/pairwise/counts.h"

namespace asup::pairwise {

class Grapevine : private net::Mail::Handler {
 public:
  explicit Grapevine(Circle circle);
  ~Grapevine() override;

  // This worker has done so many samples; what is known of all.
  struct Known {
    std::uint64_t samples = 0;  // of all workers
    std::uint64_t fence = 0;    // the last one that was called; 0: none
  };
  Known tell(std::uint64_t samples);

  // All workers are to meet at this fence, counted from 1.
  void call_fence(std::uint64_t fence);

  // Where workers have met, they need no rumours.
  void learn(const Counts& counts);
  Counts counts();

 private:
  net::Bytes room_for(int, net::ConstBytes, std::uint64_t) override { return {}; }
  void arrived(int member, net::ConstBytes head, net::Bytes payload) override;
  void gone(int member, net::LinkEnd end) override;
  void send(int worker);

  const Circle circle_;
  const int rank_;

  // Under the turn.
  Counts counts_;
  std::vector<bool> gone_;
  int told_;  // the worker that was told last
  std::optional<net::Mail> mail_;
};

}  // namespace asup::pairwise
