#include "asup/collective/mesh/survivors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

namespace asup::collective {

Survivors::Survivors(int self, std::uint64_t generation, std::vector<int> members)
    : self_(self), own_{generation, std::move(members)} {
  std::sort(own_.left.begin(), own_.left.end());
}

void Survivors::lose(int rank) {
  if (std::erase(own_.left, rank) > 0) told_ = false;
  heard_.erase(rank);
}

void Survivors::hear(int rank, const View& view) {
  if (!is_left(rank)) return;
  heard_[rank] = view;
  if (std::find(view.left.begin(), view.left.end(), self_) == view.left.end())
    left_out_by_ = rank;
  else
    keep_only(view.left);
}

void Survivors::keep_only(const std::vector<int>& ranks) {
  const auto gone = [&](int rank) {
    return std::find(ranks.begin(), ranks.end(), rank) == ranks.end();
  };
  if (std::erase_if(own_.left, gone) > 0) told_ = false;
  std::erase_if(heard_, [&](const auto& entry) { return gone(entry.first); });
}

std::optional<Survivors::View> Survivors::news() {
  if (told_) return std::nullopt;
  told_ = true;
  return own_;
}

bool Survivors::agreed() const { return !left_out_by_ && missing().empty(); }

std::vector<int> Survivors::missing() const {
  std::vector<int> ranks;
  for (const int rank : own_.left)
    if (rank != self_ && !agrees(rank)) ranks.push_back(rank);
  return ranks;
}

bool Survivors::agrees(int rank) const {
  const auto found = heard_.find(rank);
  return found != heard_.end() && found->second.left == own_.left;
}

std::uint64_t Survivors::next_generation() const {
  std::uint64_t latest = own_.generation;
  for (const auto& [rank, view] : heard_) latest = std::max(latest, view.generation);
  return latest + 1;
}

bool Survivors::is_left(int rank) const {
  return std::find(own_.left.begin(), own_.left.end(), rank) != own_.left.end();
}

std::string write_view(const Survivors::View& view) {
  return fmt::format("{} {}", view.generation, fmt::join(view.left, ","));
}

std::optional<Survivors::View> read_view(std::string_view text) {
  std::istringstream in{std::string(text)};
  Survivors::View view;
  char separator = ',';
  int rank = 0;
  if (!(in >> view.generation)) return std::nullopt;
  while (separator == ',' && in >> rank) {
    if (rank < 0) return std::nullopt;
    view.left.push_back(rank);
    if (!in.get(separator)) separator = 0;
  }
  const bool whole = in.eof() && separator == 0;
  if (!whole || !std::is_sorted(view.left.begin(), view.left.end())) return std::nullopt;
  return view;
}

}  // namespace asup::collective
