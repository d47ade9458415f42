#include "asup/sync/pairwise_replica.h"

#include "asup/base/error.h"
#include "asup/pairwise/exchanger.h"
#include "asup/sync/own_steps.h"

namespace asup {
namespace {

std::vector<sync::Fact> facts_of(const PairwiseOptions& options) {
  return {{"setting every", std::to_string(options.every)}, {"setting graph", options.graph}};
}

class PairwiseReplica final : public sync::OwnSteps {
 public:
  PairwiseReplica(Communicator& communicator, pairwise::Circle circle, torch::nn::Module& module,
                  torch::optim::Optimizer& optimizer, const PairwiseOptions& options);

  void settle() override;
  void regroup() override {}  // partners that are gone are passed over, and settle() always merges
  bool keeps_own_optimizer() const override { return true; }
  ReplicaStats stats() const override;

 private:
  void after_step() override;
  void open();
  std::span<float> model();

  // Constant after construction.
  const std::int64_t every_;

  std::unique_ptr<pairwise::Exchanger> exchanger_;
  std::int64_t since_ask_ = 0;  // steps
  bool open_ = false;           // partners may have the model
};

PairwiseReplica::PairwiseReplica(Communicator& communicator, pairwise::Circle circle,
                                 torch::nn::Module& module, torch::optim::Optimizer& optimizer,
                                 const PairwiseOptions& options)
    : OwnSteps(communicator, module, optimizer, facts_of(options), Seconds(0)),
      every_(options.every) {
  require(options.every >= 1, "partners cannot be asked every {} steps", options.every);
  require(flat().all().scalar_type() == torch::kFloat32,
          "the model has f64 parameters, and pairs average f32: convert the model");
  exchanger_ = std::make_unique<pairwise::Exchanger>(
      circle, model().size(),
      pairwise::ExchangerOptions{.graph = pairwise::graph_of(options.graph, circle.workers),
                                 .seed = options.seed,
                                 .patience = options.patience});
}

std::span<float> PairwiseReplica::model() {
  return {flat().all().mutable_data_ptr<float>(), static_cast<std::size_t>(flat().elements())};
}

// At the first step and not before: a checkpoint may be loaded into the model until then.
void PairwiseReplica::open() {
  exchanger_->open(model());
  open_ = true;
}

void PairwiseReplica::after_step() {
  const auto start = Clock::now();
  flat().take(flat().parameters());
  if (!open_) open();
  const pairwise::Visit visit = exchanger_->visit(model(), ++since_ask_ >= every_);
  if (visit.asked) since_ask_ = 0;
  if (visit.changed) flat().give(flat().parameters());
  waited(start);
}

void PairwiseReplica::settle() {
  const auto start = Clock::now();
  flat().take(flat().parameters());
  if (open_) exchanger_->settle(model());
  open_ = false;
  flat().give(flat().parameters());
  expect(communicator().all_reduce(sync::buffer_of(flat().all()), ReduceOp::average));
  find_distance();
  ask_all();
  flat().give(flat().parameters());
  merged();
  exchanged(start);
  waited(start);
}

ReplicaStats PairwiseReplica::stats() const {
  ReplicaStats stats = OwnSteps::stats();
  const pairwise::ExchangerStats pairs = exchanger_->stats();
  stats.exchange_seconds += pairs.seconds;
  stats.bytes_moved += pairs.bytes_sent;
  stats.merges += pairs.exchanges;
  return stats;
}

}  // namespace

std::unique_ptr<Replica> make_pairwise_replica(Communicator& communicator, pairwise::Circle circle,
                                               torch::nn::Module& module,
                                               torch::optim::Optimizer& optimizer,
                                               const PairwiseOptions& options) {
  return std::make_unique<PairwiseReplica>(communicator, circle, module, optimizer, options);
}

}  // namespace asup
