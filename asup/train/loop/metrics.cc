#include "asup/train/loop/metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "asup/base/error.h"

namespace asup::train {
namespace {

constexpr std::size_t kFigures = 8;  // of a row

}  // namespace

Metrics::~Metrics() { wait(); }

// values_ must outlive the call.
void Metrics::wait() {
  if (work_) (void)work_->wait();
  work_.reset();
}

void Metrics::Part::add(const Part& other) {
  loss += other.loss;
  samples += other.samples;
  left_out += other.left_out;
  waited += other.waited;
  diverged += other.diverged;
  skipped += other.skipped;
  given_up += other.given_up;
  in_succession += other.in_succession;
  ended = std::max(ended, other.ended);
}

void Metrics::begin(std::int64_t first, double now) { own_ = {first, now, {}}; }

Metrics::Part& Metrics::part_of(std::int64_t step) {
  check(step / log_every_ >= own_.first / log_every_,
        "step {} was added after the rows up to step {} were summed", step, own_.first);
  const auto place = static_cast<std::size_t>(step / log_every_ - own_.first / log_every_);
  if (own_.parts.size() <= place) own_.parts.resize(place + 1);
  return own_.parts[place];
}

void Metrics::add(std::int64_t step, double loss, double samples) {
  const bool known = std::isfinite(loss);
  part_of(step).add(
      {.loss = known ? loss : 0, .samples = known ? samples : 0, .diverged = known ? 0 : loss});
}

void Metrics::leave_out(std::int64_t step, double samples) {
  part_of(step).add({.left_out = samples});
}

void Metrics::skip(std::int64_t step, double steps, GivesUp gives_up, double loss) {
  const bool is_last = gives_up != GivesUp::no;
  part_of(step).add({.diverged = is_last && !std::isfinite(loss) ? loss : 0,
                     .skipped = steps,
                     .given_up = is_last ? 1.0 : 0.0,
                     .in_succession = gives_up == GivesUp::in_succession ? 1.0 : 0.0});
}

void Metrics::took(std::int64_t step, double waited, double now) {
  part_of(step).add({.waited = waited, .ended = now});
}

// Rows end where logging intervals do, counted from the run's begin, and at `step`.
std::vector<std::int64_t> Metrics::last_steps(std::int64_t first, std::int64_t step) const {
  std::vector<std::int64_t> last;
  for (std::int64_t at = first; at < step;) {
    at = std::min((at / log_every_ + 1) * log_every_, step);
    last.push_back(at);
  }
  return last;
}

std::vector<double> Metrics::flat_sums(std::size_t rows, bool stop) const {
  std::vector<double> sums(kFigures * rows);
  for (std::size_t i = 0; i < own_.parts.size() && rows > 0; ++i) {
    const Part& part = own_.parts[i];
    const std::array<double, kFigures> figures{part.loss,     part.samples,      part.left_out,
                                               part.waited,   part.diverged,     part.skipped,
                                               part.given_up, part.in_succession};
    double* sum = sums.data() + kFigures * std::min(i, rows - 1);
    for (const double figure : figures) *sum++ += figure;
  }
  sums.push_back(stop ? 1 : 0);
  return sums;
}

// When each row ended by this worker's clock, ascending; where it had nothing to do in one, evenly
// between its neighbours. The last ends `now`.
std::vector<double> Metrics::ends(const Own& own, std::size_t rows, double now) const {
  std::vector<double> ends(rows, 0);
  for (std::size_t i = 0; i < std::min(rows, own.parts.size()); ++i) ends[i] = own.parts[i].ended;
  if (rows > 0) ends.back() = now;
  double before = own.began;
  for (std::size_t i = 0; i < rows;) {
    std::size_t known = i;
    while (ends[known] == 0) ++known;
    const double end = std::max(ends[known], before);
    const auto span = static_cast<double>(known - i + 1);
    for (std::size_t k = i; k <= known; ++k)
      ends[k] = before + (end - before) * static_cast<double>(k - i + 1) / span;
    before = end;
    i = known + 1;
  }
  return ends;
}

void Metrics::start(std::int64_t step, double now, bool stop, When when) {
  check(!started_, "the last sums of metrics were not collected");
  values_ = flat_sums(last_steps(own_.first, step).size(), stop);
  told_ = std::exchange(own_, {step, now, {}});
  told_step_ = step;
  told_at_ = now;
  started_ = true;
  if (when == When::beside && communicator_.size() > 1)
    work_ = communicator_.start_all_reduce(buffer_of(std::span(values_)));
}

std::optional<Metrics::Sums> Metrics::collect(const std::function<void()>& all_have) {
  if (!started_) return std::nullopt;
  const bool travelled = work_.has_value();
  const Outcome outcome =
      travelled ? work_->wait() : communicator_.all_reduce(buffer_of(std::span(values_)));
  work_.reset();
  outcome.or_throw("summing metrics");
  if (all_have) all_have();
  return take_in(values_);
}

Metrics::Sums Metrics::take_in(const std::vector<double>& sums) {
  started_ = false;
  ++collected_;
  last_ = sums;
  const std::vector<std::int64_t> last = last_steps(told_.first, told_step_);
  const std::vector<double> ended = ends(told_, last.size(), told_at_);
  Sums result;
  result.stop = sums.back() > 0;
  double began = told_.began;
  for (std::size_t i = 0; i < last.size(); ++i) {
    const double* figures = sums.data() + kFigures * i;
    result.rows.push_back({.step = last[i],
                           .loss = figures[0],
                           .samples = figures[1],
                           .left_out = figures[2],
                           .diverged = figures[4],
                           .skipped = figures[5],
                           .given_up = figures[6],
                           .in_succession = figures[7],
                           .waited = figures[3] / communicator_.size(),
                           .began = std::exchange(began, ended[i]),
                           .ended = ended[i]});
  }
  return result;
}

void Metrics::put_back() {
  if (!started_) return;
  wait();
  started_ = false;
  Own later = std::exchange(own_, std::move(told_));
  for (std::size_t i = 0; i < later.parts.size(); ++i)
    part_of(later.first + static_cast<std::int64_t>(i) * log_every_).add(later.parts[i]);
}

// Nobody is further ahead than by one: it takes all to end a sum.
std::optional<Metrics::Sums> Metrics::regroup() {
  wait();
  std::array<std::int64_t, 2> own{collected_, static_cast<std::int64_t>(last_.size())};
  std::vector<std::int64_t> all(own.size() * static_cast<std::size_t>(communicator_.size()));
  communicator_.all_gather(buffer_of(std::span(own)), buffer_of(std::span(all))).or_throw();
  std::size_t furthest = 0;
  bool equal = true;
  for (std::size_t i = 0; i < all.size(); i += own.size()) {
    if (all[i] > all[furthest]) furthest = i;
    equal = equal && all[i] == all[0];
  }
  std::optional<Sums> learned;
  if (!equal) {
    std::vector<double> sums(static_cast<std::size_t>(all[furthest + 1]));
    if (collected_ == all[furthest]) sums = last_;
    communicator_.broadcast(buffer_of(std::span(sums)), static_cast<int>(furthest / own.size()))
        .or_throw();
    if (started_ && collected_ + 1 == all[furthest]) learned = take_in(sums);
  }
  put_back();
  return learned;
}

void Metrics::go_on_from(std::int64_t first, double now, std::int64_t collected) {
  Part sum;
  for (const Part& part : own_.parts) sum.add(part);
  own_ = {first, now, {sum}};
  collected_ = collected;
}

}  // namespace asup::train
