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
  return {{"setting every", std::to_string(options.every)},
          {"setting graph", options.graph},
          {"setting code", std::string(kernels::name_of(options.code))}};
}

gossip::Graph graph_of(const GossipOptions& options, int ranks) {
  const auto graph = gossip::named_graph(options.graph, ranks);
  require(graph.has_value(), "graph = '{}' is none of ring, exponential, random", options.graph);
  return *graph;
}

// What workers know of each other's models in the rounds of one turn.
struct PublicCopies {
  torch::Tensor own;                 // of this worker, as those who hear from it have it
  std::vector<torch::Tensor> heard;  // of those that it hears from
};

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
  void hear_in_code(const gossip::Round& round);
  void pass(const gossip::Round& round, Buffer own, std::span<const Buffer> others);
  void begin_copies();
  void gauge();
  bool is_coded() const { return options_.code != kernels::Code::none; }

  // Constant after construction.
  const GossipOptions options_;

  gossip::Graph graph_;
  std::vector<torch::Tensor> heard_;           // others' models: room for those of a round
  std::vector<PublicCopies> copies_;           // in a code, by turn
  torch::Tensor difference_;                   // what a code says of one
  std::vector<std::vector<std::byte>> codes_;  // this worker's, then others'
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
  if (!is_coded()) {
    for (std::size_t i = 0; i < others; ++i)
      heard_.push_back(
          sync::tensor_for_links(communicator, flat().elements(), flat().all().scalar_type()));
    return;
  }
  require(flat().all().scalar_type() == torch::kFloat32,
          "codes are for models in f32, and this one is in {}",
          torch::toString(flat().all().scalar_type()));
  difference_ = torch::zeros_like(flat().all());
  flat().take(flat().parameters());
  begin_copies();
}

// All workers have the model in flat().
void GossipReplica::begin_copies() {
  if (!is_coded()) return;
  copies_.clear();
  for (std::uint64_t turn = 0; turn < graph_.turns(); ++turn) {
    PublicCopies& copies = copies_.emplace_back();
    copies.own = flat().all().clone();
    for (std::size_t i = 0; i < graph_.round(communicator().rank(), turn).from.size(); ++i)
      copies.heard.push_back(flat().all().clone());
  }
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
  is_coded() ? hear_in_code(round) : hear(round);
  flat().give(flat().parameters());
  ++round_;
  merged();
  exchanged(start);
  waited(start);
}

void GossipReplica::hear(const gossip::Round& round) {
  std::vector<Buffer> others;
  for (std::size_t i = 0; i < round.from.size(); ++i) others.push_back(asup::buffer_of(heard_[i]));
  const torch::Tensor& own = flat().all();
  pass(round, asup::buffer_of(own), others);
  const std::span heard(heard_.data(), round.from.size());
  for (const torch::Tensor& other : heard) other.sub_(own);
  for (const torch::Tensor& difference : heard)
    own.add_(difference, 1.0 / static_cast<double>(1 + heard.size()));
}

void GossipReplica::hear_in_code(const gossip::Round& round) {
  PublicCopies& copies = copies_[round_ % copies_.size()];
  const auto count = static_cast<std::size_t>(flat().elements());
  codes_.resize(1 + round.from.size());
  for (auto& code : codes_) code.resize(kernels::coded_bytes(options_.code, count));
  auto* difference = difference_.mutable_data_ptr<float>();
  torch::sub_out(difference_, flat().all(), copies.own);
  kernels::encode(options_.code, codes_[0].data(), difference, count, {.decoded = difference});
  std::vector<Buffer> buffers;
  for (auto& code : codes_) buffers.push_back({code.data(), code.size(), Dtype::u8});
  pass(round, buffers[0], std::span(buffers).subspan(1));
  copies.own.add_(difference_);
  for (std::size_t i = 0; i < copies.heard.size(); ++i) {
    kernels::decode(options_.code, difference, codes_[i + 1].data(), count);
    copies.heard[i].add_(difference_);
    torch::sub_out(difference_, copies.heard[i], copies.own);
    flat().all().add_(difference_, 1.0 / static_cast<double>(1 + copies.heard.size()));
  }
}

// All calls end before a failure of one is told: they use this replica's memory.
void GossipReplica::pass(const gossip::Round& round, Buffer own, std::span<const Buffer> others) {
  std::vector<Work> works;
  for (std::size_t i = 0; i < round.from.size(); ++i)
    works.push_back(communicator().start_recv(others[i], round.from[i]));
  for (const int peer : round.to) works.push_back(communicator().start_send(own, peer));
  expect(wait_for_all(works));
}

// Looks at models as they were before the exchange, and tells of it when it looks again.
void GossipReplica::gauge() {
  if (round_ % kGaugeEvery != kGaugeEvery - 1) return;
  if (const auto drift = estimator_.collect()) found_distance(drift->squared, drift->mean_squared);
  estimator_.start(flat().all());
}

// Neighbours of a lost worker become neighbours of each other: ranks are new. Copies begin anew
// with the model that synchronize() makes.
void GossipReplica::regroup() {
  graph_ = graph_of(options_, communicator().size());
  estimator_.drop();
  one_ = false;
}

// Where copies of this rank's are not known, they are of the model that all begin with.
ReplicaState GossipReplica::state() {
  ReplicaState state{{{"steps since the exchange, rounds, one model",
                       torch::tensor({since_exchange_, static_cast<std::int64_t>(round_),
                                      static_cast<std::int64_t>(one_)},
                                     torch::kInt64)}},
                     {}};
  for (std::size_t turn = 0; turn < copies_.size(); ++turn) {
    const std::string name = fmt::format("public copy on {} {}", options_.graph, turn);
    state.own.push_back({name, copies_[turn].own});
    for (std::size_t i = 0; i < copies_[turn].heard.size(); ++i)
      state.own.push_back({fmt::format("{} of {}", name, i), copies_[turn].heard[i]});
  }
  return state;
}

void GossipReplica::restore(const ReplicaState& state) {
  const auto counts = state.common[0].tensor.accessor<std::int64_t, 1>();
  since_exchange_ = counts[0];
  round_ = static_cast<std::uint64_t>(counts[1]);
  one_ = counts[2] != 0;
  auto own = state.own.begin();
  for (PublicCopies& copies : copies_) {
    copies.own.copy_((own++)->tensor);
    for (const torch::Tensor& heard : copies.heard) heard.copy_((own++)->tensor);
  }
}

void GossipReplica::synchronize() {
  if (one_) return;
  apply_jitter();
  const auto start = Clock::now();
  (void)estimator_.collect();
  flat().take(flat().parameters());
  expect(communicator().all_reduce(asup::buffer_of(flat().all()), ReduceOp::average));
  find_distance();
  flat().give(flat().parameters());
  begin_copies();
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
