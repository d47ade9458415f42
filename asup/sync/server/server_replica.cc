#include "asup/sync/server/server_replica.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "asup/base/error.h"
#include "asup/kernels/finite.h"
#include "asup/kernels/update.h"
#include "asup/ps/client.h"
#include "asup/sync/gradients/clip.h"
#include "asup/sync/gradients/finite_steps.h"
#include "asup/sync/gradients/gradient_collector.h"
#include "asup/sync/model/agreement.h"
#include "asup/sync/model/device.h"
#include "asup/sync/model/kept_tensors.h"
#include "asup/sync/model/sharing.h"
#include "asup/sync/model/trained_model.h"
#include "asup/sync/server/coded_traffic.h"
#include "asup/sync/server/merge_replica.h"
#include "asup/sync/server/rules_of.h"
#include "asup/sync/server/server_state.h"
#include "asup/sync/server/setup_of_parts.h"

namespace asup {
namespace {

constexpr std::size_t kLookedAt = 64 * 1024;  // floats of a bucket

// Whether rank 0's optimizer has a state that servers are to begin with, or that of another part.
bool has_state(Communicator& workers, const sync::ModelParts& parts,
               const std::vector<double>& updates) {
  std::int32_t has = std::any_of(updates.begin(), updates.end(), [](auto n) { return n > 0; });
  workers.broadcast(buffer_of(std::span(&has, 1))).or_throw();
  return !parts.all(has == 0);
}

class ServerReplicaOfClient final : public ServerReplica, private sync::BucketCarrier {
 public:
  ServerReplicaOfClient(Communicator& workers, net::MemberGroup group, torch::nn::Module& module,
                        torch::optim::Optimizer& optimizer, const ServerReplicaOptions& options);

  StepResult step() override;
  void step_alone() override;
  void finish_exchange() override;
  double clip_grad_norm(double max_norm) override;
  void set_sync(bool sync) override { collector_.set_sync(sync); }
  void describe_batch(std::uint64_t samples, double loss) override;
  void synchronize() override;
  bool has_moved() const override { return moved_; }
  bool models_differ() override;
  void average_buffers() override {
    sync::settle_unshared(workers_, unshared_, options_.evaluate_with);
  }
  void with_mean_model(const std::function<void()>& use) override;
  void check_equal() override;
  std::string observed() const override { return ""; }
  ReplicaState state() override;
  void restore(const ReplicaState& state) override;
  bool keeps_own_optimizer() const override { return !sharing_.local.empty(); }
  std::vector<sync::NamedTensor> fetch_optimizer_state() override;
  void gather_optimizer_state() override;
  ReplicaStats stats() const override;

  const ps::Release& release() const override { return release_; }
  void arrive(const std::vector<int>& met) override;
  void when_released(std::function<void(const ps::Release&)> prepare) override {
    prepare_ = std::move(prepare);
  }
  void ask_for_sync_point() override { client_->ask_for_sync_point(); }
  const std::vector<sync::NamedTensor>& unshared() const override { return unshared_; }
  void show_common(bool) override {}  // it always has them
  std::string report() override { return client_->report(); }

 private:
  // From the collector.
  bool ends_with_backward() const override { return false; }  // step() gets other parameters
  void carry(std::size_t bucket, Buffer buffer) override;
  void finish_round() override;
  void second_backward() override;

  // The begin of a bucket of the step under way that is on its way to the servers.
  struct Left {
    const float* data;
    std::size_t count;
    double squares;  // their sum, when it left
  };

  const std::vector<sync::NamedTensor>& agreed();
  void fetch_state(std::optional<ps::Range> range);
  ps::ServerSetup setup(bool with_state) const;
  void move_parameters();
  void check_unchanged();
  void check_those_that_left() const;
  void step_local();
  std::vector<sync::NamedTensor> known_weights();
  void fetch_parameters();
  void wait();
  std::vector<double> learning_rates() const;

  // Constant after construction.
  Communicator& workers_;
  const ServerReplicaOptions options_;
  sync::TrainedModel model_;
  sync::FiniteSteps finite_;
  const std::vector<kernels::Rule> rules_;  // by group of the optimizer
  const sync::Sharing sharing_;
  const layout::BucketRules bucket_rules_;
  std::vector<sync::NamedTensor> unshared_;
  layout::FlatSpace space_;
  std::unique_ptr<ps::Client> client_;
  // Where the model is not in the client's memory: there, and in the model.
  std::vector<torch::Tensor> arriving_, on_device_;
  std::shared_ptr<void> locked_;  // the pages of that memory

  std::function<void(const ps::Release&)> prepare_;
  ps::Release release_;
  ps::Figures figures_;  // of the batch under way
  std::vector<Left> left_;
  Clock::time_point released_at_;
  Clock::time_point leaving_since_;  // the round's first bucket
  double waited_ = 0;                // for the parameters that it computes with
  std::uint64_t steps_ = 0;
  double exchange_seconds_ = 0;
  bool moved_ = false;         // since all workers had the same parameters, those of the servers
  bool pushed_finite_ = true;  // what was pushed last, or servers apply it all the same

  std::optional<sync::CodedTraffic> coded_;  // where gradients travel in a code

  sync::GradientCollector collector_;  // last: its hooks use all above
};

ServerReplicaOfClient::ServerReplicaOfClient(Communicator& workers, net::MemberGroup group,
                                             torch::nn::Module& module,
                                             torch::optim::Optimizer& optimizer,
                                             const ServerReplicaOptions& options)
    : workers_(workers),
      options_(options),
      model_(module, optimizer),
      finite_(model_, options.pace.non_finite, /*warns=*/true),
      rules_(sync::rules_of(optimizer)),
      sharing_(sync::share(model_, options.local)),
      bucket_rules_(sync::with_coded(options.bucket_sizes(), sharing_.shared,
                                     sync::those_in(options.code), workers.rank() == 0)),
      collector_(workers, agreed(), layout::backwards(sharing_.shared.size()), bucket_rules_,
                 /*notes=*/0, *this) {
  if (!bucket_rules_.coded.empty())
    coded_.emplace(options.code, options.feedback, collector_.buckets(), sharing_.shared);
  unshared_ = model_.buffers();
  unshared_.insert(unshared_.end(), sharing_.local.begin(), sharing_.local.end());
  sync::broadcast_tensors(workers, model_.parameters());
  sync::broadcast_tensors(workers, model_.buffers());
  finite_.keep_buffers();
  space_ = sync::flat_space(sharing_.shared, bucket_rules_);
  sync::ServerState state(optimizer, sharing_.shared, space_.layout);
  const auto updates = state.updates();
  const sync::ModelParts& parts = options.parts;
  ps::ServerSetup setup = this->setup(has_state(workers, parts, updates));
  if (!parts.is_whole()) setup = sync::setup_of_parts(setup, workers, parts, group.mesh.rank());
  client_ = std::make_unique<ps::Client>(
      group, setup, layout::joined(space_.buckets), options.timeout,
      parts.is_whole() ? 0 : static_cast<std::size_t>(parts.communicator->rank()));
  move_parameters();
  client_->begin(workers.rank() == 0, {updates, [&](std::size_t slot, ps::Range range, float* to) {
                                         state.read(slot, range, to);
                                       }});
  state.forget();
  if (!options.work) arrive({});
}

// The shared parameters, once it is sure that all workers have the same.
const std::vector<sync::NamedTensor>& ServerReplicaOfClient::agreed() {
  auto facts = sync::agreed_values("parameter", model_.parameters());
  for (auto& fact : sync::agreed_values("buffer", model_.buffers()))
    facts.push_back(std::move(fact));
  facts.push_back({"setting bucket_bytes", std::to_string(options_.bucket_bytes)});
  facts.push_back({"setting first_bucket_bytes", std::to_string(options_.first_bucket_bytes)});
  facts.push_back({"setting in_place_bytes", std::to_string(options_.in_place_bytes)});
  facts.push_back({"setting local", fmt::format("'{}'", fmt::join(options_.local, ","))});
  facts.push_back({"setting evaluate_with", std::string(sync::name_of(options_.evaluate_with))});
  facts.push_back({"setting compress", std::string(kernels::name_of(options_.code))});
  facts.push_back({"setting feedback", options_.feedback ? "on" : "off"});
  for (std::size_t i = 0; i < rules_.size(); ++i)
    facts.push_back({fmt::format("the optimizer's group {}", i), kernels::describe(rules_[i])});
  facts.push_back({"parameters of the optimizer", std::to_string(sharing_.shared.size())});
  sync::check_agreed(workers_, facts);
  return sharing_.shared;
}

ps::ServerSetup ServerReplicaOfClient::setup(bool with_state) const {
  ps::ServerSetup setup;
  setup.layout = space_.layout;
  setup.rules = rules_;
  const auto groups = sync::groups_of(model_.optimizer(), sharing_.shared);
  for (const auto& tensor : space_.layout.tensors) setup.groups.push_back(groups[tensor.index]);
  setup.pace = options_.pace;
  setup.work = options_.work;
  setup.compensation = options_.compensation;
  setup.with_state = with_state;
  if (!coded_) return setup;
  setup.code = options_.code;
  for (std::uint32_t i = 0; i < space_.layout.tensors.size(); ++i)
    if (bucket_rules_.coded[space_.layout.tensors[i].index]) setup.coded.push_back(i);
  return setup;
}

// Parameters come to lie where servers write them; the memory they had goes. On a GPU they stay
// where they are, and are copied from there.
void ServerReplicaOfClient::move_parameters() {
  torch::NoGradGuard no_grad;
  const auto ranges = layout::ranges_by_index(space_.layout, sharing_.shared.size());
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    torch::Tensor tensor = sharing_.shared[i].tensor;
    float* place = client_->parameters().data() + ranges[i].begin;
    const torch::Tensor view = sync::host_view_like(tensor, place, client_->memory());
    view.copy_(tensor);
    if (sync::travels_as_copy(tensor.device()))
      arriving_.push_back(view);
    else
      tensor.set_data(view);
  }
  if (arriving_.empty()) return;
  locked_ = sync::lock_pages(client_->memory()->bytes(), model_.device());
  for (const auto& [name, tensor] : sharing_.shared) on_device_.push_back(tensor);
}

void ServerReplicaOfClient::arrive(const std::vector<int>& met) {
  const bool goes_back = coded_ && steps_ > 0;  // to what it had before it showed the servers'
  client_->arrive(met);
  wait();
  moved_ = moved_ || goes_back;
}

void ServerReplicaOfClient::wait() {
  const double waited_before = client_->wait_seconds();
  if (prepare_) prepare_(client_->wait_for_release());
  release_ = client_->wait();
  sync::copy_each(on_device_, arriving_);
  waited_ = client_->wait_seconds() - waited_before;
  released_at_ = Clock::now();
  figures_ = {};
  figures_.samples = options_.work ? release_.end - release_.begin : 1;
}

void ServerReplicaOfClient::describe_batch(std::uint64_t samples, double loss) {
  figures_.samples = samples;
  figures_.loss = loss;
  figures_.described = options_.work ? 0 : 1;
}

void ServerReplicaOfClient::carry(std::size_t bucket, Buffer buffer) {
  check(release_.next == ps::Release::Next::lease,
        "gradients leave before the servers gave this worker anything to do: call arrive() first, "
        "and after every sync point");
  if (bucket == 0) {
    leaving_since_ = Clock::now();
    left_.clear();
    if (coded_) coded_->begin_step(figures_.samples);
  }
  const ps::Range range = space_.buckets[bucket];
  const auto* data = static_cast<const float*>(buffer.data);
  if (!collector_.buckets().mirrored()) {
    const std::size_t looked_at = std::min<std::size_t>(range.size(), kLookedAt);
    left_.push_back({data, looked_at, kernels::sum_of_squares(data, looked_at)});
  }
  const bool in_code = collector_.buckets().coded(bucket);
  auto not_finite = kernels::count_not_finite(data, range.size());
  if (in_code && not_finite == 0) not_finite = coded_->count_made_infinite(data, range.size());
  figures_.not_finite += not_finite;
  client_->push(range, data, in_code ? coded_->encoding(bucket) : kernels::Encoding{});
}

void ServerReplicaOfClient::second_backward() {
  throw Error(
      "a second backward before step(): the first one's gradients are on their way to the servers. "
      "Put all but the last backward of a step into a NoSync scope.");
}

void ServerReplicaOfClient::finish_round() {
  check_those_that_left();
  for (const auto& [name, tensor] : sharing_.local)
    if (tensor.grad().defined() && !sync::is_finite(tensor.grad())) ++figures_.not_finite;
  pushed_finite_ = finite_.count(steps_, options_.parts.all(figures_.not_finite == 0));
  figures_.version = release_.version;
  figures_.lease = release_.lease;
  figures_.compute_seconds = seconds_since(released_at_);
  figures_.wait_seconds = waited_;
  client_->commit(figures_, learning_rates());
  wait();
  exchange_seconds_ += seconds_since(leaving_since_);
}

// In force, and for the step that is worked at.
std::vector<double> ServerReplicaOfClient::learning_rates() const {
  std::vector<double> rates = sync::learning_rates_of(model_.optimizer());
  if (options_.work)
    for (double& rate : rates) rate *= ps::pace::step_weight(*options_.work, release_.step);
  return rates;
}

StepResult ServerReplicaOfClient::step() {
  check(collector_.sync(),
        "there can be no step while synchronization is off: end the NoSync scope before step()");
  check_unchanged();
  const std::uint64_t version = release_.version;
  collector_.finish();
  if (!sharing_.local.empty() && pushed_finite_) step_local();
  collector_.next_round();
  left_.clear();
  ++steps_;
  if (coded_) coded_->end_step(pushed_finite_);
  // Workers that lease samples have the same at sync points, but what came in a code.
  moved_ = coded_ || (!options_.work && !options_.pace.in_step() && workers_.size() > 1);
  return release_.version == version ? StepResult::skipped : StepResult::applied;
}

void ServerReplicaOfClient::step_alone() {
  throw Error("a step alone, where every step's gradient is the servers': set merge");
}

void ServerReplicaOfClient::finish_exchange() {
  throw Error(
      "with servers, no worker has the average of all gradients: servers apply them as they come. "
      "clip_grad_norm() has them clip what they apply.");
}

// Gradients may have left, and servers clip the update that they make of them. Those that stay are
// scaled here.
double ServerReplicaOfClient::clip_grad_norm(double max_norm) {
  figures_.norm = sync::gradient_norm(sharing_.shared);
  const double norm = std::hypot(figures_.norm, sync::gradient_norm(sharing_.local));
  sync::scale_gradients(sharing_.local, sync::clip_factor(norm, max_norm));
  figures_.clip = figures_.clip > 0 ? std::min(figures_.clip, max_norm) : max_norm;
  return norm;
}

// A look at the begin of each bucket finds what is done to all gradients, as clipping is. Those of
// a GPU left as copies.
void ServerReplicaOfClient::check_those_that_left() const {
  constexpr const char* kChanged =
      "gradients were changed after backward, when they were on their way to the servers. To "
      "clip them, call the replica's clip_grad_norm(); to change them otherwise, run backward "
      "in a NoSync scope, change them, and then call step().";
  const sync::Buckets& buckets = collector_.buckets();
  for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket)
    check(!buckets.was_changed(bucket), "{}", kChanged);
  for (const auto& [data, count, squares] : left_)
    check(std::bit_cast<std::uint64_t>(kernels::sum_of_squares(data, count)) ==
              std::bit_cast<std::uint64_t>(squares),
          "{}", kChanged);
}

void ServerReplicaOfClient::check_unchanged() {
  for (const auto& [name, tensor] : sharing_.shared)
    check(tensor.requires_grad(),
          "parameter {} was frozen after the replica was made, and servers would go on moving it: "
          "make the replica after freezing",
          name);
  model_.check_unchanged();
  check(sync::rules_as_set(model_.optimizer()) == rules_,
        "options of the optimizer other than the learning rate were changed, and the servers go on "
        "with those it had when the replica was made. Make a new replica, or train by all-reduce "
        "(sync = allreduce), where the optimizer steps here");
}

// The user's optimizer moves the parameters that stay here; it skips those without a gradient.
void ServerReplicaOfClient::step_local() {
  std::vector<torch::Tensor> gradients;
  for (const auto& [name, tensor] : sharing_.shared)
    gradients.push_back(std::exchange(tensor.mutable_grad(), torch::Tensor()));
  model_.step();
  for (std::size_t i = 0; i < gradients.size(); ++i)
    sharing_.shared[i].tensor.mutable_grad() = gradients[i];
}

bool ServerReplicaOfClient::models_differ() {
  std::int32_t differ = moved_ ? 1 : 0;
  workers_.all_reduce(buffer_of(std::span(&differ, 1)), ReduceOp::max).or_throw();
  return differ > 0;
}

// Servers count how late this worker's next gradient is from the parameters that it got with its
// last step.
void ServerReplicaOfClient::synchronize() {
  if (!models_differ()) return;
  fetch_parameters();
  moved_ = false;
}

// All workers get what the servers have now. When all have come, none has a push under way.
void ServerReplicaOfClient::fetch_parameters() {
  if (coded_) (void)client_->known();  // training goes on from there
  workers_.barrier().or_throw();
  sync::together(workers_, [&] {
    if (workers_.rank() == 0) client_->fetch_parameters();
  });
  workers_.broadcast(buffer_of(client_->parameters())).or_throw();
  sync::copy_each(on_device_, arriving_);
}

void ServerReplicaOfClient::with_mean_model(const std::function<void()>& use) {
  const sync::KeptTensors own(unshared_);
  average_buffers();
  if (!models_differ()) return use();
  // Servers see late gradients in the light of what is in the client's memory.
  std::vector<sync::NamedTensor> seen = sharing_.shared;
  for (const torch::Tensor& tensor : arriving_) seen.push_back({"", tensor});
  const sync::KeptTensors kept(std::move(seen));
  fetch_parameters();
  use();
}

void ServerReplicaOfClient::check_equal() {
  sync::check_equal_tensors(workers_, "parameter", sync::common_parameters(model_, sharing_));
}

// Weights that travel in a code, as servers know this worker to have them: views.
std::vector<sync::NamedTensor> ServerReplicaOfClient::known_weights() {
  const auto known = client_->known();
  const auto ranges = layout::ranges_by_index(space_.layout, sharing_.shared.size());
  std::vector<sync::NamedTensor> weights;
  for (std::size_t i = 0; i < ranges.size(); ++i)
    if (bucket_rules_.coded[i])
      weights.push_back({"known " + sharing_.shared[i].name,
                         sync::host_view_like(sharing_.shared[i].tensor,
                                              known->data() + ranges[i].begin, known)});
  return weights;
}

ReplicaState ServerReplicaOfClient::state() {
  return coded_ ? coded_->state(known_weights()) : ReplicaState();
}

void ServerReplicaOfClient::restore(const ReplicaState& state) {
  if (!coded_) return;
  coded_->restore(state, known_weights());
  client_->tell_known();
  moved_ = true;
}

// Into the optimizer, when all workers have come: none has a push under way then.
void ServerReplicaOfClient::fetch_state(std::optional<ps::Range> range) {
  workers_.barrier().or_throw();
  sync::ServerState state(model_.optimizer(), sharing_.shared, space_.layout);
  sync::together(workers_, [&] {
    if (range)
      client_->fetch_state(
          *range, [&](std::span<const double> updates) { state.begin_write(updates, *range); },
          [&](std::size_t slot, ps::Range piece, const float* from) {
            state.write(slot, piece, from);
          });
    state.end_write();
  });
}

// Each worker some of the tensors.
std::vector<sync::NamedTensor> ServerReplicaOfClient::fetch_optimizer_state() {
  const auto parts = layout::cut_into_shards(
      space_.layout, static_cast<std::size_t>(workers_.size()), /*whole_tensors=*/true);
  fetch_state(parts[static_cast<std::size_t>(workers_.rank())]);
  auto tensors = sync::named_state(model_.optimizer(), sharing_.shared);
  sync::ServerState(model_.optimizer(), sharing_.shared, space_.layout).forget();
  return tensors;
}

void ServerReplicaOfClient::gather_optimizer_state() {
  const bool fetches = workers_.rank() == 0;
  fetch_state(fetches ? std::optional(ps::Range{0, space_.layout.elements}) : std::nullopt);
  sync::broadcast_state(workers_, model_.optimizer(), sharing_.shared);
  if (!sharing_.local.empty()) sync::average_state(workers_, model_.optimizer(), sharing_.local);
}

ReplicaStats ServerReplicaOfClient::stats() const {
  return {.steps = steps_,
          .wait_seconds = client_->wait_seconds(),
          .exchange_seconds = exchange_seconds_,
          .bytes_moved = client_->bytes_moved(),
          .noise_scale = release_.knows_noise ? std::optional(release_.noise_scale) : std::nullopt,
          .skipped = finite_.skipped(),
          .skipped_in_succession = finite_.in_succession(),
          .skipped_lately = finite_.lately()};
}

}  // namespace

std::unique_ptr<ServerReplica> make_server_replica(Communicator& workers, net::MemberGroup group,
                                                   torch::nn::Module& module,
                                                   torch::optim::Optimizer& optimizer,
                                                   const ServerReplicaOptions& options) {
  if (options.merge != Merge::none)
    return sync::make_merge_replica(workers, group, module, optimizer, options);
  return std::make_unique<ServerReplicaOfClient>(workers, group, module, optimizer, options);
}

}  // namespace asup
