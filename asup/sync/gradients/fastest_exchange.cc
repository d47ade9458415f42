#include "asup/sync/gradients/fastest_exchange.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "asup/base/clock.h"
#include "asup/base/error.h"

namespace asup::sync {
namespace {

constexpr std::int64_t kColumns = 1024, kMostRows = 1024;  // 4 MB
constexpr int kTimes = 5;                                  // of which the median counts
constexpr double kClearly = 1.05;
constexpr std::uint64_t kAfterWarmup = std::uint64_t{1} << 62;

// Numbers like those of a gradient in size and in that few of them are large.
torch::Tensor gradient_like(std::int64_t rows) {
  auto generator = at::detail::createCPUGenerator(1);
  const torch::Tensor normal = torch::randn({rows, kColumns}, generator, torch::kFloat32);
  return normal * normal * normal * 1e-3;
}

// One way, and what it keeps of the numbers.
class Trial {
 public:
  Trial(Communicator& communicator, const torch::optim::Optimizer& optimizer,
        const ExchangeWay& way, const torch::Tensor& numbers)
      : communicator_(communicator),
        way_(way),
        numbers_(numbers),
        parameters_{{"numbers", numbers}},
        memory_(communicator.allocate(numbers.nbytes())),
        gradients_{memory_->bytes().data(), static_cast<std::size_t>(numbers.numel()), Dtype::f32} {
    if (way.compressor) compressor_ = way.compressor({communicator, parameters_, optimizer});
    can_be_tried_ = !compressor_ || compressor_->takes(numbers);
    const std::size_t kept = compressor_ ? compressor_->keeps().size() : way.feedback ? 1 : 0;
    const auto count = static_cast<std::size_t>(numbers.numel());
    const layout::Range own = compressor_ ? compressor_->keeps_of(count) : layout::Range{0, count};
    for (std::size_t i = 0; i < 2 * kept; ++i)
      kept_.push_back(torch::zeros({static_cast<std::int64_t>(own.size())}, torch::kFloat32));
    layout::append(layout_, 0, {"numbers", gradients_.count, Dtype::f32});
  }

  double seconds() {
    if (!can_be_tried_) return std::numeric_limits<double>::infinity();
    torch::from_blob(gradients_.data, numbers_.sizes(), torch::kFloat32).copy_(numbers_);
    communicator_.barrier().or_throw();
    const auto start = Clock::now();
    exchange();
    ++exchanges_;
    return seconds_since(start);
  }

 private:
  kernels::Kept kept(std::size_t i) {
    return {kept_[2 * i].const_data_ptr<float>(), kept_[2 * i + 1].data_ptr<float>()};
  }

  void exchange() {
    if (!compressor_) {
      Coding coding{.code = way_.code};
      if (way_.feedback) {
        coding.carried = kept(0).before;
        coding.lost = kept(0).after;
      } else {
        coding.noise = exchanges_;
      }
      communicator_.start_all_reduce(gradients_, ReduceOp::average, coding).wait().or_throw();
      return;
    }
    Compressor::Bucket bucket{.index = 0,
                              .gradients = gradients_,
                              .tensors = layout_.tensors,
                              .kept = {},
                              .exchange = kAfterWarmup + exchanges_};
    for (std::size_t i = 0; 2 * i < kept_.size(); ++i) bucket.kept.push_back(kept(i));
    std::optional<Work> work = compressor_->leave(bucket);
    while (work) {
      work->wait().or_throw();
      work = compressor_->arrive(0);
    }
    compressor_->end_step(true);
  }

  Communicator& communicator_;
  const ExchangeWay& way_;
  const torch::Tensor& numbers_;
  const std::vector<NamedTensor> parameters_;
  const std::unique_ptr<SharedMemory> memory_;
  const Buffer gradients_;
  layout::Layout layout_;
  std::unique_ptr<Compressor> compressor_;
  bool can_be_tried_ = true;         // of so few numbers
  std::vector<torch::Tensor> kept_;  // before and after, by turns
  std::uint64_t exchanges_ = 0;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

FastestExchange fastest_exchange(Communicator& communicator,
                                 const torch::optim::Optimizer& optimizer, std::size_t numbers,
                                 const std::vector<ExchangeWay>& ways) {
  check(!ways.empty(), "no ways to choose from");
  torch::NoGradGuard no_grad;
  const auto rows =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(numbers) / kColumns, 1, kMostRows);
  const torch::Tensor gradient = gradient_like(rows);
  std::vector<std::unique_ptr<Trial>> trials;
  for (const ExchangeWay& way : ways)
    trials.push_back(std::make_unique<Trial>(communicator, optimizer, way, gradient));
  std::vector<std::vector<double>> times(ways.size());
  for (int time = -1; time < kTimes; ++time)  // the first of each is slower
    for (std::size_t i = 0; i < ways.size(); ++i) {
      const double seconds = trials[i]->seconds();
      if (time >= 0) times[i].push_back(seconds);
    }
  FastestExchange fastest;
  for (const auto& each : times) fastest.seconds.push_back(median(each));
  communicator.all_reduce(buffer_of(std::span(fastest.seconds)), ReduceOp::max).or_throw();
  for (std::size_t i = 1; i < ways.size(); ++i)
    if (fastest.seconds[i] * (fastest.best == 0 ? kClearly : 1) < fastest.seconds[fastest.best])
      fastest.best = i;
  return fastest;
}

}  // namespace asup::sync
