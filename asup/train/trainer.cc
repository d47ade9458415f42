#include "asup/train/trainer.h"

#include "asup/base/error.h"
#include "asup/train/lease_loop.h"
#include "asup/train/own_pace_loop.h"
#include "asup/train/run.h"
#include "asup/train/step_loop.h"
#include "asup/train/strategy.h"

namespace asup::train {

TrainEnd train(Job& job, const TrainConfig& config, Observer& display,
               const std::function<bool()>& stop_asked) {
  check(config.workers == job.size(), "a configuration for {} workers in a job of {}",
        config.workers, job.size());
  Run run(job, config, display);
  run.begin();
  const TrainEnd end = run.setup().server ? train_by_leases(run, job, stop_asked)
                       : strategy_of(config).has_own_pace()
                           ? train_at_own_pace(run, job, stop_asked)
                           : train_in_step(run, job, stop_asked);
  run.tell(&Observer::ended, end.summary);
  return end;
}

}  // namespace asup::train
