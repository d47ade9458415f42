// Who is told how a run goes: displays and files. Called on the training thread of rank 0, or of
// the first of those who are left; must be quick.
#pragma once

#include <string>

#include "asup/report/png.h"
#include "asup/report/records.h"

namespace asup::report {

class Observer {
 public:
  virtual ~Observer() = default;

  virtual void started(const RunFacts&) {}
  virtual void stepped(const StepRecord&) {}  // after every step
  virtual void logged(const StepRecord&) {}   // over the steps since the last time
  virtual void evaluating(std::int64_t /*samples*/) {}
  virtual void evaluated(const EvalRecord&) {}
  // What the model made of some samples of the test.
  virtual void pictured(std::int64_t /*step*/, const std::string& /*name*/, const Picture&) {}
  // What the servers tell of their pace, as JSON.
  virtual void servers_reported(std::int64_t /*step*/, const std::string& /*report*/) {}
  virtual void switched_strategy(std::int64_t /*after_step*/, const std::string& /*to*/) {}
  virtual void checkpointed(const std::string& /*path*/) {}
  virtual void ended(const Summary&) {}
  virtual void failed(const std::string& /*why*/) {}
};

}  // namespace asup::report
