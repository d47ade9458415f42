#include "asup/models/convolution_path.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "asup/base/clock.h"
#include "asup/base/error.h"
#include "asup/base/suggest.h"
#include "asup/models/task.h"

namespace asup::models {
namespace {

// In the order of preference: a later one must be this much faster to be chosen, so that noise does
// not change what a repeated run computes.
constexpr ConvolutionPath kPaths[] = {ConvolutionPath::onednn, ConvolutionPath::native,
                                      ConvolutionPath::onednn_forward};
constexpr double kClearlyFaster = 0.95;

constexpr int kMinRounds = 2, kMaxRounds = 20;

bool has_convolution(const Model& model) {
  const auto layers = model.modules(/*include_self=*/false);
  return std::any_of(layers.begin(), layers.end(), [](const auto& layer) {
    return layer->template as<torch::nn::Conv1d>() || layer->template as<torch::nn::Conv2d>() ||
           layer->template as<torch::nn::Conv3d>();
  });
}

// Puts back what forward and backward change besides gradients, which are never stored here.
class Restore {
 public:
  explicit Restore(Model& model)
      : buffers_(model.buffers()),
        generator_(at::globalContext().defaultGenerator(at::kCPU)),
        generator_state_(generator_.get_state()) {
    for (const auto& buffer : buffers_) copies_.push_back(buffer.detach().clone());
  }

  ~Restore() {
    torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].copy_(copies_[i]);
    generator_.set_state(generator_state_);
  }

 private:
  std::vector<torch::Tensor> buffers_, copies_;
  at::Generator generator_;
  torch::Tensor generator_state_;
};

std::vector<torch::Tensor> trained_parameters(const Model& model) {
  std::vector<torch::Tensor> trained;
  for (const auto& parameter : model.parameters())
    if (parameter.requires_grad()) trained.push_back(parameter);
  return trained;
}

double time_step(Model& model, const data::Batch& sample, ConvolutionPath path) {
  const auto parameters = trained_parameters(model);
  const auto start = Clock::now();
  torch::Tensor loss;
  {
    ConvolutionScope scope(path, Pass::forward);
    loss = sum_of_losses(model.forward(sample.input), sample.target);
  }
  ConvolutionScope scope(path, Pass::backward);
  // grad() rather than backward(): it returns the gradients and leaves the parameters' own alone.
  if (!parameters.empty())
    torch::autograd::grad({loss}, parameters, {}, std::nullopt, false, /*allow_unused=*/true);
  return seconds_since(start);
}

// The sample, or as many of its images as all rounds can work on within twice the budget.
data::Batch fit(Model& model, const data::Batch& sample, double budget_seconds) {
  time_step(model, sample, ConvolutionPath::onednn);  // oneDNN makes its kernels the first time
  const double step = time_step(model, sample, ConvolutionPath::onednn);
  const double all = step * static_cast<double>(std::size(kPaths)) * (1 + kMinRounds);
  const std::int64_t count = sample.input.size(0);
  if (all <= 2 * budget_seconds) return sample;
  const auto fewer =
      static_cast<std::int64_t>(static_cast<double>(count) * 2 * budget_seconds / all);
  // BatchNorm cannot normalise a single value.
  const std::int64_t kept =
      std::clamp<std::int64_t>(fewer, std::min<std::int64_t>(2, count), count);
  return {sample.input.narrow(0, 0, kept), sample.target.narrow(0, 0, kept)};
}

// The paths take turns, so that a disturbance of the machine meets all; the fastest time counts.
std::vector<PathTime> time_paths(Model& model, const data::Batch& sample, double budget_seconds) {
  const auto start = Clock::now();
  const data::Batch fitting = fit(model, sample, budget_seconds);
  std::vector<PathTime> times;
  for (const auto path : kPaths) {
    time_step(model, fitting, path);
    times.push_back({path, std::numeric_limits<double>::infinity()});
  }
  for (int round = 0; round < kMaxRounds; ++round) {
    if (round >= kMinRounds && seconds_since(start) > budget_seconds) break;
    for (auto& time : times)
      time.seconds = std::min(time.seconds, time_step(model, fitting, time.path));
  }
  return times;
}

}  // namespace

std::string_view name_of(ConvolutionPath path) {
  switch (path) {
    case ConvolutionPath::onednn:
      return "onednn";
    case ConvolutionPath::native:
      return "native";
    case ConvolutionPath::onednn_forward:
      return "onednn-forward";
  }
  return "?";
}

ConvolutionPath convolution_path_from(const std::string& name) {
  std::vector<std::string> known;
  for (const auto path : kPaths) {
    if (name == name_of(path)) return path;
    known.emplace_back(name_of(path));
  }
  throw BadInput(fmt::format("there is no convolution path '{}', only {}{}", name,
                             fmt::join(known, ", "), did_you_mean(name, known)));
}

ConvolutionScope::ConvolutionScope(ConvolutionPath path, Pass pass)
    : before_(at::globalContext().userEnabledMkldnn()) {
  at::globalContext().setUserEnabledMkldnn(
      path == ConvolutionPath::onednn ||
      (path == ConvolutionPath::onednn_forward && pass == Pass::forward));
}

ConvolutionScope::~ConvolutionScope() { at::globalContext().setUserEnabledMkldnn(before_); }

std::string ConvolutionChoice::describe() const {
  std::string others;
  const auto chosen = std::find_if(times.begin(), times.end(),
                                   [this](const PathTime& time) { return time.path == path; });
  for (const PathTime& time : times) {
    if (time.path == path) continue;
    const double ratio = time.seconds / chosen->seconds;
    others += others.empty() ? " (" : ", ";
    others += ratio < 1.05 ? fmt::format("{} no faster", name_of(time.path))
                           : fmt::format("{} {:.1f}× slower", name_of(time.path), ratio);
  }
  return fmt::format("convolution path: {}{}", name_of(path),
                     times.empty() ? " (nothing to choose)" : others + ")");
}

ConvolutionChoice measure_convolution_path(Model& model, const data::Batch& sample,
                                           double budget_seconds) {
  if (!has_convolution(model)) return {};
  if (!at::globalContext().hasMKLDNN()) return {ConvolutionPath::native, {}};
  check(sample.input.defined() && sample.input.size(0) > 0, "there is no sample to measure with");
  torch::AutoGradMode with_gradients(true);
  Restore restore(model);
  ConvolutionChoice choice;
  choice.times = time_paths(model, sample, budget_seconds);
  double best = choice.times.front().seconds;
  for (const PathTime& time : choice.times)
    if (time.seconds < kClearlyFaster * best) {
      choice.path = time.path;
      best = time.seconds;
    }
  return choice;
}

}  // namespace asup::models
