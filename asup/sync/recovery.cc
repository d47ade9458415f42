#include "asup/sync/recovery.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <numeric>
#include <utility>

#include "asup/base/error.h"
#include "asup/net/membership/roles.h"

namespace asup::sync {

Recovery::Recovery(Job& job, std::vector<Communicator*> communicators,
                   std::function<void()> regroup_users)
    : job_(job),
      communicators_(std::move(communicators)),
      regroup_users_(std::move(regroup_users)),
      left_(static_cast<std::size_t>(job.size())) {
  std::iota(left_.begin(), left_.end(), 0);
}

bool Recovery::rebuild() {
  return std::all_of(communicators_.begin(), communicators_.end(),
                     [](Communicator* each) { return each->rebuild().ok(); });
}

std::vector<std::int64_t> Recovery::gather(std::int64_t own) {
  Communicator& all = *communicators_.front();
  std::vector<std::int64_t> values(static_cast<std::size_t>(all.size()));
  all.all_gather(buffer_of(std::span(&own, 1)), buffer_of(std::span(values))).or_throw();
  return values;
}

std::optional<Recovery::Change> Recovery::regroup(std::int64_t note) {
  Change change;
  std::vector<int> left;
  std::exception_ptr failure;
  for (std::size_t before = left_.size();; before = size()) {
    if (!rebuild() || size() == left_.size()) return std::nullopt;
    if (failure && size() == before) std::rethrow_exception(failure);  // nobody else was lost
    try {
      left.clear();
      for (const std::int64_t rank : gather(job_.rank())) left.push_back(static_cast<int>(rank));
      change.notes = gather(note);
      if (regroup_users_) regroup_users_();
      break;
    } catch (const JobFailed&) {
      failure = std::current_exception();
    }
  }
  std::set_difference(left_.begin(), left_.end(), left.begin(), left.end(),
                      std::back_inserter(change.lost));
  job_.go_on_with(left, left_);
  left_ = left;
  return change;
}

}  // namespace asup::sync
