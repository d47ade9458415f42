#include "asup/sync/gradient_exchange.h"

#include <algorithm>
#include <cmath>

#include "asup/base/error.h"
#include "asup/kernels/copy.h"

namespace asup::sync {
namespace {

// Notes that travel in the last bucket, and come back as averages.
enum Note : std::size_t {
  kUnused,  // 1 where a gradient did not come
  kStep     // the step's lowest bit: ranks whose rounds slipped against each other differ in it
};

void check_gradient(const NamedTensor& parameter, const torch::Tensor& view) {
  const torch::Tensor& gradient = parameter.tensor.grad();
  require(gradient.layout() == torch::kStrided,
          "parameter {} has a sparse gradient, which an all-reduce cannot average: make its layer "
          "with sparse(false)",
          parameter.name);
  check(!gradient.requires_grad(),
        "the gradient of parameter {} has a graph of its own (backward with create_graph): "
        "take gradients of gradients with torch::autograd::grad, and call backward without "
        "create_graph",
        parameter.name);
  check(gradient.sizes() == view.sizes() && gradient.scalar_type() == view.scalar_type() &&
            gradient.device() == view.device(),
        "the gradient of parameter {} is {} on {} and was to be {} on {}: reshape, cast or move a "
        "model before its replica is made",
        parameter.name, describe(gradient), gradient.device().str(), describe(view),
        view.device().str());
}

// Bytes of gradients that are alone in their bucket.
std::vector<std::size_t> large(const std::vector<NamedTensor>& parameters,
                               std::size_t alone_bytes) {
  std::vector<std::size_t> sizes;
  for (const auto& [name, tensor] : parameters)
    if (tensor.nbytes() >= alone_bytes) sizes.push_back(tensor.nbytes());
  return sizes;
}

// Gradients are larger than caches and not read again here: a copy that goes around them is faster.
void copy_gradient(const torch::Tensor& to, const torch::Tensor& from) {
  if (from.strides() == to.strides() && to.is_non_overlapping_and_dense())
    kernels::copy(to.data_ptr(), from.data_ptr(), to.nbytes());
  else
    to.copy_(from);
}

}  // namespace

GradientExchange::GradientExchange(Communicator& communicator, std::vector<NamedTensor> parameters,
                                   std::span<const std::size_t> order, const BucketSizes& sizes)
    : communicator_(communicator),
      parameters_(std::move(parameters)),
      sizes_(sizes),
      arena_(communicator, large(parameters_, sizes.alone_bytes)),
      buckets_(std::make_unique<Buckets>(communicator, parameters_, order, sizes)),
      hooks_(
          parameters_, [this](std::size_t i) { before(i); }, [this](std::size_t i) { after(i); }) {
  begin_round();
}

// Peers may still read our buckets, and the user our gradients.
GradientExchange::~GradientExchange() {
  for (Work& work : works_) (void)work.wait();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    torch::Tensor& gradient = parameters_[i].tensor.mutable_grad();
    if (gradient.is_same(buckets_->view(i)) || (gradient.defined() && in_place(i)))
      gradient = gradient.clone();
  }
}

void GradientExchange::set_sync(bool sync) {
  std::lock_guard lock(mutex_);
  sync_ = sync;
}

void GradientExchange::begin_round() {
  finished_ = false;
  works_.clear();
  travelling_.clear();
  arrived_.assign(parameters_.size(), 0);
  used_.assign(parameters_.size(), 0);
  missing_.clear();
  for (std::size_t b = 0; b < buckets_->size(); ++b)
    missing_.push_back(buckets_->layout(b).slots.size());
}

void GradientExchange::before(std::size_t parameter) {
  std::lock_guard lock(mutex_);
  if (!finished_ && !arrived_[parameter]) return;
  finish_locked();
  begin_round();
}

void GradientExchange::after(std::size_t parameter) {
  std::lock_guard lock(mutex_);
  adopt(parameter);
  watch();
  if (!sync_) return;
  arrived_[parameter] = 1;
  if (recording_) arrivals_.push_back(parameter);
  --missing_[buckets_->bucket_of(parameter)];
  while (works_.size() < missing_.size() && missing_[works_.size()] == 0) leave();
}

// The gradient of `parameter`, whichever tensor autograd or the user put there, comes to lie where
// links reach it: where it is, or in its view.
void GradientExchange::adopt(std::size_t parameter) {
  torch::Tensor& gradient = parameters_[parameter].tensor.mutable_grad();
  const torch::Tensor& view = buckets_->view(parameter);
  if (!gradient.defined() || gradient.is_same(view)) return;
  check_gradient(parameters_[parameter], view);
  if (in_place(parameter)) return;
  copy_gradient(view, gradient);
  gradient = view;
}

bool GradientExchange::in_place(std::size_t parameter) const {
  const torch::Tensor& gradient = parameters_[parameter].tensor.grad();
  return buckets_->alone(parameter) && arena_.holds(gradient) &&
         gradient.strides() == buckets_->view(parameter).strides();
}

// The next bucket leaves.
void GradientExchange::leave() {
  const Buffer buffer = fill(works_.size());
  if (works_.size() + 1 == buckets_->size()) write_notes();
  if (!under_way_) under_way_since_ = Clock::now();
  under_way_ = true;
  works_.push_back(communicator_.start_all_reduce(buffer, ReduceOp::average));
}

// What leaves for a bucket.
Buffer GradientExchange::fill(std::size_t bucket) {
  for (const auto& slot : buckets_->layout(bucket).slots) {
    const std::size_t parameter = slot.gradient;
    adopt(parameter);
    const torch::Tensor& gradient = parameters_[parameter].tensor.grad();
    used_[parameter] = gradient.defined();
    if (!gradient.defined()) {
      buckets_->view(parameter).zero_();
    } else if (!gradient.is_same(buckets_->view(parameter))) {
      travelling_.push_back(gradient);
      return buffer_of(gradient);
    }
  }
  return buckets_->buffer(bucket);
}

void GradientExchange::write_notes() {
  const bool unused = std::find(used_.begin(), used_.end(), 0) != used_.end();
  buckets_->write_note(kUnused, unused ? 1 : 0);
  buckets_->write_note(kStep, static_cast<double>(step_ % 2));
}

void GradientExchange::finish() {
  std::lock_guard lock(mutex_);
  finish_locked();
}

void GradientExchange::finish_locked() {
  if (finished_) return;
  torch::NoGradGuard no_grad;
  while (works_.size() < buckets_->size()) leave();
  wait_for_all();
  read_notes();
  finished_ = true;
  recording_ = false;
}

void GradientExchange::wait_for_all() {
  const auto start = Clock::now();
  Outcome failure;
  for (Work& work : works_) {
    Outcome outcome = work.wait();
    if (failure.ok()) failure = std::move(outcome);
  }
  wait_seconds_ += seconds_since(start);
  watch();
  if (!failure.ok())
    throw JobFailed(
        fmt::format("averaging the gradients of step {}: {}", step_, failure.message()));
}

void GradientExchange::read_notes() {
  // 16-bit floats count exactly only so far: half a rank's part, but never less than their error.
  const double tolerance = std::max(0.5 / communicator_.size(), 0.01);
  if (std::abs(buckets_->note(kStep) - static_cast<double>(step_ % 2)) > tolerance)
    throw JobFailed(
        fmt::format("in step {} the ranks average gradients of different steps: every rank must "
                    "call backward equally often (with synchronization on) before each step(); one "
                    "without data may call step() alone",
                    step_));
  if (buckets_->note(kUnused) > 0) share_unused();
}

// Some rank has gradients that did not come. Those that came on another rank have an average here
// too; those that came nowhere stay as they are, so that no optimizer moves their parameters.
void GradientExchange::share_unused() {
  const auto start = Clock::now();
  std::vector<std::uint8_t> anywhere = used_;
  const Outcome outcome = communicator_.all_reduce(buffer_of(std::span(anywhere)), ReduceOp::max);
  wait_seconds_ += seconds_since(start);
  outcome.or_throw();
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (anywhere[i] && !used_[i]) parameters_[i].tensor.mutable_grad() = buckets_->view(i);
}

void GradientExchange::next_step() {
  std::lock_guard lock(mutex_);
  check(finished_, "step {} ended before its exchange", step_);
  ++step_;
  begin_round();
}

// Notes when the exchange came to an end, as closely as gradients arrive.
void GradientExchange::watch() {
  if (!under_way_ || !works_.back().done()) return;
  under_way_ = false;
  exchange_seconds_ += seconds_since(under_way_since_);
}

std::vector<std::size_t> GradientExchange::observed_order() const {
  std::lock_guard lock(mutex_);
  std::vector<std::size_t> order = arrivals_;
  for (std::size_t b = 0; b < buckets_->size(); ++b)
    for (const auto& slot : buckets_->layout(b).slots)
      if (std::find(arrivals_.begin(), arrivals_.end(), slot.gradient) == arrivals_.end())
        order.push_back(slot.gradient);
  return order;
}

void GradientExchange::rebuild(std::span<const std::size_t> order) {
  std::lock_guard lock(mutex_);
  check(finished_, "buckets cannot be rebuilt while they travel");
  torch::NoGradGuard no_grad;
  auto buckets = std::make_unique<Buckets>(communicator_, parameters_, order, sizes_);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    torch::Tensor& gradient = parameters_[i].tensor.mutable_grad();
    if (!gradient.is_same(buckets_->view(i))) continue;
    copy_gradient(buckets->view(i), gradient);
    gradient = buckets->view(i);
  }
  buckets_ = std::move(buckets);
}

}  // namespace asup::sync
