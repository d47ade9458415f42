#include "asup/train/loop/run_recovery.h"

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/net/membership/roles.h"
#include "asup/sync/averaging/local_update_replica.h"
#include "asup/train/worker_changes.h"

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
        if (auto* replica = run.context().local)
          replica->regroup();
        else
          run.context().replica->recover_step();
      }) {}

// Who has joined goes on in any case, whatever the others were told.
bool RunRecovery::is_for(RunState& run, const Job& job) {
  if (survives_loss(run.config(), run.config().strategy)) return true;
  if (!can_retake_steps(run.config(), run.config().strategy)) return false;
  std::int32_t asked = job.options().goes_on_after_loss ? 1 : 0;
  run.control().all_reduce(buffer_of(std::span(&asked, 1)), ReduceOp::min).or_throw();
  return asked != 0;
}

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
