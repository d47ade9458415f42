#include "asup/sync/server/merge_replica.h"

#include <fmt/ranges.h>

#include <utility>

#include "asup/base/error.h"
#include "asup/kernels/finite.h"
#include "asup/ps/client.h"
#include "asup/sync/gradients/clip.h"
#include "asup/sync/gradients/finite_steps.h"
#include "asup/sync/model/agreement.h"
#include "asup/sync/model/device.h"
#include "asup/sync/model/kept_tensors.h"
#include "asup/sync/model/optimizer_state.h"
#include "asup/sync/model/sharing.h"
#include "asup/sync/model/trained_model.h"

namespace asup::sync {
namespace {

class MergeReplica final : public ServerReplica {
 public:
  MergeReplica(Communicator& workers, net::MemberGroup group, torch::nn::Module& module,
               torch::optim::Optimizer& optimizer, const ServerReplicaOptions& options);

  StepResult step() override;
  void step_alone() override;
  void finish_exchange() override {}  // gradients stay here: they may be read and clipped at once
  double clip_grad_norm(double max_norm) override;
  void set_sync(bool sync) override { sync_ = sync; }
  void synchronize() override;
  bool has_moved() const override { return moved_; }
  bool models_differ() override { return on_any_worker(moved_); }
  void average_buffers() override { settle_unshared(workers_, averaged_, options_.evaluate_with); }
  void with_mean_model(const std::function<void()>& use) override;
  void check_equal() override;
  std::string observed() const override { return ""; }
  ReplicaState state() override { return {}; }
  void restore(const ReplicaState&) override {}
  bool keeps_own_optimizer() const override { return true; }
  void gather_optimizer_state() override {
    average_state(workers_, model_.optimizer(), model_.parameters());
  }
  ReplicaStats stats() const override;

  void describe_batch(std::uint64_t samples, double loss) override;
  const ps::Release& release() const override { return release_; }
  void arrive(const std::vector<int>& met) override;
  void when_released(std::function<void(const ps::Release&)> prepare) override {
    prepare_ = std::move(prepare);
  }
  void ask_for_sync_point() override { client_->ask_for_sync_point(); }
  const std::vector<NamedTensor>& unshared() const override { return unshared_; }
  void show_common(bool common) override;
  std::string report() override { return client_->report(); }

 private:
  void check_same() const;
  ps::ServerSetup setup() const;
  void move_parameters();
  double rate() const;
  void pull_together(double rate);
  void take_center();
  void exchange();
  bool on_any_worker(bool here);
  void fetch_center();
  void add_to_figures(const ps::Figures& step);
  void wait();
  void show(const std::vector<torch::Tensor>& views);
  // What the module shows of the center, where the model is not on the host.
  void give_center() {
    if (is_copied_) copy_each(center_, received_);
  }
  float* pushed() const { return reinterpret_cast<float*>(memory_->bytes().data()); }
  bool is_easgd() const { return options_.merge == Merge::easgd; }
  torch::Tensor whole(float* data) const;

  // Constant after construction.
  Communicator& workers_;
  const int shares_;  // pushes that are a step, where no samples are leased
  const ServerReplicaOptions options_;
  TrainedModel model_;
  FiniteSteps finite_;
  const bool is_copied_;  // the model is on a GPU
  const Sharing sharing_;
  const layout::Layout layout_;         // of what servers keep: each parameter on a cache line
  std::unique_ptr<ps::Client> client_;  // its parameters are the center
  std::shared_ptr<net::ReachableMemory> memory_;  // of what is pushed
  // By parameter: views of what is pushed, and of the client's parameters.
  std::vector<torch::Tensor> pushed_, received_;
  // What the module shows: the same views, or tensors of their own where the model is on a GPU; the
  // worker's own with easgd too, which pushes something else.
  std::vector<torch::Tensor> own_, center_;
  std::shared_ptr<void> locked_pushed_, locked_received_;  // the pages, for the GPU
  std::vector<NamedTensor> averaged_, unshared_;

  bool sync_ = true, shows_common_ = false;
  std::function<void(const ps::Release&)> prepare_;
  ps::Release release_;
  std::optional<ps::Figures> described_;  // of the step under way, without leases
  ps::Figures figures_;                   // since the last exchange
  std::int64_t alone_ = 0;                // steps since then
  Clock::time_point released_at_;
  double waited_ = 0;
  std::uint64_t steps_ = 0;
  double exchange_seconds_ = 0;
  bool moved_ = false;        // since all workers had the same parameters
  bool was_admitted_ = true;  // the last step
};

MergeReplica::MergeReplica(Communicator& workers, net::MemberGroup group, torch::nn::Module& module,
                           torch::optim::Optimizer& optimizer, const ServerReplicaOptions& options)
    : workers_(workers),
      shares_(options.pace.shares(group.workers)),
      options_(options),
      model_(module, optimizer),
      finite_(model_, options.pace.non_finite, /*warns=*/true),
      is_copied_(travels_as_copy(model_.device())),
      sharing_(share(model_, options.local)),
      layout_(layout::without_empty(layout::aligned(shapes_of(sharing_.shared)))) {
  check_same();
  broadcast_tensors(workers, model_.parameters());
  broadcast_tensors(workers, model_.buffers());
  finite_.keep_buffers();
  client_ = std::make_unique<ps::Client>(group, setup(), std::vector<ps::Range>{}, options.timeout);
  memory_ = group.mesh.allocate(layout_.elements * sizeof(float));
  move_parameters();
  averaged_ = model_.buffers();
  averaged_.insert(averaged_.end(), sharing_.local.begin(), sharing_.local.end());
  unshared_ = averaged_;
  for (std::size_t i = 0; i < own_.size(); ++i)
    unshared_.push_back({"own " + sharing_.shared[i].name, own_[i]});
  client_->begin(workers.rank() == 0);
  if (!options.work) arrive({});
}

void MergeReplica::check_same() const {
  auto facts = agreed_values("parameter", model_.parameters());
  for (auto& fact : agreed_values("buffer", model_.buffers())) facts.push_back(std::move(fact));
  facts.push_back({"setting local", fmt::format("'{}'", fmt::join(options_.local, ","))});
  facts.push_back({"setting evaluate_with", std::string(name_of(options_.evaluate_with))});
  facts.push_back({"setting every", std::to_string(options_.every)});
  facts.push_back({"setting elasticity", fmt::format("{}", options_.elasticity)});
  facts.push_back({"parameters of the optimizer", std::to_string(sharing_.shared.size())});
  check_agreed(workers_, facts);
}

ps::ServerSetup MergeReplica::setup() const {
  ps::ServerSetup setup;
  setup.layout = layout_;
  setup.rules = {{.kind = is_easgd() ? kernels::Rule::Kind::sgd : kernels::Rule::Kind::merge}};
  setup.pace = options_.pace;
  setup.work = options_.work;
  return setup;
}

// Both begin with what the module has, which keeps the worker's own.
void MergeReplica::move_parameters() {
  torch::NoGradGuard no_grad;
  const auto ranges = layout::ranges_by_index(layout_, sharing_.shared.size());
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const torch::Tensor& tensor = sharing_.shared[i].tensor;
    const std::uint64_t at = ranges[i].begin;
    pushed_.push_back(host_view_like(tensor, pushed() + at, memory_));
    received_.push_back(
        host_view_like(tensor, client_->parameters().data() + at, client_->memory()));
    pushed_.back().copy_(tensor);
    received_.back().copy_(tensor);
    own_.push_back(is_copied_ || is_easgd() ? tensor.detach().clone() : pushed_.back());
    center_.push_back(is_copied_ ? tensor.detach().clone() : received_.back());
  }
  if (is_copied_) {
    locked_pushed_ = lock_pages(memory_->bytes(), model_.device());
    locked_received_ = lock_pages(client_->memory()->bytes(), model_.device());
  }
  show(own_);
}

void MergeReplica::show_common(bool common) {
  shows_common_ = common;
  const bool is_common = common || release_.next != ps::Release::Next::lease;
  if (is_common) give_center();
  show(is_common ? center_ : own_);
}

void MergeReplica::show(const std::vector<torch::Tensor>& views) {
  torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < views.size(); ++i) {
    torch::Tensor tensor = sharing_.shared[i].tensor;
    tensor.set_data(views[i]);
  }
}

void MergeReplica::arrive(const std::vector<int>& met) {
  client_->arrive(met);
  wait();
}

void MergeReplica::wait() {
  const double waited_before = client_->wait_seconds();
  if (prepare_) prepare_(client_->wait_for_release());
  release_ = client_->wait();
  waited_ = client_->wait_seconds() - waited_before;
  released_at_ = Clock::now();
  show_common(false);
  figures_ = {};
  figures_.samples = options_.work ? release_.end - release_.begin : 1;
  alone_ = 0;
}

void MergeReplica::describe_batch(std::uint64_t samples, double loss) {
  if (options_.work) {
    figures_.samples = samples;
    figures_.loss = loss;
  } else {
    described_ = ps::Figures{.samples = samples, .loss = loss};
  }
}

double MergeReplica::clip_grad_norm(double max_norm) {
  const double norm = clip_gradients(model_.trainable(), max_norm);
  finite_.found_norm(norm);
  return norm;
}

void MergeReplica::step_alone() {
  check(sync_,
        "there can be no step while synchronization is off: end the NoSync scope before step()");
  check(release_.next == ps::Release::Next::lease,
        "a step before the servers gave this worker anything to do: call arrive() first, and after "
        "every sync point");
  check(!shows_common_,
        "there can be no step while the module has the servers' parameters: call "
        "show_common(false) first");
  model_.check_unchanged();
  const auto step = std::exchange(described_, std::nullopt);
  was_admitted_ = finite_.admits(steps_);
  if (was_admitted_) {
    model_.step();
    if (step) add_to_figures(*step);
  }
  ++steps_;
  ++alone_;
  moved_ = !options_.work && workers_.size() > 1;
}

// Those of all steps since the last exchange.
void MergeReplica::add_to_figures(const ps::Figures& step) {
  figures_.samples = (figures_.described ? figures_.samples : 0) + step.samples;
  figures_.loss += step.loss;
  figures_.described = 1;
}

StepResult MergeReplica::step() {
  step_alone();
  if (options_.work || alone_ >= options_.every) {
    exchange();
    if (!is_easgd() && options_.pace.in_step()) moved_ = false;
  }
  return was_admitted_ ? StepResult::applied : StepResult::skipped;
}

// Of the whole way between the center and the workers' mean: servers take a push for as much of it
// as it has samples of a step.
double MergeReplica::rate() const {
  const double weight = options_.work ? ps::pace::step_weight(*options_.work, release_.step) : 1;
  return weight * (is_easgd() ? options_.elasticity : 1);
}

// Equal and opposite forces: the worker moves here by what it pushes for the servers to move by.
void MergeReplica::pull_together(double rate) {
  if (!options_.pace.in_step()) client_->fetch_parameters_now();
  copy_each(pushed_, own_);
  whole(pushed()).neg_().add_(whole(client_->parameters().data()));
  for (std::size_t i = 0; i < own_.size(); ++i) own_[i].add_(pushed_[i].to(own_[i].device()), rate);
}

void MergeReplica::take_center() { copy_each(own_, received_); }

void MergeReplica::exchange() {
  const auto start = Clock::now();
  torch::NoGradGuard no_grad;
  const double share = options_.work ? static_cast<double>(figures_.samples) /
                                           static_cast<double>(options_.work->batch)
                                     : 1.0 / shares_;
  const double lr = rate();
  figures_.compute_seconds = seconds_since(released_at_);
  if (is_easgd())
    pull_together(lr * share);
  else if (is_copied_)
    copy_each(pushed_, own_);
  figures_.version = release_.version;
  figures_.lease = release_.lease;
  figures_.not_finite = kernels::count_not_finite(pushed(), layout_.elements);
  figures_.wait_seconds = waited_;
  client_->push({0, layout_.elements}, pushed());
  client_->commit(figures_, {&lr, 1});
  // Servers leave parameters out that are no numbers; such a worker goes on from the center.
  const bool goes_on_from_center = !is_easgd() || figures_.not_finite > 0;
  wait();
  if (goes_on_from_center) take_center();
  exchange_seconds_ += seconds_since(start);
}

torch::Tensor MergeReplica::whole(float* data) const {
  return torch::from_blob(data, {static_cast<std::int64_t>(layout_.elements)}, torch::kFloat32);
}

bool MergeReplica::on_any_worker(bool here) {
  std::int32_t any = here ? 1 : 0;
  workers_.all_reduce(buffer_of(std::span(&any, 1)), ReduceOp::max).or_throw();
  return any > 0;
}

// What workers have learned since their last exchange is in the center first.
void MergeReplica::synchronize() {
  if (!models_differ()) return;
  if (on_any_worker(alone_ > 0)) exchange();
  fetch_center();
  torch::NoGradGuard no_grad;
  take_center();
  moved_ = false;
}

// As the servers have it when all workers have come: none has a push under way.
void MergeReplica::fetch_center() {
  workers_.barrier().or_throw();
  together(workers_, [&] {
    if (workers_.rank() == 0) client_->fetch_parameters();
  });
  torch::NoGradGuard no_grad;
  torch::Tensor center = whole(client_->parameters().data());
  workers_.broadcast(buffer_of(center)).or_throw();
}

// The servers have the model that all have in common; it takes the mean's place.
void MergeReplica::with_mean_model(const std::function<void()>& use) {
  struct Shown {
    MergeReplica& replica;
    const bool before;
    ~Shown() { replica.show_common(before); }
  } shown{*this, shows_common_};
  if (models_differ()) fetch_center();
  show_common(true);
  const KeptTensors own(averaged_);
  average_buffers();
  use();
}

void MergeReplica::check_equal() {
  check_equal_tensors(workers_, "parameter", common_parameters(model_, sharing_));
}

ReplicaStats MergeReplica::stats() const {
  return {.steps = steps_,
          .wait_seconds = client_->wait_seconds(),
          .exchange_seconds = exchange_seconds_,
          .bytes_moved = client_->bytes_moved(),
          .skipped = finite_.skipped(),
          .skipped_in_succession = finite_.in_succession(),
          .skipped_lately = finite_.lately()};
}

}  // namespace

std::unique_ptr<ServerReplica> make_merge_replica(Communicator& workers, net::MemberGroup group,
                                                  torch::nn::Module& module,
                                                  torch::optim::Optimizer& optimizer,
                                                  const ServerReplicaOptions& options) {
  return std::make_unique<MergeReplica>(workers, group, module, optimizer, options);
}

}  // namespace asup::sync
