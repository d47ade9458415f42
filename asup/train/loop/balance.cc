#include "asup/train/loop/balance.h"

#include <algorithm>

#include "asup/base/error.h"
#include "asup/train/loop/batch_shares.h"

namespace asup::train {

Balance::Balance(Communicator& communicator, std::int64_t batch,
                 const std::vector<std::int64_t>& parts)
    : communicator_(communicator), batch_(batch) {
  const auto workers = static_cast<std::size_t>(communicator.size());
  parts_ = are_shares(parts, batch, workers) ? parts : even_shares(batch, workers);
}

Balance::~Balance() {
  if (under_way_) (void)work_.wait();  // told_ must outlive the call
}

double Balance::even() const {
  return static_cast<double>(batch_) / static_cast<double>(parts_.size());
}

void Balance::worked(std::int64_t samples, double seconds) {
  const auto own = parts_[static_cast<std::size_t>(communicator_.rank())];
  if (samples != own) return;
  timing_.add(static_cast<double>(samples) / even(), seconds);
}

// Each has places of its own in a sum, which so is what all told.
void Balance::start() {
  check(!under_way_, "what workers told of their speed was not collected");
  told_.assign(2 * parts_.size(), 0);
  if (timing_.is_known()) {
    const WorkTime own = work_time(timing_.typical(), timing_.fixed(), even(), batch_);
    const auto place = 2 * static_cast<std::size_t>(communicator_.rank());
    told_[place] = own.fixed_ps;
    told_[place + 1] = own.sample_ps;
  }
  work_ = communicator_.start_all_reduce(buffer_of(std::span(told_)));
  under_way_ = true;
}

bool Balance::collect() {
  if (!under_way_) return false;
  under_way_ = false;
  work_.wait().or_throw();
  std::vector<WorkTime> times;
  for (std::size_t i = 0; i < told_.size(); i += 2) times.push_back({told_[i], told_[i + 1]});
  const auto unknown = [](const WorkTime& time) { return time.sample_ps == 0; };
  if (std::any_of(times.begin(), times.end(), unknown)) return false;
  auto better = better_shares(parts_, times);
  if (better == parts_) return false;
  parts_ = std::move(better);
  return true;
}

}  // namespace asup::train
