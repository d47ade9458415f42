// Who is told how a run goes: displays and files. Called on rank 0's training thread; must be
// quick.
#pragma once

#include <string>

#include "asup/train/records.h"

namespace asup::train {

class Observer {
 public:
  virtual ~Observer() = default;

  virtual void started(const RunFacts&) {}
  virtual void stepped(const StepRecord&) {}  // after every step
  virtual void logged(const StepRecord&) {}   // over the steps since the last time
  virtual void evaluating(std::int64_t /*samples*/) {}
  virtual void evaluated(const EvalRecord&) {}
  virtual void checkpointed(const std::string& /*path*/) {}
  virtual void ended(const Summary&) {}
};

}  // namespace asup::train
