#include "asup/sync/gradients/gradient_collector.h"

#include <algorithm>
#include <limits>

#include "asup/base/error.h"
#include "asup/base/quietly.h"
#include "asup/kernels/copy.h"

namespace asup::sync {
namespace {

void check_gradient(const NamedTensor& parameter, const torch::Tensor& view) {
  const torch::Tensor& gradient = parameter.tensor.grad();
  require(gradient.layout() == torch::kStrided,
          "parameter {} has a sparse gradient, which cannot be averaged: make its layer with "
          "sparse(false)",
          parameter.name);
  check(!gradient.requires_grad(),
        "the gradient of parameter {} has a graph of its own (backward with create_graph): "
        "take gradients of gradients with torch::autograd::grad, and call backward without "
        "create_graph",
        parameter.name);
  if (gradient.sizes() == view.sizes() && gradient.scalar_type() == view.scalar_type() &&
      gradient.device() == view.device())
    return;
  throw Error(fmt::format(
      "the gradient of parameter {} is {} on {} and was to be {} on {}: reshape, cast or move a "
      "model before its replica is made",
      parameter.name, describe(gradient), gradient.device().str(), describe(view),
      view.device().str()));
}

// Bytes of gradients that are alone in their bucket.
std::vector<std::size_t> large(const std::vector<NamedTensor>& parameters,
                               std::size_t alone_bytes) {
  std::vector<std::size_t> sizes;
  for (const auto& [name, tensor] : parameters)
    if (tensor.nbytes() >= alone_bytes) sizes.push_back(tensor.nbytes());
  return sizes;
}

// On the CPU, gradients are larger than caches and not read again here: a copy that goes around
// them is faster.
void copy_gradient(const torch::Tensor& to, const torch::Tensor& from) {
  if (to.is_cpu() && from.strides() == to.strides() && to.is_non_overlapping_and_dense())
    kernels::copy(to.data_ptr(), from.data_ptr(), to.nbytes());
  else
    to.copy_(from);
}

}  // namespace

GradientCollector::GradientCollector(Communicator& communicator,
                                     std::vector<NamedTensor> parameters,
                                     std::span<const std::size_t> order,
                                     const layout::BucketRules& sizes, std::size_t notes,
                                     BucketCarrier& carrier)
    : communicator_(communicator),
      parameters_(std::move(parameters)),
      sizes_(sizes),
      notes_(notes),
      carrier_(carrier),
      arena_(communicator, large(parameters_, sizes.alone_bytes), !carrier.releases()),
      buckets_(std::make_unique<Buckets>(communicator, parameters_, order, sizes, notes,
                                         carrier.releases())),
      hooks_(
          parameters_, [this](std::size_t i) { before(i); }, [this](std::size_t i) { after(i); }) {
  released_.resize(parameters_.size());
  begin_round();
}

GradientCollector::~GradientCollector() {
  quietly([this] { give_back(); });
}

void GradientCollector::give_back() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    forget_released(i);
    torch::Tensor& gradient = parameters_[i].tensor.mutable_grad();
    if (gradient.is_same(buckets_->view(i)) || (gradient.defined() && in_place(i)))
      gradient = gradient.clone();
  }
}

void GradientCollector::set_sync(bool sync) {
  std::lock_guard lock(mutex_);
  sync_ = sync;
}

void GradientCollector::begin_round() {
  finished_ = false;
  left_ = handed_over_ = 0;
  leaving_.clear();
  travelling_.assign(buckets_->size(), torch::Tensor());
  arrived_.assign(parameters_.size(), 0);
  used_.assign(parameters_.size(), 0);
  missing_.clear();
  for (std::size_t b = 0; b < buckets_->size(); ++b)
    missing_.push_back(buckets_->layout(b).tensors.size());
}

void GradientCollector::before(std::size_t parameter) {
  std::lock_guard lock(mutex_);
  if (!finished_ && !arrived_[parameter]) return;
  carrier_.second_backward();
  finish_locked();
  for (std::size_t i = 0; i < parameters_.size(); ++i) forget_released(i);
  begin_round();
}

void GradientCollector::after(std::size_t parameter) {
  std::lock_guard lock(mutex_);
  buckets_->follow_stream();
  adopt(parameter);
  carrier_.watch();
  if (!sync_) return;
  if (carrier_.ends_with_backward()) end_with_this_backward();
  arrived_[parameter] = 1;
  if (recording_) arrivals_.push_back(parameter);
  --missing_[buckets_->bucket_of(parameter)];
  while (left_ < missing_.size() && missing_[left_] == 0) leave();
  hand_over(false);
}

void GradientCollector::end_with_this_backward() {
  const int backward = GradientHooks::current_backward();
  if (std::exchange(ending_, backward) != backward)
    GradientHooks::when_backward_ends([this] { finish(); });
}

// The gradient of `parameter`, whichever tensor autograd or the user put there, comes to lie where
// links reach it: where it is, or in its view.
void GradientCollector::adopt(std::size_t parameter) {
  torch::Tensor& gradient = parameters_[parameter].tensor.mutable_grad();
  const torch::Tensor& view = buckets_->view(parameter);
  if (!gradient.defined() || gradient.is_same(view)) return;
  check_gradient(parameters_[parameter], view);
  if (in_place(parameter)) return;
  copy_gradient(view, gradient);
  gradient = view;
}

bool GradientCollector::in_place(std::size_t parameter) const {
  const torch::Tensor& gradient = parameters_[parameter].tensor.grad();
  return !buckets_->mirrored() && buckets_->alone(parameter) && arena_.holds(gradient) &&
         gradient.strides() == buckets_->view(parameter).strides();
}

// The next bucket leaves.
void GradientCollector::leave() {
  leaving_.push_back(fill(left_));
  if (carrier_.wants_peaks()) buckets_->find_peak(left_);
  buckets_->to_host(left_);
  ++left_;
}

// The carrier gets the buckets that are on the host, or all that have left, in order.
void GradientCollector::hand_over(bool wait) {
  for (; handed_over_ < left_; ++handed_over_) {
    if (!wait && !buckets_->has_come(handed_over_)) return;
    if (wait && buckets_->mirrored()) carrier_.about_to_wait();
    buckets_->wait_for(handed_over_);
    carrier_.carry(handed_over_, leaving_[handed_over_]);
  }
}

// What leaves for a bucket.
Buffer GradientCollector::fill(std::size_t bucket) {
  for (const auto& expected : buckets_->layout(bucket).tensors) {
    const std::size_t parameter = expected.index;
    adopt(parameter);
    const torch::Tensor& gradient = parameters_[parameter].tensor.grad();
    used_[parameter] = gradient.defined();
    if (!gradient.defined()) {
      buckets_->view(parameter).zero_();
    } else if (!gradient.is_same(buckets_->view(parameter))) {
      travelling_[bucket] = gradient;
      return buffer_of(gradient);
    }
  }
  return buckets_->buffer(bucket);
}

void GradientCollector::finish() {
  std::lock_guard lock(mutex_);
  finish_locked();
}

void GradientCollector::finish_locked() {
  if (finished_) return;
  torch::NoGradGuard no_grad;
  buckets_->follow_stream();
  while (left_ < buckets_->size()) leave();
  hand_over(true);
  carrier_.finish_round();
  finished_ = true;
  recording_ = false;
}

void GradientCollector::define(std::size_t parameter) {
  parameters_[parameter].tensor.mutable_grad() = buckets_->view(parameter);
}

void GradientCollector::release(std::size_t bucket) {
  for (const auto& expected : buckets_->layout(bucket).tensors) {
    const torch::Tensor& parameter = parameters_[expected.index].tensor;
    const auto nothing = torch::full({}, std::numeric_limits<double>::quiet_NaN(),
                                     parameter.options().requires_grad(false));
    parameter.mutable_grad() = released_[expected.index] = nothing.expand(parameter.sizes());
  }
  travelling_[bucket] = torch::Tensor();
  buckets_->empty(bucket);
}

void GradientCollector::forget_released(std::size_t parameter) {
  torch::Tensor& gradient = parameters_[parameter].tensor.mutable_grad();
  if (released_[parameter].defined() && gradient.is_same(released_[parameter]))
    gradient = torch::Tensor();
  released_[parameter] = torch::Tensor();
}

void GradientCollector::next_round() {
  std::lock_guard lock(mutex_);
  check(finished_, "a round of gradients ended before its exchange");
  for (std::size_t i = 0; i < parameters_.size(); ++i) forget_released(i);
  begin_round();
}

std::vector<std::size_t> GradientCollector::observed_order() const {
  std::lock_guard lock(mutex_);
  std::vector<std::size_t> order = arrivals_;
  for (std::size_t b = 0; b < buckets_->size(); ++b)
    for (const auto& expected : buckets_->layout(b).tensors)
      if (std::find(arrivals_.begin(), arrivals_.end(), expected.index) == arrivals_.end())
        order.push_back(expected.index);
  return order;
}

void GradientCollector::rebuild(std::span<const std::size_t> order) {
  std::lock_guard lock(mutex_);
  check(finished_, "buckets cannot be rebuilt while they travel");
  torch::NoGradGuard no_grad;
  auto buckets = std::make_unique<Buckets>(communicator_, parameters_, order, sizes_, notes_,
                                           carrier_.releases());
  buckets->follow_stream();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    torch::Tensor& gradient = parameters_[i].tensor.mutable_grad();
    if (!gradient.is_same(buckets_->view(i))) continue;
    copy_gradient(buckets->view(i), gradient);
    gradient = buckets->view(i);
  }
  buckets_ = std::move(buckets);
}

}  // namespace asup::sync
