#include "asup/ps/desk.h"

#include <algorithm>

#include "asup/base/error.h"

namespace asup::ps {

std::string Desk::open(Range shard, std::vector<Range> ranges, const Place& parameters) {
  std::uint64_t at = shard.begin;
  for (const Range& range : ranges) {
    if (range.empty() || range.begin < at || range.end > shard.end)
      return fmt::format("elements {} to {} are not in order, or not of the shard {} to {}",
                         range.begin, range.end, shard.begin, shard.end);
    at = range.end;
    elements_ += range.size();
  }
  shard_ = shard;
  ranges_ = std::move(ranges);
  if (parameters.region != 0) {
    const auto region = mesh_.hold(worker_, parameters.region);
    if (!region || parameters.offset > region->bytes().size() ||
        region->bytes().size() - parameters.offset < shard.end * sizeof(float))
      return fmt::format("its parameters should lie in region {} at {}, which is not theirs",
                         parameters.region, parameters.offset);
    window_ = reinterpret_cast<float*>(region->bytes().data() + parameters.offset) + shard.begin;
    held_.push_back(region);
  }
  open_ = true;
  return {};
}

Floats& Desk::stage() {
  if (stage_.size() == 0) stage_ = Floats(shard_.size());
  return stage_;
}

float* Desk::target() { return window_ ? window_ : stage().data(); }

float* Desk::backup() {
  if (window_) return nullptr;
  if (backup_.size() == 0) backup_ = Floats(shard_.size());
  return backup_.data();
}

const float* Desk::seen() { return window_ ? window_ : backup(); }

std::string Desk::complaint_about(const Piece& piece) const {
  if (!open_) return "it has not said what it trains";
  const std::uint64_t expected = committed_ || got_ == 0 ? push_ + 1 : push_;
  if (committed_ || piece.push != expected)
    return fmt::format("a piece of push {} came while push {} is {}", piece.push, push_,
                       committed_ ? "complete and not yet applied" : "under way");
  if (std::none_of(ranges_.begin(), ranges_.end(), [&](const Range& range) {
        return !piece.range.empty() && range.contains(piece.range);
      }))
    return fmt::format(
        "it pushes elements {} to {}, which it does not train here (the shard is {} "
        "to {})",
        piece.range.begin, piece.range.end, shard_.begin, shard_.end);
  for (const Stretch& stretch : gradient_)
    if (!intersection(stretch.range, piece.range).empty())
      return fmt::format("it pushes elements {} to {} twice", piece.range.begin, piece.range.end);
  return {};
}

net::Bytes Desk::room_for(const Piece& piece, std::uint64_t bytes) {
  if (!complaint_about(piece).empty() || bytes != piece.range.size() * sizeof(float)) return {};
  return std::as_writable_bytes(
      std::span(stage().data() + (piece.range.begin - shard_.begin), piece.range.size()));
}

std::string Desk::add(const Piece& piece, net::ConstBytes payload) {
  if (auto complaint = complaint_about(piece); !complaint.empty()) return complaint;
  const std::uint64_t bytes = piece.range.size() * sizeof(float);
  const float* data = reinterpret_cast<const float*>(payload.data());
  if (piece.place.region == 0) {
    if (payload.size() != bytes)
      return fmt::format("it pushes {} elements in {} bytes", piece.range.size(), payload.size());
  } else {
    const auto region = mesh_.hold(worker_, piece.place.region);
    if (!region || piece.place.offset > region->bytes().size() ||
        region->bytes().size() - piece.place.offset < bytes)
      return fmt::format("its gradient should lie in region {} at {}, which is not theirs",
                         piece.place.region, piece.place.offset);
    data = reinterpret_cast<const float*>(region->bytes().data() + piece.place.offset);
    held_.push_back(region);
  }
  push_ = piece.push;
  got_ += piece.range.size();
  const auto after = std::upper_bound(
      gradient_.begin(), gradient_.end(), piece.range.begin,
      [](std::uint64_t at, const Stretch& stretch) { return at < stretch.range.begin; });
  gradient_.insert(after, {piece.range, data});
  return {};
}

std::string Desk::commit(const Commit& commit) {
  if (!open_) return "it has not said what it trains";
  if (committed_) return fmt::format("push {} came before push {} was applied", commit.push, push_);
  if (got_ == 0 && elements_ == 0) push_ = commit.push;
  if (commit.push != push_ || got_ != elements_)
    return fmt::format("push {} has {} of {} elements", commit.push, got_, elements_);
  committed_ = true;
  figures_ = commit.figures;
  return {};
}

void Desk::forget_push() {
  committed_ = false;
  gradient_.clear();
  got_ = 0;
  held_.resize(window_ ? 1 : 0);
}

}  // namespace asup::ps
