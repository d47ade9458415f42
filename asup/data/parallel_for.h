// Threads that share the samples of a batch among themselves and the thread that asks for it. They
// start with the first batch, so that who only looks at a data set has none. Any thread may call.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace asup::data {

class ParallelFor {
 public:
  explicit ParallelFor(int threads);  // in all, that of the caller counted; 0: as cores are there
  ~ParallelFor();                     // needs: no call is under way
  ParallelFor(const ParallelFor&) = delete;
  ParallelFor& operator=(const ParallelFor&) = delete;

  // work(i) for each i below `count`, in any order; returns when all are done. What the first of
  // them throws is thrown here, and those not yet begun are left out.
  void operator()(std::size_t count, const std::function<void(std::size_t)>& work);

 private:
  class Threads;
  std::unique_ptr<Threads> pool_;
};

}  // namespace asup::data
