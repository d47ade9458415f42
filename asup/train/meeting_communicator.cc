#include "asup/train/meeting_communicator.h"

#include <fmt/format.h>

namespace asup::train {

MeetingCommunicator::MeetingCommunicator(Job& job, CommunicatorOptions options)
    : job_(job),
      options_(std::move(options)),
      number_(job.next_communicator_id()),
      all_(make_communicator(job, options_)) {}

void MeetingCommunicator::meet(std::uint64_t meeting, const std::vector<int>& workers) {
  meet_all();
  some_ =
      make_communicator(job_, workers, fmt::format("{}/meeting {}", number_, meeting), options_);
}

void MeetingCommunicator::meet_all() {
  if (some_) bytes_before_ += some_->bytes_moved();
  some_.reset();
}

Outcome MeetingCommunicator::rebuild(Seconds timeout) {
  meet_all();
  return all_->rebuild(timeout);
}

std::uint64_t MeetingCommunicator::bytes_moved() const {
  return bytes_before_ + all_->bytes_moved() + (some_ ? some_->bytes_moved() : 0);
}

}  // namespace asup::train
