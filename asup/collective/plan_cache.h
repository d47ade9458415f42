// Plans of recent calls: training repeats a handful of them. Used by one thread at a time.
#pragma once

#include <map>
#include <memory>
#include <tuple>

#include "asup/collective/plan.h"

namespace asup::collective {

class PlanCache {
 public:
  explicit PlanCache(int rank) : rank_(rank) {}

  std::shared_ptr<const Plan> plan_for(const Algorithm& algorithm, const Spec& spec) {
    const Key key{algorithm.plan, spec.count, spec.counts, spec.root, spec.in_place, spec.slice};
    const auto found = plans_.find(key);
    if (found != plans_.end()) return found->second;
    if (plans_.size() >= kMost) plans_.clear();
    auto plan = std::make_shared<const Plan>(algorithm.plan(rank_, spec));
    plans_.emplace(key, plan);
    return plan;
  }

 private:
  static constexpr std::size_t kMost = 256;
  using Key = std::tuple<Plan (*)(int, const Spec&), std::size_t, std::vector<std::size_t>, int,
                         bool, std::size_t>;

  int rank_;
  std::map<Key, std::shared_ptr<const Plan>> plans_;
};

}  // namespace asup::collective
