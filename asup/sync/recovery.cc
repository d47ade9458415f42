#include "asup/sync/recovery.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <numeric>
#include <utility>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/net/membership/roles.h"
#include "asup/net/transport/mesh.h"

namespace asup::sync {

Recovery::Recovery(Job& job, std::vector<Communicator*> communicators,
                   std::function<void()> regroup_users)
    : job_(job),
      communicators_(std::move(communicators)),
      regroup_users_(std::move(regroup_users)),
      left_(static_cast<std::size_t>(job.size())) {
  std::iota(left_.begin(), left_.end(), 0);
  const net::MeshLock lock(job.mesh().loop());
  job.mesh().give_up_the_late();
}

bool Recovery::rebuild() {
  for (Communicator* each : communicators_) {
    const Outcome outcome = each->rebuild();
    if (outcome.ok()) continue;
    log().warn("{}", outcome.message());
    if (outcome.kind() != Outcome::Kind::lost) return false;
    job_.require_place();
    throw JobFailed("the others go on without this one: " + outcome.message());
  }
  return true;
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
    } catch (const JobFailed&) {
      failure = std::current_exception();
      continue;
    }
    job_.go_on_with(left, left_);  // before anything is carried out again
    try {
      if (regroup_users_) regroup_users_();
      break;
    } catch (const JobFailed&) {
      failure = std::current_exception();
    }
  }
  std::set_difference(left_.begin(), left_.end(), left.begin(), left.end(),
                      std::back_inserter(change.lost));
  left_ = left;
  return change;
}

}  // namespace asup::sync
