#include "asup/train/loop/sync_point_tally.h"

#include <algorithm>

#include "asup/base/error.h"

namespace asup::train {

void SyncPointTally::begin(std::int64_t first, double now) {
  first_ = first;
  began_ = now;
  rows_.clear();
}

void SyncPointTally::go_on_from(std::int64_t first, double now) {
  Row sum;
  for (const Row& row : rows_) {
    sum.loss += row.loss;
    sum.samples += row.samples;
    sum.waited += row.waited;
    sum.ended = std::max(sum.ended, row.ended);
  }
  begin(first, now);
  rows_ = {sum};
}

std::size_t SyncPointTally::row_of(std::int64_t step) const {
  return static_cast<std::size_t>(step / log_every_ - first_ / log_every_);
}

void SyncPointTally::add(std::int64_t step, double loss, double samples, double waited,
                         double now) {
  check(step / log_every_ >= first_ / log_every_,
        "step {} was tallied after a sync point at step {}, whose rows are written", step, first_);
  const std::size_t row = row_of(step);
  if (rows_.size() <= row) rows_.resize(row + 1);
  rows_[row].loss += loss;
  rows_[row].samples += samples;
  rows_[row].waited += waited;
  rows_[row].ended = std::max(rows_[row].ended, now);
}

std::vector<std::int64_t> SyncPointTally::last_steps(std::int64_t step) const {
  std::vector<std::int64_t> last;
  for (std::int64_t at = first_; at < step;) {
    at = std::min((at / log_every_ + 1) * log_every_, step);
    last.push_back(at);
  }
  return last;
}

std::vector<double> SyncPointTally::sums(std::int64_t step) const {
  const std::size_t count = last_steps(step).size();
  std::vector<double> sums(3 * count);
  for (std::size_t i = 0; i < rows_.size() && count > 0; ++i) {
    const std::size_t place = 3 * std::min(i, count - 1);
    sums[place] += rows_[i].loss;
    sums[place + 1] += rows_[i].samples;
    sums[place + 2] += rows_[i].waited;
  }
  return sums;
}

std::vector<double> SyncPointTally::ends(std::int64_t step, double now) const {
  const std::size_t count = last_steps(step).size();
  std::vector<double> ends(count, 0);
  for (std::size_t i = 0; i < std::min(count, rows_.size()); ++i) ends[i] = rows_[i].ended;
  if (count > 0) ends.back() = now;
  double before = began_;
  for (std::size_t i = 0; i < count;) {
    std::size_t known = i;
    while (ends[known] == 0) ++known;
    const double end = std::max(ends[known], before);
    const auto rows = static_cast<double>(known - i + 1);
    for (std::size_t k = i; k <= known; ++k)
      ends[k] = before + (end - before) * static_cast<double>(k - i + 1) / rows;
    before = end;
    i = known + 1;
  }
  return ends;
}

}  // namespace asup::train
