#include "asup/collective/mesh/subgroup_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>

namespace asup {
namespace {

class OwnMemory : public SharedMemory {
 public:
  explicit OwnMemory(std::size_t bytes)
      : bytes_(bytes), data_(static_cast<std::byte*>(::operator new(bytes, kAlignment))) {
    std::fill_n(data_, bytes, std::byte{0});
  }
  ~OwnMemory() override { ::operator delete(data_, kAlignment); }
  std::span<std::byte> bytes() override { return {data_, bytes_}; }

 private:
  static constexpr std::align_val_t kAlignment{4096};

  const std::size_t bytes_;
  std::byte* const data_;
};

}  // namespace

SubgroupCommunicator::SubgroupCommunicator(Job& job, CommunicatorOptions options)
    : job_(job),
      options_(std::move(options)),
      number_(job.next_communicator_id()),
      all_(make_communicator(job, options_)) {}

void SubgroupCommunicator::regroup(std::uint64_t since, const std::vector<int>& workers) {
  was_late_ = false;
  if (since != since_) {
    leave();
    if (since > 0)
      some_ =
          make_communicator(job_, workers, fmt::format("{}/since {}", number_, since), options_);
    since_ = since;
    workers_ = workers;
  }
  for (Former& each : former_)
    for (const int worker : workers) each.not_seen.erase(worker);
  std::erase_if(former_, [](const Former& each) { return each.not_seen.empty(); });
}

void SubgroupCommunicator::leave() {
  if (!some_) return;
  bytes_before_ += some_->bytes_moved();
  former_.push_back({std::move(some_), {workers_.begin(), workers_.end()}});
  some_.reset();
  since_ = 0;
}

void SubgroupCommunicator::bound(Deadline until, Seconds silence) {
  until_ = until;
  silence_ = silence;
}

Call SubgroupCommunicator::bounded(Call call) const {
  constexpr Seconds kLeast{1e-3};  // zero would be no bound
  if (until_ != Deadline::max()) call.timeout = std::max<Seconds>(until_ - Clock::now(), kLeast);
  call.silence = silence_;
  return call;
}

Outcome SubgroupCommunicator::run(Call call) {
  Outcome outcome = now().run(bounded(std::move(call)));
  was_late_ = was_late_ || outcome.kind() == Outcome::Kind::late;
  return outcome;
}

std::unique_ptr<SharedMemory> SubgroupCommunicator::allocate(std::size_t bytes) {
  return std::make_unique<OwnMemory>(bytes);
}

Outcome SubgroupCommunicator::rebuild(Seconds timeout) {
  leave();
  unbound();
  was_late_ = false;
  Outcome outcome = all_->rebuild(timeout);
  if (outcome.ok()) former_.clear();  // who is left has given up its calls
  return outcome;
}

std::uint64_t SubgroupCommunicator::bytes_moved() const {
  return bytes_before_ + all_->bytes_moved() + (some_ ? some_->bytes_moved() : 0);
}

}  // namespace asup
