// Several observers as one: each is told everything, in order. Used from one thread.
#pragma once

#include <memory>
#include <vector>

#include "asup/report/observer.h"

namespace asup::report {

class Observers : public Observer {
 public:
  void add(std::unique_ptr<Observer> observer) { all_.push_back(std::move(observer)); }

  void started(const RunFacts& facts) override { tell(&Observer::started, facts); }
  void stepped(const StepRecord& record) override { tell(&Observer::stepped, record); }
  void logged(const StepRecord& record) override { tell(&Observer::logged, record); }
  void evaluating(std::int64_t samples) override { tell(&Observer::evaluating, samples); }
  void evaluated(const EvalRecord& record) override { tell(&Observer::evaluated, record); }
  void switched_strategy(std::int64_t after_step, const std::string& to) override {
    tell(&Observer::switched_strategy, after_step, to);
  }
  void checkpointed(const std::string& path) override { tell(&Observer::checkpointed, path); }
  void ended(const Summary& summary) override { tell(&Observer::ended, summary); }
  void failed(const std::string& why) override { tell(&Observer::failed, why); }

 private:
  template <typename... Parameters, typename... Args>
  void tell(void (Observer::*event)(Parameters...), const Args&... args) {
    for (const auto& observer : all_) (observer.get()->*event)(args...);
  }

  std::vector<std::unique_ptr<Observer>> all_;
};

}  // namespace asup::report
