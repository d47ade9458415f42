#include "asup/net/transport/inproc/wire.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <vector>

#include "asup/base/error.h"

namespace asup::net {

// What two members share; side 0 is the lower rank.
struct InprocHub::Pair {
  Pair() : memory(2 * kRingBytes / sizeof(Line)) {
    for (int& event : events) event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  }
  ~Pair() {
    for (int event : events) close(event);
  }
  std::byte* ring(int side) {
    return reinterpret_cast<std::byte*>(memory.data()) +
           static_cast<std::size_t>(side) * kRingBytes;
  }

  struct alignas(64) Line {
    std::byte bytes[64];
  };
  static_assert(kRingBytes % sizeof(Line) == 0);
  std::vector<Line> memory;                   // ring 0 is written by side 0
  std::array<int, 2> events{};                // wakes side i
  std::array<std::atomic<bool>, 2> closed{};  // side i is gone
  std::array<bool, 2> here{};                 // side i has come; the hub's mutex guards it
  std::mutex mutex;                           // guards regions
  // Offered by side i.
  std::array<std::map<std::uint32_t, std::shared_ptr<const Region>>, 2> regions;
};

class InprocWire : public RingWire {
 public:
  InprocWire(std::shared_ptr<InprocHub::Pair> pair, int side)
      : RingWire(pair->ring(side), pair->ring(1 - side)), pair_(std::move(pair)), side_(side) {}
  ~InprocWire() override {
    pair_->closed[side_] = true;
    wake_peer();
  }

  WireAbilities abilities() const override { return {"inproc", true, false, true, false}; }
  bool closed() const override { return pair_->closed[1 - side_]; }
  int fd() const override { return pair_->events[side_]; }
  void on_fd_ready() override {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto n = ::read(fd(), &count, sizeof count);
  }
  void offer(std::uint32_t id, const std::shared_ptr<const Region>& region) override {
    const std::lock_guard lock(pair_->mutex);
    pair_->regions[side_].insert_or_assign(id, region);
  }
  void withdraw(std::uint32_t id) override {
    const std::lock_guard lock(pair_->mutex);
    pair_->regions[side_].erase(id);
  }
  std::shared_ptr<const Region> reach(std::uint32_t id) override {
    const std::lock_guard lock(pair_->mutex);
    const auto& offered = pair_->regions[1 - side_];
    const auto found = offered.find(id);
    return found == offered.end() ? nullptr : found->second;
  }

 private:
  void wake_peer() override {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(pair_->events[1 - side_], &one, sizeof one);
  }

  std::shared_ptr<InprocHub::Pair> pair_;
  const int side_;
};

InprocHub::InprocHub() = default;
InprocHub::~InprocHub() = default;

std::unique_ptr<Wire> InprocHub::connect(std::uint64_t generation, int rank, int peer,
                                         Deadline deadline) {
  const int side = rank < peer ? 0 : 1;
  std::unique_lock lock(mutex_);
  auto& slot = pairs_[{generation, std::min(rank, peer), std::max(rank, peer)}];
  if (!slot) slot = std::make_shared<Pair>();
  const auto pair = slot;
  check(!pair->here[side], "rank {} connects to rank {} twice", rank, peer);
  pair->here[side] = true;
  changed_.notify_all();
  if (!changed_.wait_until(lock, deadline, [&] { return pair->here[1 - side]; })) return nullptr;
  return std::make_unique<InprocWire>(pair, side);
}

}  // namespace asup::net
