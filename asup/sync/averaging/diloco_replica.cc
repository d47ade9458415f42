#include "asup/sync/averaging/diloco_replica.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "asup/base/error.h"
#include "asup/base/seed.h"
#include "asup/sync/averaging/exchange_dtype.h"
#include "asup/sync/averaging/local_update_replica.h"
#include "asup/sync/compressors/sparse_gradients.h"

namespace asup {
namespace {

constexpr double kFading = 0.95;  // of what sparse differences leave, from exchange to exchange
constexpr double kMixing = 0.5;   // of the shared model, where steps were taken since

std::vector<sync::AgreedValue> agreed_values(const DilocoOptions& options) {
  return {{"setting every", std::to_string(options.every)},
          {"setting outer_lr", fmt::format("{}", options.outer_lr)},
          {"setting outer_momentum", fmt::format("{}", options.outer_momentum)},
          {"setting overlap", std::to_string(options.overlap)},
          {"setting fragments", std::to_string(options.fragments)},
          {"setting in_bf16", options.in_bf16 ? "yes" : "no"},
          {"setting code", std::string(kernels::name_of(options.code))},
          {"setting density", fmt::format("{}", options.density)}};
}

// A part of the model, exchanged as one.
struct Fragment {
  std::int64_t begin = 0, end = 0;  // elements
  std::int64_t due = 0;        // the step, counted from the last synchronize(), of its exchange
  bool moved = false;          // since workers had it in common
  std::int64_t exchanges = 0;  // that were applied

  // While it is under way.
  bool under_way = false;
  Clock::time_point since;
  bool is_whole = false;    // it travels as it is, where differences usually do not
  std::vector<Work> works;  // none, where its differences have come
  double squared = 0;       // |d_i|^2, then the mean over ranks

  // As last found: the mean over ranks of |x_i - mean|^2, and |mean|^2.
  double apart = 0, size = 0;
};

class DilocoReplica final : public sync::LocalUpdateReplica {
 public:
  DilocoReplica(Communicator& communicator, torch::nn::Module& module,
                torch::optim::Optimizer& optimizer, const DilocoOptions& options);
  ~DilocoReplica() override;

  void synchronize() override;
  void regroup() override;
  ReplicaState state() override;
  void restore(const ReplicaState& state) override;
  bool keeps_own_optimizer() const override { return true; }

 private:
  void before_step() override;
  void after_step() override;
  bool has_moved() const override;
  void plan();
  std::vector<std::int64_t> settings_of_plan() const;
  enum class What { usual, all };  // of the differences, where they are sparse
  void start(Fragment& fragment, What what = What::usual);
  Work send(Fragment& fragment);
  Coding coding(const Fragment& fragment) const;
  bool keeps() const { return kept_.defined(); }
  void arrive(Fragment& fragment);
  void keep(const Fragment& fragment);
  void apply(Fragment& fragment, bool mix);
  void move_shared(Fragment& fragment, const torch::Tensor& gradient);
  void adopt_shared(Fragment& fragment, bool mix);
  bool catch_up(Fragment& fragment);
  // Where differences travel.
  const torch::Tensor& travelling() { return options_.in_bf16 ? narrow_ : flat().all(); }
  torch::Tensor part(const torch::Tensor& whole, const Fragment& fragment) const {
    return whole.narrow(0, fragment.begin, fragment.end - fragment.begin);
  }

  // Constant after construction.
  const DilocoOptions options_;

  torch::Tensor shared_;    // the model that all share
  torch::Tensor momentum_;  // of the outer optimizer
  torch::Tensor narrow_;    // what travels, where that is bf16
  std::optional<sync::SparseGradients> sparse_;
  // What has not travelled, where it is kept: before what is under way, and after.
  torch::Tensor kept_, kept_after_;
  std::vector<Fragment> fragments_;
  std::int64_t round_step_ = 0;  // since the last synchronize()
};

DilocoReplica::DilocoReplica(Communicator& communicator, torch::nn::Module& module,
                             torch::optim::Optimizer& optimizer, const DilocoOptions& options)
    : LocalUpdateReplica(communicator, module, optimizer, agreed_values(options), options.jitter),
      options_(options),
      momentum_(torch::zeros_like(flat().all())) {
  require(options.every >= 1, "models cannot be exchanged every {} steps", options.every);
  require(options.fragments >= 1 && options.fragments <= options.every,
          "{} fragments cannot be exchanged one by one in {} steps", options.fragments,
          options.every);
  require(options.overlap >= 0 && options.overlap < options.every,
          "an exchange every {} steps cannot take {} of them: it must end before the next",
          options.every, options.overlap);
  require(options.outer_lr > 0 && options.outer_momentum >= 0 && options.outer_momentum < 1,
          "no outer optimizer has learning rate {} and momentum {}", options.outer_lr,
          options.outer_momentum);
  const int ways = (options.in_bf16 ? 1 : 0) + (options.code != kernels::Code::none ? 1 : 0) +
                   (options.density != 0 ? 1 : 0);
  require(options.density >= 0 && options.density <= 1 && ways <= 1,
          "differences travel as bf16, in a code, or the largest of them do in two bits: one of "
          "these; their share is {}",
          options.density);
  require(options.code == kernels::Code::none || momentum_.scalar_type() == torch::kFloat32,
          "codes are for models in f32, and this one is in {}",
          torch::toString(momentum_.scalar_type()));
  if (options.density > 0) {
    require(momentum_.scalar_type() == torch::kFloat32,
            "sparse differences are of models in f32, and this one is in {}",
            torch::toString(momentum_.scalar_type()));
    sparse_.emplace(communicator, sync::Sparsity{.density = options.density,
                                                 .as = sync::SparseNumbers::two_bits});
  }
  if (sparse_ || sync::keeps_what_is_lost(options.code)) {
    kept_ = torch::zeros_like(momentum_);
    kept_after_ = torch::zeros_like(momentum_);
  }
  if (options.in_bf16)
    narrow_ = sync::tensor_for_links(communicator, flat().elements(), torch::kBFloat16);
  const std::int64_t elements = flat().elements(), count = options.fragments;
  for (std::int64_t i = 0; i < count; ++i) {
    Fragment fragment;
    fragment.begin = elements * i / count;
    fragment.end = elements * (i + 1) / count;
    require(!sparse_ || fragment.end - fragment.begin <= std::numeric_limits<std::uint32_t>::max(),
            "a fragment of {} numbers is too large for sparse differences: raise fragments",
            fragment.end - fragment.begin);
    if (fragment.begin < fragment.end) fragments_.push_back(std::move(fragment));
  }
  plan();
}

// Peers may still read what this replica sends.
DilocoReplica::~DilocoReplica() {
  for (Fragment& fragment : fragments_)
    for (Work& work : fragment.works) (void)work.wait();
}

// The last fragment is exchanged after H steps, the others before, evenly.
void DilocoReplica::plan() {
  const auto count = static_cast<std::int64_t>(fragments_.size());
  for (std::int64_t i = 0; i < count; ++i)
    fragments_[static_cast<std::size_t>(i)].due = options_.every * (i + 1) / count;
  round_step_ = 0;
}

bool DilocoReplica::has_moved() const {
  return std::any_of(fragments_.begin(), fragments_.end(),
                     [](const Fragment& fragment) { return fragment.moved || fragment.under_way; });
}

// Models are one here, unless a checkpoint has the shared one.
void DilocoReplica::before_step() {
  if (shared_.defined()) return;
  flat().take(flat().parameters());
  shared_ = flat().all().clone();
}

void DilocoReplica::after_step() {
  ++round_step_;
  for (Fragment& fragment : fragments_) {
    fragment.moved = true;
    if (fragment.under_way && fragment.due + options_.overlap == round_step_) {
      apply(fragment, true);
      fragment.due += options_.every;
    } else if (fragment.due == round_step_) {
      apply_jitter();
      start(fragment);
      if (options_.overlap > 0) continue;
      apply(fragment, false);
      fragment.due += options_.every;
    }
  }
}

// d_i leaves.
void DilocoReplica::start(Fragment& fragment, What what) {
  fragment.since = Clock::now();
  flat().take(fragment.begin, fragment.end);
  torch::Tensor difference = part(flat().all(), fragment);
  difference.neg_().add_(part(shared_, fragment));
  fragment.is_whole = keeps() && what == What::all;
  if (fragment.is_whole) part(kept_after_, fragment).copy_(part(kept_, fragment));
  const double size = difference.norm().item<double>();
  fragment.squared = size * size;
  if (options_.in_bf16) part(narrow_, fragment).copy_(difference);
  fragment.works.push_back(send(fragment));
  fragment.works.push_back(communicator().start_all_reduce(
      buffer_of(std::span(&fragment.squared, 1)), ReduceOp::average));
  fragment.under_way = true;
}

Work DilocoReplica::send(Fragment& fragment) {
  const Buffer differences = asup::buffer_of(part(travelling(), fragment));
  if (!sparse_ || fragment.is_whole)
    return communicator().start_all_reduce(differences, ReduceOp::average, coding(fragment));
  Compressor::Bucket bucket{.index = static_cast<std::size_t>(&fragment - fragments_.data()),
                            .gradients = differences,
                            .tensors = {},
                            .kept = {{part(kept_, fragment).const_data_ptr<float>(),
                                      part(kept_after_, fragment).data_ptr<float>()}},
                            .exchange = static_cast<std::uint64_t>(fragment.exchanges)};
  return sparse_->leave(bucket);
}

Coding DilocoReplica::coding(const Fragment& fragment) const {
  if (fragment.is_whole || options_.code == kernels::Code::none) return {};
  if (keeps())
    return {.code = options_.code,
            .carried = part(kept_, fragment).const_data_ptr<float>(),
            .lost = part(kept_after_, fragment).data_ptr<float>()};
  const auto place = static_cast<std::uint64_t>(&fragment - fragments_.data());
  return {
      .code = options_.code,
      .noise = seed_of(static_cast<std::uint64_t>(fragment.exchanges) * fragments_.size() + place)};
}

// d has come to where differences travel, unless it had before.
void DilocoReplica::arrive(Fragment& fragment) {
  if (fragment.works.empty()) return;
  const Outcome failure = wait_for_all(fragment.works);
  expect(failure);
  fragment.works.clear();
  if (sparse_ && !fragment.is_whole)
    sparse_->arrive(static_cast<std::size_t>(&fragment - fragments_.data()));
}

// What was not sent fades; what a code has lost does not.
void DilocoReplica::keep(const Fragment& fragment) {
  part(kept_, fragment).copy_(part(kept_after_, fragment));
  if (sparse_) part(kept_, fragment).mul_(kFading);
}

// d has come. With `mix`, this worker has taken steps since.
void DilocoReplica::apply(Fragment& fragment, bool mix) {
  const auto start = Clock::now();
  arrive(fragment);
  waited(start);
  fragment.under_way = false;
  if (sparse_ || (keeps() && communicator().size() > 1)) keep(fragment);  // one rank codes nothing
  const torch::Tensor difference = part(flat().all(), fragment);
  if (options_.in_bf16) difference.copy_(part(narrow_, fragment));
  move_shared(fragment, difference);
  adopt_shared(fragment, mix);
  exchanged(fragment.since);
}

// This worker goes on from the shared model, or from the middle.
void DilocoReplica::adopt_shared(Fragment& fragment, bool mix) {
  const torch::Tensor place = part(flat().all(), fragment);
  if (mix) {
    flat().take(fragment.begin, fragment.end);
    place.lerp_(part(shared_, fragment), kMixing);
  } else {
    place.copy_(part(shared_, fragment));
  }
  flat().give(fragment.begin, fragment.end);
  fragment.moved = mix;
  ++fragment.exchanges;
  merged();
}

void DilocoReplica::move_shared(Fragment& fragment, const torch::Tensor& gradient) {
  const torch::Tensor shared = part(shared_, fragment), momentum = part(momentum_, fragment);
  const double mean = gradient.norm().item<double>();
  fragment.apart = fragment.squared - mean * mean;
  momentum.mul_(options_.outer_momentum).add_(gradient);
  shared.sub_(gradient, options_.outer_lr)
      .sub_(momentum, options_.outer_lr * options_.outer_momentum);
  const double size = shared.norm().item<double>();
  fragment.size = size * size;
  double apart_of_all = 0, size_of_all = 0;
  for (const Fragment& each : fragments_) {
    apart_of_all += std::max(0.0, each.apart);
    size_of_all += each.size;
  }
  if (!sparse_) found_distance(apart_of_all, size_of_all);  // which is of whole differences
}

// What was under way stays in the worker's own model, and goes into the next exchange.
void DilocoReplica::regroup() {
  std::vector<bool> has_sent;
  for (Fragment& fragment : fragments_) {
    has_sent.push_back(fragment.under_way);
    for (Work& work : std::exchange(fragment.works, {})) (void)work.wait();
    fragment.under_way = false;
  }
  for (std::size_t i = 0; i < fragments_.size(); ++i) {
    Fragment& fragment = fragments_[i];
    // What others have ended has what this worker sent for it.
    if (catch_up(fragment) && keeps() && has_sent[i]) keep(fragment);
    fragment.moved = shared_.defined();  // before the first step there is nothing to exchange
  }
}

// A worker that has missed an exchange which others have ended adopts what came of it: its own
// steps until then are part of that. Whether this one has.
bool DilocoReplica::catch_up(Fragment& fragment) {
  const auto counts = counts_of_all(fragment.exchanges);
  const auto furthest = std::max_element(counts.begin(), counts.end());
  if (std::all_of(counts.begin(), counts.end(), [&](auto count) { return count == *furthest; }))
    return false;
  const auto root = static_cast<int>(furthest - counts.begin());
  for (const torch::Tensor& whole : {shared_, momentum_})
    expect(communicator().broadcast(asup::buffer_of(part(whole, fragment)), root));
  if (fragment.exchanges >= *furthest) return false;
  adopt_shared(fragment, options_.overlap > 0);
  return true;
}

// The plan is that of exchanges, behind the settings that it is of.
ReplicaState DilocoReplica::state() {
  std::vector<std::int64_t> plan = settings_of_plan();
  std::vector<double> figures;
  torch::Tensor pending;
  if (options_.overlap > 0) pending = torch::zeros_like(travelling());
  plan.push_back(round_step_);
  for (Fragment& fragment : fragments_) {
    arrive(fragment);
    if (fragment.under_way) part(pending, fragment).copy_(part(travelling(), fragment));
    plan.insert(plan.end(), {fragment.due, fragment.moved ? 1 : 0, fragment.under_way ? 1 : 0,
                             fragment.exchanges});
    figures.insert(figures.end(), {fragment.squared, fragment.apart, fragment.size});
  }
  const bool has_shared = shared_.defined();
  ReplicaState state;
  state.common = {{"outer momentum", momentum_},
                  {"shared model", has_shared ? shared_ : torch::zeros_like(flat().all())},
                  {"has a shared model", torch::tensor({has_shared ? 1 : 0}, torch::kInt64)},
                  {"plan of exchanges", torch::tensor(plan, torch::kInt64)},
                  {"figures of exchanges", torch::tensor(figures, torch::kFloat64)}};
  if (pending.defined()) state.common.push_back({"pending differences", pending});
  if (keeps())
    state.parts = {{"kept differences", kept_}, {"kept after what is under way", kept_after_}};
  return state;
}

// A plan without a shared model is that of a replica that has done nothing.
std::vector<std::int64_t> DilocoReplica::settings_of_plan() const {
  const auto form = (options_.in_bf16 ? 1 : 0) + 2 * static_cast<std::int64_t>(options_.code);
  return {shared_.defined() ? 1 : 0, options_.every, options_.overlap, form};
}

// By other settings than before, there is a new plan. What was under way is still in the workers'
// own models, and goes into the next exchange.
void DilocoReplica::restore(const ReplicaState& state) {
  momentum_.copy_(state.common[0].tensor);
  if (keeps()) {
    kept_.copy_(state.parts[0].tensor);
    kept_after_.copy_(state.parts[1].tensor);
  }
  if (state.common[2].tensor[0].item<std::int64_t>() == 0) return;
  shared_ = state.common[1].tensor.clone();
  const auto plan = state.common[3].tensor.accessor<std::int64_t, 1>();
  const auto figures = state.common[4].tensor.accessor<double, 1>();
  std::int64_t at = 0, figure = 0;
  bool is_known = true;
  for (const std::int64_t setting : settings_of_plan()) is_known &= plan[at++] == setting;
  if (is_known) round_step_ = plan[at++];
  for (Fragment& fragment : fragments_) {
    fragment.moved = true;
    if (!is_known) continue;
    fragment.due = plan[at++];
    fragment.moved = plan[at++] != 0;
    fragment.under_way = plan[at++] != 0;
    fragment.exchanges = plan[at++];
    fragment.squared = figures[figure++];
    fragment.apart = figures[figure++];
    fragment.size = figures[figure++];
    fragment.since = Clock::now();
    if (fragment.under_way)
      part(travelling(), fragment).copy_(part(state.common[5].tensor, fragment));
  }
}

void DilocoReplica::synchronize() {
  for (Fragment& fragment : fragments_)
    if (fragment.under_way) apply(fragment, true);
  for (Fragment& fragment : fragments_)
    if (fragment.moved) start(fragment, What::all);
  for (Fragment& fragment : fragments_)
    if (fragment.under_way) apply(fragment, false);
  plan();
}

}  // namespace

std::unique_ptr<sync::LocalUpdateReplica> make_diloco_replica(Communicator& communicator,
                                                              torch::nn::Module& module,
                                                              torch::optim::Optimizer& optimizer,
                                                              const DilocoOptions& options) {
  return std::make_unique<DilocoReplica>(communicator, module, optimizer, options);
}

}  // namespace asup
