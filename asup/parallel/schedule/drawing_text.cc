#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "asup/parallel/schedule/drawing.h"

namespace asup::parallel {
namespace {

constexpr int kWidth = 110;  // columns of a line
constexpr int kMostLines = 120;
constexpr int kMostRanks = 32;

char letter_of(Action::Op op) {
  switch (op) {
    case Action::Op::forward:
      return 'F';
    case Action::Op::backward:
      return 'B';
    case Action::Op::backward_input:
      return 'I';
    default:
      return 'W';
  }
}

class TextDrawing {
 public:
  TextDrawing(const PipelineSpec& spec, const Price& price)
      : spec_(spec), price_(price), ranks_(std::min(spec.ranks, kMostRanks)) {
    const auto label = label_of({Action::Op::forward, 0, spec.micro_batches - 1}).size();
    // Where times are far apart, the shortest ones lose their labels.
    const double unit = std::max(price.shortest(), mean_of(price) / 4);
    columns_a_unit_ = static_cast<int>(label) + 1;
    columns_a_time_ = columns_a_unit_ / unit;
  }

  std::string draw() const {
    const std::string head = fmt::format("rank {}", ranks_ - 1);
    // Lines end between actions, where these are multiples of the shortest.
    const int across =
        (kWidth - static_cast<int>(head.size()) - 2) / columns_a_unit_ * columns_a_unit_;
    const int columns = column(price_.makespan);
    const int bands = (columns + across - 1) / across;
    const int shown = std::clamp(kMostLines / (ranks_ + 1), 1, bands);
    std::string text;
    for (int band = 0; band < shown; ++band) {
      const int begin = band * across;
      if (bands > 1) text += fmt::format("from {:.4g}\n", begin / columns_a_time_);
      for (int rank = 0; rank < ranks_; ++rank)
        text += fmt::format("{:<{}}  {}\n", fmt::format("rank {}", rank), head.size(),
                            row(rank, begin, std::min(begin + across, columns)));
    }
    if (shown < bands) text += fmt::format("… and on to {:.4g}\n", price_.makespan);
    if (ranks_ < spec_.ranks) text += fmt::format("… and {} more ranks\n", spec_.ranks - ranks_);
    return text;
  }

 private:
  // Of a computation.
  static double mean_of(const Price& price) {
    double time = 0, count = 0;
    for (const auto& rank : price.ranks)
      for (const TimedAction& timed : rank)
        if (!timed.action.is_message()) {
          time += timed.end - timed.begin;
          ++count;
        }
    return time / count;
  }

  int column(double time) const { return static_cast<int>(std::lround(time * columns_a_time_)); }

  std::string label_of(const Action& action) const {
    std::string label = fmt::format("{}{}", letter_of(action.op), action.micro_batch);
    const int chunk = action.stage / spec_.ranks;
    if (spec_.chunks > 26)
      label += fmt::format(".{}", chunk);
    else if (spec_.chunks > 1)
      label += static_cast<char>('a' + chunk);
    return label;
  }

  // Columns [begin, end) of the rank's row, without blanks at its end.
  std::string row(int rank, int begin, int end) const {
    std::string cells(static_cast<std::size_t>(end), ' ');
    for (const TimedAction& timed : price_.ranks[rank]) {
      if (timed.action.is_message()) continue;
      const std::string label = label_of(timed.action);
      // One blank apart.
      const int first = column(timed.begin), behind = std::min(column(timed.end) - 1, end);
      const char rest = column(timed.end) - first > columns_a_unit_ ? '-' : ' ';
      for (int at = first; at < behind; ++at) {
        const auto letter = static_cast<std::size_t>(at - first);
        cells[at] = letter < label.size() ? label[letter] : rest;
      }
    }
    const std::size_t last = cells.find_last_not_of(' ');
    cells.erase(last == std::string::npos ? 0 : last + 1);
    return static_cast<std::size_t>(begin) < cells.size() ? cells.substr(begin) : "";
  }

  const PipelineSpec& spec_;
  const Price& price_;
  const int ranks_;  // shown
  int columns_a_unit_ = 1;
  double columns_a_time_ = 1;
};

}  // namespace

std::string text_of(const PipelineSpec& spec, const Price& price) {
  return TextDrawing(spec, price).draw();
}

}  // namespace asup::parallel
