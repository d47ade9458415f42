#include "asup/sync/averaging/slow_mo.h"

#include <algorithm>

#include "asup/base/error.h"
#include "asup/sync/averaging/local_update_replica.h"

namespace asup {
namespace {

using config::field;

std::vector<sync::AgreedValue> agreed_values(const SlowMo& options) {
  return {{"setting every", std::to_string(options.every)},
          {"setting slow_lr", fmt::format("{}", options.slow_lr)},
          {"setting slow_momentum", fmt::format("{}", options.slow_momentum)}};
}

class SlowMoReplica final : public sync::LocalUpdateReplica {
 public:
  SlowMoReplica(Communicator& communicator, torch::nn::Module& module,
                torch::optim::Optimizer& optimizer, const SlowMo& options)
      : LocalUpdateReplica(communicator, module, optimizer, agreed_values(options), Seconds(0)),
        options_(options),
        momentum_(torch::zeros_like(flat().all())) {}

  void synchronize() override {
    if (since_merge_ > 0 || must_merge_) merge();
  }
  void regroup() override;
  ReplicaState state() override;
  void restore(const ReplicaState& state) override;
  bool keeps_own_optimizer() const override { return true; }

 private:
  bool has_moved() const override { return since_merge_ > 0 || must_merge_; }
  void before_step() override;
  void after_step() override {
    if (++since_merge_ >= options_.every) merge();
  }
  void merge();

  const SlowMo options_;

  torch::Tensor begin_;           // x; none before the first step
  torch::Tensor momentum_;        // u
  std::int64_t since_merge_ = 0;  // steps
  std::int64_t merges_ = 0;
  bool must_merge_ = false;  // some may have ended a merge that others missed
};

// Models are one here, unless a checkpoint has what the round began with.
void SlowMoReplica::before_step() {
  if (begin_.defined()) return;
  flat().take(flat().parameters());
  begin_ = flat().all().clone();
}

void SlowMoReplica::merge() {
  const auto start = Clock::now();
  flat().take(flat().parameters());
  expect(communicator().all_reduce(asup::buffer_of(flat().all()), ReduceOp::average));
  find_distance();
  ask_all();
  const double lr = optimizer().param_groups().front().options().get_lr();
  momentum_.mul_(options_.slow_momentum).add_(begin_ - flat().all(), 1 / lr);
  begin_.sub_(momentum_, options_.slow_lr * lr);
  flat().all().copy_(begin_);
  flat().give(flat().parameters());
  since_merge_ = 0;
  ++merges_;
  must_merge_ = false;
  merged();
  exchanged(start);
  waited(start);
}

ReplicaState SlowMoReplica::state() {
  const torch::Tensor begin = begin_.defined() ? begin_ : torch::zeros_like(momentum_);
  const std::vector<std::int64_t> counts{begin_.defined() ? 1 : 0, since_merge_, merges_};
  return {{{"slow momentum", momentum_},
           {"model that the round began with", begin},
           {"begun, steps since the merge, merges", torch::tensor(counts, torch::kInt64)}},
          {}};
}

void SlowMoReplica::restore(const ReplicaState& state) {
  const auto counts = state.common[2].tensor.accessor<std::int64_t, 1>();
  if (counts[0] == 0) return;
  momentum_.copy_(state.common[0].tensor);
  begin_ = state.common[1].tensor.clone();
  since_merge_ = counts[1];
  merges_ = counts[2];
}

// A worker that has missed a merge which others have ended adopts what came of it: its own steps
// until then are part of that.
void SlowMoReplica::regroup() {
  const auto counts = counts_of_all(merges_);
  const auto furthest = std::max_element(counts.begin(), counts.end());
  must_merge_ = begin_.defined();
  if (std::all_of(counts.begin(), counts.end(), [&](auto count) { return count == *furthest; }))
    return;
  const auto root = static_cast<int>(furthest - counts.begin());
  for (const torch::Tensor& common : {begin_, momentum_})
    expect(communicator().broadcast(asup::buffer_of(common), root));
  if (merges_ == *furthest) return;
  merges_ = *furthest;
  flat().all().copy_(begin_);
  flat().give(flat().parameters());
  since_merge_ = 0;
}

}  // namespace

const Way& way_of(const SlowMo&) {
  static const Way way(WayOf<SlowMo>{
      .name = "slowmo",
      .group = "Local and DiLoCo",
      .summary = "SlowMo: local SGD with a slow momentum over the averages",
      .example = "--sync slowmo --every 12 --slow-momentum 0.7",
      .settings = {{"every", field<&SlowMo::every>(), "steps between two averages", config::kCount},
                   {"slow-lr",
                    field<&SlowMo::slow_lr>(),
                    "how far the model goes along the slow momentum, in learning rates",
                    {0, 10, true, false}},
                   {"slow-momentum",
                    field<&SlowMo::slow_momentum>(),
                    "what of the slow momentum stays from one average to the next",
                    {0, 1, false, true}},
                   non_finite_setting<SlowMo>()},
      .capabilities =
          [](const SlowMo& options) {
            return Capabilities{.exchanges = Exchange::models,
                                .survives_loss = true,
                                .skips_non_finite = options.non_finite != NonFinite::apply};
          },
      .make =
          [](const SlowMo& options, const ReplicaContext& context) {
            return sync::as_made(
                std::make_unique<SlowMoReplica>(context.communicator, context.model,
                                                context.optimizer, options),
                options.non_finite);
          }});
  return way;
}

}  // namespace asup
