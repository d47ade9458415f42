#include "asup/train/trainer.h"

#include "asup/base/error.h"
#include "asup/train/lease_loop.h"
#include "asup/train/own_pace_loop.h"
#include "asup/train/run.h"
#include "asup/train/step_loop.h"
#include "asup/train/strategy.h"

namespace asup::train {
namespace {

TrainEnd train_phase(Run& run, Job& job, const std::function<bool()>& stop_asked) {
  if (run.setup().server) return train_by_leases(run, job, stop_asked);
  if (strategy_of(run.config()).has_own_pace()) return train_at_own_pace(run, job, stop_asked);
  return train_in_step(run, stop_asked);
}

}  // namespace

TrainEnd train(Job& job, const TrainConfig& config, Observer& display,
               const std::function<bool()>& stop_asked) {
  check(config.workers == job.size(), "a configuration for {} workers in a job of {}",
        config.workers, job.size());
  Run run(job, config, display);
  run.begin();
  TrainEnd end = train_phase(run, job, stop_asked);
  if (run.switches()) {
    run.change_way(job);
    end = train_phase(run, job, stop_asked);
  }
  run.tell(&Observer::ended, end.summary);
  return end;
}

}  // namespace asup::train
