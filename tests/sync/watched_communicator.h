// A communicator that tells of the calls made on it, in front of a real one.
#pragma once

#include <functional>
#include <memory>

#include "asup/collective/communicator.h"

namespace asup::testing {

class WatchedCommunicator : public Communicator {
 public:
  using Watcher = std::function<void(const Call&)>;

  WatchedCommunicator(Communicator& real, Watcher watcher)
      : real_(real), watcher_(std::move(watcher)) {}

  int rank() const override { return real_.rank(); }
  int size() const override { return real_.size(); }
  Work start(Call call) override {
    watcher_(call);
    return real_.start(std::move(call));
  }
  Outcome run(Call call) override {
    watcher_(call);
    return real_.run(std::move(call));
  }
  std::unique_ptr<SharedMemory> allocate(std::size_t bytes) override {
    return real_.allocate(bytes);
  }
  std::unique_ptr<Communicator> split(int color, int key) override {
    return real_.split(color, key);
  }
  Outcome rebuild(Seconds timeout) override { return real_.rebuild(timeout); }
  void abandon() override { real_.abandon(); }
  std::uint64_t bytes_moved() const override { return real_.bytes_moved(); }

 private:
  Communicator& real_;
  Watcher watcher_;
};

}  // namespace asup::testing
