#include "asup/sync/averaging/adpsgd_replica.h"

#include "asup/base/error.h"
#include "asup/gossip/exchanger.h"
#include "asup/sync/averaging/local_update_replica.h"

namespace asup {
namespace {

std::vector<sync::AgreedValue> agreed_values(const AdPsgdOptions& options) {
  return {{"setting every", std::to_string(options.every)},
          {"setting graph", options.graph},
          {"setting in_bf16", options.in_bf16 ? "yes" : "no"}};
}

class AdPsgdReplica final : public sync::LocalUpdateReplica {
 public:
  AdPsgdReplica(Communicator& communicator, net::MemberGroup group, torch::nn::Module& module,
                torch::optim::Optimizer& optimizer, const AdPsgdOptions& options);

  void synchronize() override;
  void regroup() override {
  }  // partners that are gone are passed over, and synchronize() always merges
  ReplicaState state() override;
  void restore(const ReplicaState& state) override;
  bool keeps_own_optimizer() const override { return true; }
  ReplicaStats stats() const override;

 private:
  void after_step() override;
  bool has_moved() const override { return moved_; }
  void open();
  void close();
  std::span<float> model();

  // Constant after construction.
  const std::int64_t every_;

  std::unique_ptr<gossip::Exchanger> exchanger_;
  std::int64_t since_ask_ = 0;  // steps
  bool open_ = false;           // partners may have the model
  bool moved_ = false;          // since all had one model
};

AdPsgdReplica::AdPsgdReplica(Communicator& communicator, net::MemberGroup group,
                             torch::nn::Module& module, torch::optim::Optimizer& optimizer,
                             const AdPsgdOptions& options)
    : LocalUpdateReplica(communicator, module, optimizer, agreed_values(options), Seconds(0)),
      every_(options.every) {
  require(options.every >= 1, "partners cannot be asked every {} steps", options.every);
  require(flat().all().scalar_type() == torch::kFloat32,
          "the model has f64 parameters, and pairs average f32: convert the model");
  exchanger_ = std::make_unique<gossip::Exchanger>(
      group, model().size(),
      gossip::ExchangerOptions{.graph = gossip::graph_of(options.graph, group.workers),
                               .seed = options.seed,
                               .in_bf16 = options.in_bf16,
                               .patience = options.patience});
}

std::span<float> AdPsgdReplica::model() {
  return {flat().all().mutable_data_ptr<float>(), static_cast<std::size_t>(flat().elements())};
}

// At the first step and not before: a checkpoint may be loaded into the model until then.
void AdPsgdReplica::open() {
  exchanger_->open(model());
  open_ = true;
}

// The exchange under way is in the model then.
void AdPsgdReplica::close() {
  flat().take(flat().parameters());
  if (open_) exchanger_->synchronize(model());
  open_ = false;
  flat().give(flat().parameters());
}

void AdPsgdReplica::after_step() {
  moved_ = true;
  const auto start = Clock::now();
  flat().take(flat().parameters());
  if (!open_) open();
  const gossip::Visit visit = exchanger_->visit(model(), ++since_ask_ >= every_);
  if (visit.asked) since_ask_ = 0;
  if (visit.changed) flat().give(flat().parameters());
  waited(start);
}

void AdPsgdReplica::synchronize() {
  const auto start = Clock::now();
  close();
  expect(communicator().all_reduce(asup::buffer_of(flat().all()), ReduceOp::average));
  find_distance();
  ask_all();
  flat().give(flat().parameters());
  moved_ = false;
  merged();
  exchanged(start);
  waited(start);
}

// What one of a pair has added, the other has taken away: an average that one has and the other
// lacks would move the mean.
ReplicaState AdPsgdReplica::state() {
  close();
  return {{{"models differ", torch::tensor({moved_ ? 1 : 0}, torch::kInt64)}}, {}};
}

void AdPsgdReplica::restore(const ReplicaState& state) {
  moved_ = state.common[0].tensor[0].item<std::int64_t>() != 0;
}

ReplicaStats AdPsgdReplica::stats() const {
  ReplicaStats stats = LocalUpdateReplica::stats();
  const gossip::ExchangerStats pairs = exchanger_->stats();
  stats.exchange_seconds += pairs.seconds;
  stats.bytes_moved += pairs.bytes_sent;
  stats.merges += pairs.exchanges;
  return stats;
}

}  // namespace

std::unique_ptr<sync::LocalUpdateReplica> make_adpsgd_replica(Communicator& communicator,
                                                              net::MemberGroup group,
                                                              torch::nn::Module& module,
                                                              torch::optim::Optimizer& optimizer,
                                                              const AdPsgdOptions& options) {
  return std::make_unique<AdPsgdReplica>(communicator, group, module, optimizer, options);
}

}  // namespace asup
