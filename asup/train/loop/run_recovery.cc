#include "asup/train/loop/run_recovery.h"

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/net/membership/roles.h"
#include "asup/sync/averaging/local_update_replica.h"

namespace asup::train {
namespace {

std::vector<Communicator*> communicators_of(TrainingContext& context) {
  std::vector<Communicator*> all{context.control.get()};
  if (context.gradients) all.push_back(context.gradients.get());
  return all;
}

}  // namespace

RunRecovery::RunRecovery(RunState& run, Job& job)
    : run_(run), rank_(job.rank()), recovery_(job, communicators_of(run.context()), [&run] {
        if (auto* replica = run.context().local) replica->regroup();
      }) {}

bool RunRecovery::regroup() {
  const int keeper = left().front();
  const auto change = recovery_.regroup(run_.sees_folder() ? 1 : 0);
  if (!change) return false;
  const std::vector<int>& lost = change->lost;
  if (lost.front() == keeper) {
    const bool sees_folder = change->notes.front() != 0;
    if (run_.context().server || !sees_folder)
      throw PeerLost(fmt::format(
          "rank {}, which keeps the run folder, was lost: resume from its last checkpoint",
          keeper));
    if (left().front() == rank_) run_.keep_folder();
  }
  run_.lose(lost);
  if (run_.is_first_rank())
    log().warn("{} {} lost before step {}: {} of {} workers go on", net::name_ranks(lost),
               lost.size() == 1 ? "was" : "were", run_.step(), left().size(),
               run_.config().workers);
  return true;
}

}  // namespace asup::train
