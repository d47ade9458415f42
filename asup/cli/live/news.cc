#include "asup/cli/live/news.h"

#include <chrono>

namespace asup::cli {
namespace {

constexpr std::size_t kRowsToKeep = 1000;  // who is further behind reads the run anew
constexpr auto kPatience = std::chrono::seconds(1);

}  // namespace

void News::add_row(std::string row) {
  const std::lock_guard lock(mutex_);
  rows_.push_back(std::move(row));
  if (rows_.size() > kRowsToKeep) {
    rows_.pop_front();
    ++first_row_;
  }
  changed_.notify_all();
}

void News::change() {
  const std::lock_guard lock(mutex_);
  ++version_;
  changed_.notify_all();
}

void News::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  ++version_;
  changed_.notify_all();
}

bool News::is_whole_due(const Place& place) const {
  if (place.row < first_row_) return true;
  return place.version < version_ && (ended_ || Clock::now() >= place.whole_due);
}

bool News::has_news(const Place& place) const {
  return place.row < first_row_ + rows_.size() || is_whole_due(place);
}

News::Update News::next(Place& place) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kPatience, [&] { return has_news(place); });
  Update update{is_whole_due(place), {}, ended_};
  const std::uint64_t end = first_row_ + rows_.size();
  if (!update.whole)
    for (std::uint64_t row = place.row; row < end; ++row)
      update.rows.push_back(rows_[static_cast<std::size_t>(row - first_row_)]);
  place.row = end;
  if (update.whole) place.version = version_;
  return update;
}

}  // namespace asup::cli
