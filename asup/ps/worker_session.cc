#include "asup/ps/worker_session.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "asup/base/error.h"

namespace asup::ps {

std::string WorkerSession::open(Range shard, std::vector<Range> ranges,
                                const RemoteAddress& parameters, const CodedParts& coded,
                                std::uint64_t first) {
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
  coded_ = coded;
  for (const Range& range : ranges_)
    for (const CodedParts::Piece& piece : coded_.cut(range))
      if (!piece.coded) plain_.push_back(piece.range);
  if (parameters.region != 0 && !ranges_.empty()) {
    const auto region = mesh_.hold(worker_, parameters.region);
    if (!region || first > ranges_.front().begin || parameters.offset > region->bytes().size() ||
        (region->bytes().size() - parameters.offset) / sizeof(float) < at - first)
      return fmt::format("its parameters should lie in region {} at {}, which is not theirs",
                         parameters.region, parameters.offset);
    window_ = reinterpret_cast<float*>(region->bytes().data() + parameters.offset) +
              (static_cast<std::ptrdiff_t>(shard.begin) - static_cast<std::ptrdiff_t>(first));
    held_ = region;
  }
  open_ = true;
  return {};
}

void WorkerSession::close() {
  open_ = false;  // what the servers' threads may be reading stays
  if (under_way()) pushes_.pop_back();
}

Floats& WorkerSession::stage() {
  if (stage_.size() == 0) stage_ = Floats(shard_.size());
  return stage_;
}

float* WorkerSession::target() { return window_ ? window_ : stage().data(); }

float* WorkerSession::backup() {
  if (window_ || coded_.any()) return nullptr;
  if (backup_.size() == 0) backup_ = Floats(shard_.size());
  return backup_.data();
}

const float* WorkerSession::sees() {
  if (shadow_) return shadow_->values.data();
  return window_ ? window_ : backup();
}

const float* WorkerSession::seen(std::uint64_t number) {
  const ReceivedPush* push = find(number);
  return push->seen.size() > 0 ? push->seen.data() : sees();
}

const WorkerSession::ReceivedPush* WorkerSession::find(std::uint64_t number) const {
  for (const ReceivedPush& push : pushes_)
    if (push.number == number && push.complete) return &push;
  return nullptr;
}

std::string WorkerSession::complaint_about(const Piece& piece) const {
  if (!open_) return "it has not said what it trains";
  const bool goes_on = under_way() && piece.push == last_push_;
  if (!goes_on && (under_way() || piece.push != last_push_ + 1))
    return fmt::format("a piece of push {} came after push {}, which is {}", piece.push, last_push_,
                       under_way() ? "under way" : "complete");
  if (std::none_of(ranges_.begin(), ranges_.end(), [&](const Range& range) {
        return !piece.range.empty() && range.contains(piece.range);
      }))
    return fmt::format(
        "it pushes elements {} to {}, which it does not train here (the shard is {} to {})",
        piece.range.begin, piece.range.end, shard_.begin, shard_.end);
  if (coded_.touch(piece.range)) {
    if (!coded_.hold(piece.range) || piece.range.size() > kMostCoded)
      return fmt::format(
          "it pushes elements {} to {}, of which not all travel in {}, or more than {} at a time",
          piece.range.begin, piece.range.end, kernels::name_of(coded_.code), kMostCoded);
    if (piece.address.region != 0)
      return fmt::format("it pushes elements {} to {} as they are, which travel in {}",
                         piece.range.begin, piece.range.end, kernels::name_of(coded_.code));
  }
  if (!goes_on) return {};
  for (const Stretch& stretch : pushes_.back().gradient)
    if (!intersection(stretch.range, piece.range).empty())
      return fmt::format("it pushes elements {} to {} twice", piece.range.begin, piece.range.end);
  return {};
}

net::Bytes WorkerSession::room_for(const Piece& piece, std::uint64_t bytes) {
  if (!complaint_about(piece).empty() || coded_.hold(piece.range) ||
      bytes != piece.range.size() * sizeof(float))
    return {};
  return std::as_writable_bytes(
      std::span(stage().data() + (piece.range.begin - shard_.begin), piece.range.size()));
}

std::string WorkerSession::add(const Piece& piece, net::ConstBytes payload) {
  if (auto complaint = complaint_about(piece); !complaint.empty()) return complaint;
  const bool is_coded = coded_.hold(piece.range);
  const std::uint64_t bytes =
      is_coded ? coded_.bytes_of(piece.range) : piece.range.size() * sizeof(float);
  const float* data = reinterpret_cast<const float*>(payload.data());
  std::shared_ptr<const net::Region> region;
  if (piece.address.region == 0) {
    if (payload.size() != bytes)
      return fmt::format("it pushes {} elements in {} bytes", piece.range.size(), payload.size());
    if (is_coded) {
      float* to = stage().data() + (piece.range.begin - shard_.begin);
      kernels::decode(coded_.code, to, payload.data(), piece.range.size());
      data = to;
    }
  } else {
    region = mesh_.hold(worker_, piece.address.region);
    if (!region || piece.address.offset > region->bytes().size() ||
        region->bytes().size() - piece.address.offset < bytes)
      return fmt::format("its gradient should lie in region {} at {}, which is not theirs",
                         piece.address.region, piece.address.offset);
    data = reinterpret_cast<const float*>(region->bytes().data() + piece.address.offset);
  }
  if (!under_way()) {
    pushes_.emplace_back().number = piece.push;
    last_push_ = piece.push;
  }
  ReceivedPush& push = pushes_.back();
  push.got += piece.range.size();
  if (region) push.held.push_back(region);
  const auto after = std::upper_bound(
      push.gradient.begin(), push.gradient.end(), piece.range.begin,
      [](std::uint64_t at, const Stretch& stretch) { return at < stretch.range.begin; });
  push.gradient.insert(after, {piece.range, data});
  return {};
}

std::string WorkerSession::commit(const Commit& commit, std::vector<double> lr) {
  if (!open_) return "it has not said what it trains";
  if (!under_way() && elements_ == 0 && commit.push == last_push_ + 1) {
    pushes_.emplace_back().number = commit.push;
    last_push_ = commit.push;
  }
  const std::uint64_t got = under_way() ? pushes_.back().got : 0;
  if (!under_way() || commit.push != last_push_ || got != elements_)
    return fmt::format("push {} has {} of {} elements", commit.push, got, elements_);
  if (!std::isfinite(commit.figures.clip) || commit.figures.clip < 0)
    return fmt::format("push {} is to be clipped to {}", commit.push, commit.figures.clip);
  for (const double rate : lr)
    if (!std::isfinite(rate) || rate < 0)
      return fmt::format("push {} has a learning rate of {}", commit.push, rate);
  pushes_.back().lr = std::move(lr);
  pushes_.back().complete = true;
  pushes_.back().figures = commit.figures;
  return {};
}

std::string WorkerSession::complaint_about(const Known& known, std::uint64_t bytes) const {
  if (!open_ || !coded_.any()) return "it tells what it has, where nothing travels in a code";
  if (!pushes_.empty()) return "it tells what it has while its push is under way";
  const std::uint64_t at = told_ ? told_end_ : shard_.begin;
  const Range range = known.range;
  if (range.empty() || range.begin != at || range.end > shard_.end ||
      range.size() > kMostStateElements || range.size() * sizeof(float) != bytes)
    return fmt::format(
        "it tells what it has of elements {} to {} in {} bytes, where those from {} on are to come "
        "(the shard is {} to {})",
        range.begin, range.end, bytes, at, shard_.begin, shard_.end);
  return {};
}

net::Bytes WorkerSession::room_for(const Known& known, std::uint64_t bytes) {
  if (!complaint_about(known, bytes).empty()) return {};
  if (!told_) {
    told_ = std::make_shared<Shadow>();
    told_->values = Floats(shard_.size());
    told_end_ = shard_.begin;
  }
  return std::as_writable_bytes(
      std::span(told_->values.data() + (known.range.begin - shard_.begin), known.range.size()));
}

std::string WorkerSession::add(const Known& known, net::ConstBytes payload) {
  if (auto complaint = complaint_about(known, payload.size()); !complaint.empty()) return complaint;
  if (payload.data() != room_for(known, payload.size()).data())
    return "what it has began to come while its push was under way";
  told_->version = known.version;
  told_end_ = known.range.end;
  if (told_end_ == shard_.end) shadow_ = std::move(told_);
  return {};
}

void WorkerSession::forget_push(std::uint64_t number) {
  std::erase_if(pushes_,
                [&](const ReceivedPush& push) { return push.complete && push.number == number; });
}

void WorkerSession::set_pushes_aside(std::span<const std::uint64_t> but_for, bool with_seen) {
  for (ReceivedPush& push : pushes_) {
    if (!push.complete || push.own.size() > 0) continue;
    if (std::find(but_for.begin(), but_for.end(), push.number) != but_for.end()) continue;
    push.own = Floats(shard_.size());
    for (Stretch& stretch : push.gradient) {
      float* to = push.own.data() + (stretch.range.begin - shard_.begin);
      std::memcpy(to, stretch.data, stretch.range.size() * sizeof(float));
      stretch.data = to;
    }
    push.held.clear();
    if (!with_seen || !sees()) continue;  // it pushes and has never had any
    push.seen = Floats(shard_.size());
    for (const Range& range : ranges_)
      std::memcpy(push.seen.data() + (range.begin - shard_.begin),
                  sees() + (range.begin - shard_.begin), range.size() * sizeof(float));
  }
}

}  // namespace asup::ps
