#include "asup/train/loop/tally.h"

namespace asup::train {

Tally::~Tally() { drop(); }

// values_ must outlive the call.
void Tally::drop() {
  if (under_way_) (void)work_.wait();
  under_way_ = false;
}

void Tally::start(const StepFigures& own) {
  check(!under_way_, "the last step's figures were not collected");
  values_ = {own.loss, own.samples, own.wait_seconds, own.stops};
  work_ = {};
  if (communicator_.size() > 1)
    work_ = communicator_.start_all_reduce(buffer_of(std::span<double>(values_)));
  under_way_ = true;
}

std::optional<StepFigures> Tally::collect() {
  if (!under_way_) return std::nullopt;
  under_way_ = false;
  work_.wait().or_throw();
  return StepFigures{values_[0], values_[1], values_[2], values_[3]};
}

}  // namespace asup::train
