#include "asup/train/roll_call.h"

#include <algorithm>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/net/roles.h"

namespace asup::train {

RollCall::RollCall(Run& run, int rank) : run_(run), rank_(rank), workers_(present()) {}

void RollCall::meet(const std::function<void()>& together) {
  for (;;) try {
      return together();
    } catch (const JobFailed&) {
      if (!regroup()) throw;
    }
}

// Whether somebody was lost and the others are together again.
bool RollCall::regroup() {
  if (!run_.control().rebuild().ok()) return false;
  if (run_.setup().gradients && !run_.setup().gradients->rebuild().ok()) return false;
  if (static_cast<std::size_t>(run_.control().size()) == workers_.size()) return false;
  std::vector<int> left;
  try {
    left = present();
  } catch (const JobFailed&) {
    return regroup();  // another one was lost meanwhile
  }
  std::vector<int> lost;
  std::set_difference(workers_.begin(), workers_.end(), left.begin(), left.end(),
                      std::back_inserter(lost));
  if (lost.front() == 0)
    throw PeerLost("rank 0, which keeps the run folder, was lost: resume from its last checkpoint");
  workers_ = left;
  if (run_.is_first_rank())
    log().warn("{} {} lost before step {}: {} of {} workers go on", net::name_ranks(lost),
               lost.size() == 1 ? "was" : "were", run_.step(), left.size(), run_.config().workers);
  return true;
}

// Ranks in the job of those who are in the control communicator.
std::vector<int> RollCall::present() {
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(run_.control().size()));
  std::int32_t own = rank_;
  run_.control().all_gather(buffer_of(std::span(&own, 1)), buffer_of(std::span(ranks))).or_throw();
  return {ranks.begin(), ranks.end()};
}

}  // namespace asup::train
