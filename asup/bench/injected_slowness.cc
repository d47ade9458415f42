#include "asup/bench/injected_slowness.h"

#include <algorithm>
#include <sstream>
#include <thread>

#include "asup/base/error.h"

namespace asup::bench {
namespace {

constexpr const char* kVariable = "ASUP_INJECTED_SLOWNESS";
// Of forward and backward together: backward computes gradients of inputs and of parameters, each
// of which is as much work as forward.
constexpr double kForward = 1.0 / 3;

Clock::duration in_ticks(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(Seconds(seconds));
}

// "3:4:0.3" as numbers, between `least` and `most` of them.
std::vector<double> numbers_of(const std::string& word, const std::string& text, std::size_t least,
                               std::size_t most) {
  std::vector<double> numbers;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ':');) {
    std::size_t used = 0;
    try {
      numbers.push_back(std::stod(part, &used));
    } catch (const std::exception&) {
      used = 0;
    }
    require(used == part.size() && used > 0 && numbers.back() >= 0, "{}: '{}' is no number in '{}'",
            kVariable, part, word);
  }
  require(numbers.size() >= least && numbers.size() <= most, "{}: '{}' needs {} to {} numbers",
          kVariable, word, least, most);
  return numbers;
}

}  // namespace

InjectedSlowness InjectedSlowness::from(const net::Environment& environment, int rank,
                                        std::uint64_t seed) {
  InjectedSlowness slowness;
  slowness.random_.seed(seed * 1000 + static_cast<std::uint64_t>(rank));
  slowness.times_ = StepTimes(environment("ASUP_STEP_TIMES").value_or(""));
  std::istringstream words(environment(kVariable).value_or(""));
  for (std::string word; words >> word;) slowness.parse(word, rank);
  return slowness;
}

void InjectedSlowness::parse(const std::string& word, int rank) {
  const std::size_t equals = word.find('=');
  const std::string key = word.substr(0, equals);
  const std::string text = equals == std::string::npos ? "" : word.substr(equals + 1);
  if (key == "sample_ms") {
    sample_seconds_ = numbers_of(word, text, 1, 1)[0] / 1000;
  } else if (key == "layer_ms") {
    layer_seconds_ = numbers_of(word, text, 1, 1)[0] / 1000;
  } else if (key == "slow") {
    const auto numbers = numbers_of(word, text, 2, 4);
    require(numbers.size() != 3, "{}: '{}' has a begin and no end", kVariable, word);
    Slow slow{numbers[1], 0, 1};
    if (numbers.size() == 4) slow = {numbers[1], numbers[2], numbers[3]};
    if (static_cast<int>(numbers[0]) == rank) slow_.push_back(slow);
  } else if (key == "halt") {
    const auto numbers = numbers_of(word, text, 3, 5);
    require(numbers.size() != 4, "{}: '{}' has a begin and no end", kVariable, word);
    require(numbers[1] > 0 && numbers[2] > 0, "{}: '{}': both times must be above 0", kVariable,
            word);
    if (static_cast<int>(numbers[0]) != rank) return;
    halts_ = Halts{numbers[1] / 1000, numbers[2] / 1000};
    if (numbers.size() == 5) halts_->from = numbers[3], halts_->to = numbers[4];
  } else if (key == "pause") {
    const auto numbers = numbers_of(word, text, 3, 3);
    require(numbers[1] >= 1, "{}: '{}': once in 1 batch or more", kVariable, word);
    if (static_cast<int>(numbers[0]) != rank) return;
    pause_chance_ = 1 / numbers[1];
    pause_batches_ = numbers[2];
  } else {
    throw BadInput(fmt::format(
        "{}: what is '{}'? There is sample_ms, layer_ms, slow, halt and pause", kVariable, word));
  }
}

double InjectedSlowness::seconds(std::size_t samples, double progress) const {
  return sample_seconds_ * static_cast<double>(samples) * factor(progress);
}

double InjectedSlowness::factor(double progress) const {
  double factor = 1;
  for (const Slow& slow : slow_)
    if (progress >= slow.from && progress < slow.to) factor *= slow.factor;
  return factor;
}

void InjectedSlowness::in_layer(bool backward) {
  const double share = backward ? 1 - kForward : kForward;
  std::this_thread::sleep_for(in_ticks(layer_seconds_ * share * factor(progress_)));
}

bool InjectedSlowness::watch_gradients(const std::vector<std::int64_t>& elements) {
  course_ = BackwardCourse(elements);
  return sample_seconds_ > 0;
}

void InjectedSlowness::before_batch(std::size_t samples, double progress) {
  times_.batch_begins(progress);
  halt_by_turns(progress);
  progress_ = progress;
  batch_seconds_ = seconds(samples, progress);
  sample_in_batch_ = samples > 0 ? batch_seconds_ / static_cast<double>(samples) : 0;
  portion_began_ = portion_seconds_ = 0;
  began_ = Clock::now();
  if (pause_chance_ == 0 || std::uniform_real_distribution<>(0, 1)(random_) >= pause_chance_)
    return;
  work_until(batch_seconds_ * pause_batches_, 0);
  began_ = Clock::now();
}

void InjectedSlowness::halt_by_turns(double progress) {
  const bool halts = halts_ && progress >= halts_->from && progress < halts_->to;
  if (!halts)
    pauses_.reset();
  else if (!pauses_)
    pauses_ = std::make_unique<InjectedPauses>(Seconds(halts_->halted_seconds),
                                               Seconds(halts_->running_seconds));
}

void InjectedSlowness::before_backward(std::size_t samples, double waited) {
  portion_began_ += portion_seconds_;
  portion_seconds_ = sample_in_batch_ * static_cast<double>(samples);
  work_until(portion_began_ + kForward * portion_seconds_, waited);
  course_.begin();
}

void InjectedSlowness::before_gradient(std::size_t parameter, double waited) {
  const double share = kForward + (1 - kForward) * course_.reach(parameter);
  work_until(portion_began_ + share * portion_seconds_, waited);
}

void InjectedSlowness::after_gradient(std::size_t) { course_.go_on(); }

// Gradients that did not come have left some of its time.
void InjectedSlowness::after_batch(std::size_t, double waited) {
  work_until(batch_seconds_, waited);
}

// Sleeps until the batch has had so many seconds, not counting those that it waited. A worker that
// is halted does not work meanwhile, so its sleep must not go on either: it is in short naps then,
// of which one at most counts for each time that it is halted.
void InjectedSlowness::work_until(double seconds, double waited) {
  const auto until = [&] { return began_ + in_ticks(seconds + waited); };
  if (!pauses_) return std::this_thread::sleep_until(until());
  const auto nap = in_ticks(0.001), longest_nap = in_ticks(0.003);
  for (auto now = Clock::now(); now < until();) {
    std::this_thread::sleep_until(std::min(until(), now + nap));
    const auto woke = Clock::now();
    began_ += std::max(woke - now - longest_nap, Clock::duration(0));
    now = woke;
  }
}

}  // namespace asup::bench
