#include "asup/models/compute_path.h"

#include <c10/util/strides.h>
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
constexpr std::int64_t kLeast = 2;   // images: BatchNorm cannot normalise a single value
constexpr std::int64_t kTried = 8;   // what part of a sample tells how long it takes
constexpr double kHopeless = 10;     // times slower,
constexpr double kLongShare = 0.25;  // and so long, of the budget

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
      : buffers_(model.buffers()), generators_{at::globalContext().defaultGenerator(at::kCPU)} {
    if (!device_of(model).is_cpu())
      generators_.push_back(at::globalContext().defaultGenerator(device_of(model)));
    for (const at::Generator& generator : generators_) states_.push_back(generator.get_state());
    for (const auto& buffer : buffers_) copies_.push_back(buffer.detach().clone());
  }

  ~Restore() {
    torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].copy_(copies_[i]);
    for (std::size_t i = 0; i < generators_.size(); ++i) generators_[i].set_state(states_[i]);
  }

 private:
  std::vector<torch::Tensor> buffers_, copies_;
  std::vector<at::Generator> generators_;
  std::vector<torch::Tensor> states_;
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
  const torch::Tensor loss = sum_of_losses(scores, sample.target);
  ConvolutionScope scope(path.convolution, Pass::backward);
  // grad() rather than backward(): it returns the gradients and leaves the parameters' own alone.
  torch::autograd::variable_list gradients;
  if (!parameters.empty())
    gradients = torch::autograd::grad({loss}, parameters, {}, std::nullopt, false,
                                      /*allow_unused=*/true);
  if (device.is_cuda()) torch::cuda::synchronize(device.index());
  return seconds_since(start);
}

// Infinite where the model cannot be computed so: its own code may want contiguous images, or f32
// more memory than there is. By the first path it must.
double try_step(Model& model, const data::Batch& sample, const ComputePath& path, bool must) {
  try {
    return time_step(model, sample, path);
  } catch (const std::exception&) {  // torch's, oneDNN's, or of a model of the user's own
    if (must) throw;
    return std::numeric_limits<double>::infinity();
  }
}

data::Batch first_of(const data::Batch& sample, std::int64_t count) {
  return {sample.input.narrow(0, 0, count), sample.target.narrow(0, 0, count)};
}

// The sample, or as many of its images as all rounds can work on within twice the budget.
data::Batch fit(Model& model, const data::Batch& sample, const std::vector<ComputePath>& paths,
                double budget_seconds) {
  const std::int64_t count = sample.input.size(0);
  const std::int64_t some = std::min(count, std::max<std::int64_t>(kLeast, count / kTried));
  const data::Batch part = first_of(sample, some);
  time_step(model, part, paths.front());  // oneDNN makes its kernels the first time
  const double step = time_step(model, part, paths.front()) * static_cast<double>(count) /
                      static_cast<double>(some);
  const double all = step * static_cast<double>(paths.size()) * (1 + kMinRounds);
  if (all <= 2 * budget_seconds) return sample;
  const auto fewer =
      static_cast<std::int64_t>(static_cast<double>(count) * 2 * budget_seconds / all);
  return first_of(sample, std::clamp(fewer, std::min(kLeast, count), count));
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
    double seconds = try_step(model, fitting, path, /*must=*/path == paths.front());
    best = std::min(best, seconds);
    const auto is_hopeless = [&] {
      return seconds > kHopeless * best && seconds > kLongShare * budget_seconds;
    };
    // A GPU's first use says little: its code has yet to be loaded.
    if (is_hopeless() && std::isfinite(seconds) && !device_of(model).is_cpu())
      seconds = try_step(model, fitting, path, /*must=*/false);
    is_slow.push_back(!std::isfinite(seconds) || is_hopeless());
    // The time of the first use counts where there is no second.
    times.push_back({path, is_slow.back() ? seconds : std::numeric_limits<double>::infinity()});
  }
  for (int round = 0; round < kMaxRounds; ++round) {
    if (round >= kMinRounds && seconds_since(start) > budget_seconds) break;
    for (std::size_t i = 0; i < times.size(); ++i)
      if (!is_slow[i])
        times[i].seconds =
            std::min(times[i].seconds, try_step(model, fitting, times[i].path, /*must=*/i == 0));
  }
  return times;
}

// In 16 bits oneDNN is far ahead where it works. On aarch64, where the processor has no arithmetic
// for them, it fails at products of matrices, of which torch tells people at length before it does
// them by itself, and at LSTMs for good.
ConvolutionPath path_in_16_bits([[maybe_unused]] bool has_arithmetic) {
#if defined(__aarch64__)
  if (!has_arithmetic) return ConvolutionPath::native;
#endif
  return ConvolutionPath::onednn;
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
  for (torch::Tensor& parameter : model.parameters()) {
    if (parameter.dim() != 4) continue;
    // Where sides are of one pixel both orders are the same memory, but gradients tell them apart.
    const c10::IntArrayRef sizes = parameter.sizes();
    const c10::DimVector strides = channels_last
                                       ? c10::DimVector(c10::get_channels_last_strides_2d(sizes))
                                       : c10::contiguous_strides(sizes);
    if (parameter.strides() != c10::IntArrayRef(strides))
      parameter.set_data(parameter.detach().clone(format));
  }
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
    if (time.path != path && time.path.precision == path.precision && std::isfinite(time.seconds))
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
  const Precision other = wanted.precision.value_or(has_bf16 ? Precision::bf16 : Precision::fp32);
  std::vector<ComputePath> exact, shorter;
  for (const bool channels_last : layouts)
    for (const ConvolutionPath convolution : convolutions)
      exact.push_back({convolution, channels_last, Precision::fp32});
  if (other == Precision::fp32) return exact;
  const ConvolutionPath in_16_bits = wanted.convolution.value_or(path_in_16_bits(has_bf16));
  for (const bool channels_last : layouts) shorter.push_back({in_16_bits, channels_last, other});
  // What is wanted comes first, since it must work.
  if (wanted.precision) exact.swap(shorter);
  exact.insert(exact.end(), shorter.begin(), shorter.end());
  return exact;
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
