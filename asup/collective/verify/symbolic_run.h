// The symbolic run: carries steps out on contributions instead of numbers. One thread at a time.
#pragma once

#include <optional>

#include "asup/collective/verify/contributions.h"
#include "asup/collective/verify/happens_before.h"
#include "asup/collective/verify/memory.h"
#include "asup/collective/verify/schedule.h"

namespace asup::collective::proof {

class SymbolicRun : public Effects {
 public:
  SymbolicRun(const Spec& spec, const std::vector<Plan>& plans);

  void run();

  const Contributions& terms() const { return terms_; }
  const Memory& memory() const { return memory_; }
  // Of a barrier, or where ranks reach into each other's memory; else nobody asks.
  const std::optional<HappensBefore>& order() const { return order_; }

 private:
  void pass(const Message& message) override;
  void work(const Site& site, const Round& round) override;
  void end_round(int rank) override;

  // The elements of a message that is no signal.
  void carry(const Message& message);
  void work_step(const Site& site, const Step& step);
  // values_ = values_ (+) operand_, element by element
  void add(const Site& site, const Step& step,
           Contributions::Id (Contributions::*how)(Contributions::Id, Contributions::Id));
  void store(const Site& site, int owner, const Step& step);

  const Spec& spec_;
  const std::vector<Plan>& plans_;
  Contributions terms_;
  Memory memory_;
  std::optional<HappensBefore> order_;
  Pieces values_, operand_, sum_;  // of the step under way
};

}  // namespace asup::collective::proof
