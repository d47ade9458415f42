#include "asup/sync/averaging/gossip_replica.h"

#include <span>

#include "asup/base/error.h"
#include "asup/gossip/graph.h"
#include "asup/sync/averaging/consensus_estimator.h"
#include "asup/sync/averaging/local_update_replica.h"

namespace asup {
namespace {

constexpr std::uint64_t kGaugeEvery = 10;  // rounds

std::vector<sync::AgreedValue> agreed_values(const GossipOptions& options) {
  return {{"setting every", std::to_string(options.every)}, {"setting graph", options.graph}};
}

gossip::Graph graph_of(const GossipOptions& options, int ranks) {
  const auto graph = gossip::named_graph(options.graph, ranks);
  require(graph.has_value(), "graph = '{}' is none of ring, exponential, random", options.graph);
  return *graph;
}

class GossipReplica final : public sync::LocalUpdateReplica {
 public:
  GossipReplica(Communicator& communicator, torch::nn::Module& module,
                torch::optim::Optimizer& optimizer, const GossipOptions& options);

  void synchronize() override;
  void regroup() override;
  ReplicaState state() override;
  void restore(const ReplicaState& state) override;
  bool keeps_own_optimizer() const override { return true; }

 private:
  void after_step() override;
  bool has_moved() const override { return !one_; }
  void exchange();
  void hear(const gossip::Round& round);
  void gauge();

  // Constant after construction.
  const GossipOptions options_;

  gossip::Graph graph_;
  std::vector<torch::Tensor> heard_;  // others' models: room for those of a round
  sync::ConsensusEstimator estimator_;
  std::int64_t since_exchange_ = 0;  // steps
  std::uint64_t round_ = 0;          // since models were one
  bool one_ = true;                  // all ranks have the same model
};

GossipReplica::GossipReplica(Communicator& communicator, torch::nn::Module& module,
                             torch::optim::Optimizer& optimizer, const GossipOptions& options)
    : LocalUpdateReplica(communicator, module, optimizer, agreed_values(options), options.jitter),
      options_(options),
      graph_(graph_of(options, communicator.size())),
      estimator_(communicator, flat().elements()) {
  draw_jitter_per_rank();
  require(options.every >= 1, "models cannot be exchanged every {} steps", options.every);
  const auto others = graph_.round(communicator.rank(), 0).from.size();
  for (std::size_t i = 0; i < others; ++i)
    heard_.push_back(
        sync::tensor_for_links(communicator, flat().elements(), flat().all().scalar_type()));
}

void GossipReplica::after_step() {
  one_ = false;
  if (++since_exchange_ < options_.every) return;
  since_exchange_ = 0;
  exchange();
}

void GossipReplica::exchange() {
  apply_jitter();
  const auto start = Clock::now();
  const gossip::Round round = graph_.round(communicator().rank(), round_);
  flat().take(flat().parameters());
  gauge();
  hear(round);
  const torch::Tensor& own = flat().all();
  const std::span heard(heard_.data(), round.from.size());
  for (const torch::Tensor& other : heard) other.sub_(own);
  for (const torch::Tensor& difference : heard)
    own.add_(difference, 1.0 / static_cast<double>(1 + heard.size()));
  flat().give(flat().parameters());
  ++round_;
  merged();
  exchanged(start);
  waited(start);
}

// All calls end before a failure of one is told: they use this replica's memory.
void GossipReplica::hear(const gossip::Round& round) {
  std::vector<Work> works;
  for (std::size_t i = 0; i < round.from.size(); ++i)
    works.push_back(communicator().start_recv(sync::buffer_of(heard_[i]), round.from[i]));
  for (const int peer : round.to)
    works.push_back(communicator().start_send(sync::buffer_of(flat().all()), peer));
  expect(wait_for_all(works));
}

// Looks at models as they were before the exchange, and tells of it when it looks again.
void GossipReplica::gauge() {
  if (round_ % kGaugeEvery != kGaugeEvery - 1) return;
  if (const auto drift = estimator_.collect()) found_distance(drift->squared, drift->mean_squared);
  estimator_.start(flat().all());
}

// Neighbours of a lost worker become neighbours of each other: ranks are new.
void GossipReplica::regroup() {
  graph_ = graph_of(options_, communicator().size());
  estimator_.drop();
  one_ = false;
}

ReplicaState GossipReplica::state() {
  return {{{"steps since the exchange, rounds, one model",
            torch::tensor({since_exchange_, static_cast<std::int64_t>(round_),
                           static_cast<std::int64_t>(one_)},
                          torch::kInt64)}},
          {}};
}

void GossipReplica::restore(const ReplicaState& state) {
  const auto counts = state.common[0].tensor.accessor<std::int64_t, 1>();
  since_exchange_ = counts[0];
  round_ = static_cast<std::uint64_t>(counts[1]);
  one_ = counts[2] != 0;
}

void GossipReplica::synchronize() {
  if (one_) return;
  apply_jitter();
  const auto start = Clock::now();
  (void)estimator_.collect();
  flat().take(flat().parameters());
  expect(communicator().all_reduce(sync::buffer_of(flat().all()), ReduceOp::average));
  find_distance();
  flat().give(flat().parameters());
  since_exchange_ = 0;
  round_ = 0;
  one_ = true;
  exchanged(start);
  waited(start);
}

}  // namespace

std::unique_ptr<sync::LocalUpdateReplica> make_gossip_replica(Communicator& communicator,
                                                              torch::nn::Module& module,
                                                              torch::optim::Optimizer& optimizer,
                                                              const GossipOptions& options) {
  return std::make_unique<GossipReplica>(communicator, module, optimizer, options);
}

}  // namespace asup
