#include "asup/models/compute_path.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "asup/base/clock.h"
#include "asup/base/error.h"
#include "asup/base/suggest.h"
#include "asup/kernels/instruction_set.h"
#include "asup/models/task.h"
#include "asup/precision/autocast.h"

namespace asup::models {
namespace {

// In the order of preference: a later one must be this much faster to be chosen, so that noise does
// not change what a repeated run computes.
constexpr ConvolutionPath kPaths[] = {ConvolutionPath::onednn, ConvolutionPath::native,
                                      ConvolutionPath::onednn_forward};
constexpr double kClearlyFaster = 0.95;

constexpr int kMinRounds = 2, kMaxRounds = 20;
constexpr double kHopeless = 10;  // times slower

constexpr std::string_view kChannelsLast = "channels-last";

torch::Device device_of(const Model& model) { return model.parameters().front().device(); }

bool has_convolution(const Model& model) {
  const auto layers = model.modules(/*include_self=*/false);
  return std::any_of(layers.begin(), layers.end(), [](const auto& layer) {
    return layer->template as<torch::nn::Conv1d>() || layer->template as<torch::nn::Conv2d>() ||
           layer->template as<torch::nn::Conv3d>();
  });
}

// Weights of four dimensions are those of convolutions over images.
bool has_images(const Model& model) {
  const auto parameters = model.parameters();
  return std::any_of(parameters.begin(), parameters.end(),
                     [](const torch::Tensor& each) { return each.dim() == 4; });
}

// Puts back what forward and backward change besides gradients, which are never stored here.
class Restore {
 public:
  explicit Restore(Model& model)
      : buffers_(model.buffers()),
        generator_(at::globalContext().defaultGenerator(device_of(model))),
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

double time_step(Model& model, const data::Batch& sample, const ComputePath& path) {
  const auto parameters = trained_parameters(model);
  const torch::Device device = device_of(model);
  lay_out(model, path.channels_last);
  const torch::Tensor input = laid_out(sample.input, path);
  const auto start = Clock::now();
  torch::Tensor scores;
  {
    ConvolutionScope scope(path.convolution, Pass::forward);
    Autocast autocast(device.type(), path.precision);
    scores = model.forward(input);
  }
  const torch::Tensor loss = sum_of_losses(scores.to(torch::kFloat), sample.target);
  ConvolutionScope scope(path.convolution, Pass::backward);
  // grad() rather than backward(): it returns the gradients and leaves the parameters' own alone.
  torch::autograd::variable_list gradients;
  if (!parameters.empty())
    gradients = torch::autograd::grad({loss}, parameters, {}, std::nullopt, false,
                                      /*allow_unused=*/true);
  if (device.is_cuda()) torch::cuda::synchronize(device.index());
  return seconds_since(start);
}

// The sample, or as many of its images as all rounds can work on within twice the budget.
data::Batch fit(Model& model, const data::Batch& sample, const std::vector<ComputePath>& paths,
                double budget_seconds) {
  time_step(model, sample, paths.front());  // oneDNN makes its kernels the first time
  const double step = time_step(model, sample, paths.front());
  const double all = step * static_cast<double>(paths.size()) * (1 + kMinRounds);
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
// One that is hopelessly slow the first time, in which kernels are made, is not tried again.
std::vector<PathTime> time_paths(Model& model, const data::Batch& sample,
                                 const std::vector<ComputePath>& paths, double budget_seconds) {
  const auto start = Clock::now();
  const data::Batch fitting = fit(model, sample, paths, budget_seconds);
  std::vector<PathTime> times;
  std::vector<bool> is_slow;
  double best = std::numeric_limits<double>::infinity();
  for (const ComputePath& path : paths) {
    times.push_back({path, time_step(model, fitting, path)});
    best = std::min(best, times.back().seconds);
    is_slow.push_back(times.back().seconds > kHopeless * best);
  }
  for (int round = 0; round < kMaxRounds; ++round) {
    if (round >= kMinRounds && seconds_since(start) > budget_seconds) break;
    for (std::size_t i = 0; i < times.size(); ++i)
      if (!is_slow[i])
        times[i].seconds = std::min(times[i].seconds, time_step(model, fitting, times[i].path));
  }
  return times;
}

// On aarch64, where there is no arithmetic for it, oneDNN fails at products of matrices in 16 bits,
// of which torch tells people at length before it does them by itself, and at LSTMs for good.
void leave_onednn(std::vector<ComputePath>& paths) {
  std::vector<ComputePath> kept;
  for (ComputePath path : paths) {
    if (path.precision != Precision::fp32) path.convolution = ConvolutionPath::native;
    if (std::find(kept.begin(), kept.end(), path) == kept.end()) kept.push_back(path);
  }
  paths = std::move(kept);
}

// "2.4× slower"
std::string beside(double seconds, double chosen) {
  const double ratio = seconds / chosen;
  if (ratio >= 1.05) return fmt::format("{:.1f}× slower", ratio);
  return ratio < kClearlyFaster ? fmt::format("{:.1f}× faster", 1 / ratio) : "no faster";
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

std::string name_of(const ComputePath& path) {
  std::string name(name_of(path.convolution));
  if (path.channels_last) name += fmt::format(" {}", kChannelsLast);
  if (path.precision != Precision::fp32) name += fmt::format(" {}", asup::name_of(path.precision));
  return name;
}

ComputePath compute_path_from(const std::string& text) {
  std::istringstream words(text);
  std::string word;
  words >> word;
  ComputePath path{convolution_path_from(word)};
  while (words >> word) {
    if (word == kChannelsLast)
      path.channels_last = true;
    else
      path.precision = precision_from(word);
  }
  return path;
}

void lay_out(Model& model, bool channels_last) {
  const auto format =
      channels_last ? torch::MemoryFormat::ChannelsLast : torch::MemoryFormat::Contiguous;
  torch::NoGradGuard no_grad;
  for (torch::Tensor& parameter : model.parameters())
    if (parameter.dim() == 4 && !parameter.is_contiguous(format))
      parameter.set_data(parameter.detach().clone(format));
}

torch::Tensor laid_out(const torch::Tensor& input, const ComputePath& path) {
  return path.channels_last && input.dim() == 4
             ? input.contiguous(torch::MemoryFormat::ChannelsLast)
             : input;
}

std::string ComputeChoice::describe() const {
  if (times.empty()) return fmt::format("computed by {} (nothing to choose)", name_of(path));
  const auto seconds_of = [&](const auto& is_it) {
    double best = std::numeric_limits<double>::infinity();
    for (const PathTime& time : times)
      if (is_it(time.path)) best = std::min(best, time.seconds);
    return best;
  };
  const double chosen = seconds_of([&](const ComputePath& each) { return each == path; });
  std::vector<std::string> others;
  for (const PathTime& time : times)
    if (time.path != path && time.path.precision == path.precision)
      others.push_back(fmt::format("{} {}", name_of(time.path), beside(time.seconds, chosen)));
  // Of another precision the fastest is enough.
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    const double best =
        seconds_of([&](const ComputePath& each) { return each.precision == precision; });
    if (precision == path.precision || !std::isfinite(best)) continue;
    others.push_back(fmt::format("{} {}", asup::name_of(precision), beside(best, chosen)));
  }
  return fmt::format("computed by {}{}", name_of(path),
                     others.empty() ? "" : fmt::format(" ({})", fmt::join(others, ", ")));
}

std::vector<ComputePath> paths_for(const Model& model, const WantedPath& wanted) {
  const bool is_cpu = device_of(model).is_cpu(), convolves = has_convolution(model);
  std::vector<ConvolutionPath> convolutions{ConvolutionPath::onednn};
  if (wanted.convolution)
    convolutions = {*wanted.convolution};
  else if (is_cpu && convolves && !at::globalContext().hasMKLDNN())
    convolutions = {ConvolutionPath::native};
  else if (is_cpu && convolves)
    convolutions.assign(std::begin(kPaths), std::end(kPaths));
  std::vector<bool> layouts{false};
  if (wanted.channels_last)
    layouts = {*wanted.channels_last};
  else if (has_images(model))
    layouts = {false, true};
  const bool has_bf16 = !is_cpu || kernels::multiplies_bf16();
  std::vector<Precision> precisions{Precision::fp32};
  const Precision other = wanted.precision.value_or(has_bf16 ? Precision::bf16 : Precision::fp32);
  if (other != Precision::fp32) precisions.push_back(other);
  std::vector<ComputePath> paths;
  for (const Precision precision : precisions)
    for (const bool channels_last : layouts)
      for (const ConvolutionPath convolution : convolutions)
        paths.push_back({convolution, channels_last, precision});
  if (!has_bf16) leave_onednn(paths);
  return paths;
}

ComputeChoice measure_compute_path(Model& model, const data::Batch& sample,
                                   const WantedPath& wanted, double budget_seconds) {
  const std::vector<ComputePath> paths = paths_for(model, wanted);
  if (paths.size() == 1) return {paths.front(), {}};
  check(sample.input.defined() && sample.input.size(0) > 0, "there is no sample to measure with");
  torch::AutoGradMode with_gradients(true);
  Restore restore(model);
  ComputeChoice choice;
  choice.times = time_paths(model, sample, paths, budget_seconds);
  double best = std::numeric_limits<double>::infinity();
  for (const PathTime& time : choice.times) {
    if (wanted.precision && time.path.precision != *wanted.precision) continue;
    if (time.seconds >= kClearlyFaster * best) continue;
    choice.path = time.path;
    best = time.seconds;
  }
  lay_out(model, choice.path.channels_last);
  return choice;
}

}  // namespace asup::models
