// What workers note of their steps, and its sums over all of them.
//
// Each worker adds up losses, samples and waits in rows, a row for each logging interval. Where all
// go in lockstep the sums travel beside the next step; elsewhere they are made at sync points, and
// rows are as exact as if all had worked in step. Used from the thread that trains.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "asup/collective/communicator.h"

namespace asup::train {

class Metrics {
 public:
  // One interval's figures, summed over workers.
  struct Row {
    std::int64_t step = 0;        // the last one, counted from 1
    double loss = 0;              // sum over samples
    double samples = 0;           // of which the loss is a number
    double left_out = 0;          // other samples, whose losses do not count
    double diverged = 0;          // the sum of losses that are infinite or NaN, and count
    double skipped = 0;           // steps
    double given_up = 0;          // workers that have skipped too many
    double in_succession = 0;     // of them, those that have skipped these in succession
    double waited = 0;            // seconds that a worker stood still for others: the mean
    double began = 0, ended = 0;  // by this worker's clock
  };
  struct Sums {
    std::vector<Row> rows;
    bool stop = false;  // a worker was asked to
  };

  // The communicator must outlive it.
  Metrics(Communicator& communicator, std::int64_t log_every)
      : communicator_(communicator), log_every_(log_every) {}
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Forgets all; from step `first` on (steps before it are done), at time `now`.
  void begin(std::int64_t first, double now);
  std::int64_t first() const { return own_.first; }
  // Time that passed since the last sums, for a test or a checkpoint, is in no row.
  void resume(double now) { own_.began = now; }

  // This worker has computed samples of this step (0 first): the sum of their losses.
  void add(std::int64_t step, double loss, double samples);
  // The same where their loss is no number, and does not count.
  void leave_out(std::int64_t step, double samples);
  // So many steps were skipped; where that is too many, the last one had this loss.
  enum class GivesUp { no, in_succession, lately };
  void skip(std::int64_t step, double steps, GivesUp gives_up, double loss);
  // The step was done at `now`, and this worker stood still for so many seconds of it.
  void took(std::int64_t step, double waited, double now);

  // Sums what was added up to a moment when `step` steps are done; what was added for later steps
  // is in the last row. What is added from now on goes into the next sums. `beside`: they travel
  // while the caller computes. needs: collect() since the last time. Collective, with collect().
  enum class When { beside, at_collect };
  void start(std::int64_t step, double now, bool stop, When when);
  // The sums of what was started last; nothing where nothing was. `all_have` is asked when this
  // worker has them, and may throw JobFailed where others have not: then they stay untold. Throws
  // JobFailed. Collective.
  std::optional<Sums> collect(const std::function<void()>& all_have = {});

  // Gives up what was started last: it goes into the next sums.
  void put_back();
  // Those who are left have rebuilt the communicator. Where some have collected what others have
  // not, those learn it here; what nobody has collected is put back. Collective.
  std::optional<Sums> regroup();

  // Others have been at step `first` before, and have collected so many sums: what this worker has
  // added counts for that step.
  void go_on_from(std::int64_t first, double now, std::int64_t collected);
  std::int64_t collected() const { return collected_; }

 private:
  // What this worker has added from step `first` on.
  struct Part {
    double loss = 0, samples = 0, left_out = 0, waited = 0, diverged = 0, skipped = 0, given_up = 0,
           in_succession = 0;
    double ended = 0;  // when the last of it was done here; 0: none was
    void add(const Part& other);
  };
  struct Own {
    std::int64_t first = 0;
    double began = 0;
    std::vector<Part> parts;  // by logging interval
  };

  Part& part_of(std::int64_t step);
  std::vector<std::int64_t> last_steps(std::int64_t first, std::int64_t step) const;
  std::vector<double> flat_sums(std::size_t rows, bool stop) const;
  std::vector<double> ends(const Own& own, std::size_t rows, double now) const;
  void wait();
  Sums take_in(const std::vector<double>& sums);

  Communicator& communicator_;
  const std::int64_t log_every_;

  Own own_;
  std::int64_t collected_ = 0;  // sums
  std::vector<double> last_;    // sums that were collected

  // Started, and not collected.
  bool started_ = false;
  Own told_;
  std::int64_t told_step_ = 0;
  double told_at_ = 0;
  std::vector<double> values_;
  std::optional<Work> work_;  // beside the computation
};

}  // namespace asup::train
