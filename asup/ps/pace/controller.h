// Sets the bounds of an adaptive pace while training. docs/adaptive_synchronization.md has the rule
// with its equations.
//
// It sees measurements only: how long each worker takes, how stale its gradients are, the losses,
// and how much of the work is left. For each of a few candidates it runs the pacer's rule on the
// measured times (simulate.h) and takes the one with the best predicted progress,
//   speed / (1 + gamma * weight * staleness).
// It changes its mind only where that is clearly better. The same measurements give the same
// choices. One thread at a time.
#pragma once

#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "asup/ps/pace/choice.h"
#include "asup/ps/pace/leaving.h"
#include "asup/ps/pace/measured.h"
#include "asup/ps/pace/sensitivity.h"
#include "asup/ps/pace/simulate.h"

namespace asup::ps::pace {

struct Situation {
  double now = 0;
  std::uint64_t step = 0, version = 0;
  double left = 1;            // share of the whole work that is left; 1 where that is not known
  double steps_left = 0;      // of it, where that is known
  bool can_balance = false;   // leases can have any length
  bool can_leave = false;     // workers can go on without the servers
  double update_seconds = 0;  // of an update, for one server alone
  std::uint64_t samples = 0;  // applied so far,
  double staleness = 0;       // and how late they were, mean of a sample, in steps
  std::map<int, Watched> workers;  // that are here
};

class Controller {
 public:
  // `freeze`: the first choice that is made of all workers' times stays, and nothing that is
  // measured later has any influence. `momentum`: of the rule that applies gradients.
  Controller(bool freeze, double momentum) : freeze_(freeze), sensitivity_(momentum) {}

  // A push was applied; see Sensitivity::add().
  void applied(double steps, double loss, double staleness) {
    sensitivity_.add(steps, loss, staleness);
  }

  // A choice, if it differs from the one in force: to be taken from now on.
  std::optional<Choice> decide(const Situation& situation);

  // Nothing is decided any more,
  bool is_frozen() const { return is_frozen_; }
  // unless that was to leave the servers, and cannot be done.
  void stay() { is_frozen_ = false; }
  const std::vector<Choice>& choices() const { return choices_; }

 private:
  struct Candidate;
  struct Scored;
  class Comparison;
  struct Seen {
    double typical = 0, overdue = 0, mean = 0;
  };
  static const Candidate kCandidates[];

  Scored first_choice(const Comparison& comparison, const Workers& workers, bool can_balance) const;
  bool has_news(const Workers& workers);
  bool is_better(const Scored& best, const Scored& current);
  Choice make_choice(const Situation& situation, const Workers& workers, const Scored& taken,
                     const Scored& before) const;

  const bool freeze_;
  Sensitivity sensitivity_;
  Leaving leaving_;
  std::size_t current_ = 0;    // of the candidates
  std::size_t favourite_ = 0;  // what looked better last,
  int times_ = 0;              // and how often in a row
  std::map<int, Seen> seen_;   // workers, when candidates were last compared,
  int looks_ = 0;              // and looks since then
  bool is_frozen_ = false;
  std::vector<Choice> choices_;
};

// What bounds come to where these workers always take these times: the same number of workers
// waited for, whatever the clock says later.
Bounds without_clock(const Bounds& bounds, const Workers& workers,
                     const std::map<int, double>& lengths);

}  // namespace asup::ps::pace
