#include "asup/gossip/exchanger.h"

#include <algorithm>
#include <cstring>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/gossip/brief_lock.h"
#include "asup/kernels/code.h"

namespace asup::gossip {
namespace {

// Chunks of ours that wait in the links at once: one leaves while the next is there.
constexpr int kMostLeaving = 2;  // as many as leaving_ has room for

constexpr std::size_t kNarrow = 2;  // bytes of a number in bf16

// Elements that are averaged before whoever wants the lock may have it.
constexpr std::size_t kAtOnce = std::size_t{1} << 19;

std::shared_ptr<TimelineTrack> track_of_exchanges() {
  Timeline* const timeline = current_timeline();
  return timeline ? timeline->track("exchange") : nullptr;
}

}  // namespace

Exchanger::Exchanger(net::MemberGroup group, std::size_t elements, const ExchangerOptions& options)
    : group_(group),
      rank_(group.mesh.rank()),
      options_(options),
      track_(track_of_exchanges()),
      averaging_(elements, options.in_bf16),
      partners_(options.graph, rank_, options.seed),
      silent_(static_cast<std::size_t>(group.workers)),
      gone_(static_cast<std::size_t>(group.workers)) {
  check(options.graph.ranks() == group.workers, "a graph of {} ranks for {} workers",
        options.graph.ranks(), group.workers);
  check(options.chunk > 0 && options.chunk * sizeof(float) <= net::Messenger::kMostCollected,
        "chunks of {} elements", options.chunk);
  if (options.in_bf16)
    for (auto& bytes : leaving_) bytes.resize(options.chunk * kNarrow);
  const net::MeshLock lock(group_.mesh.loop());
  messenger_.emplace(group_.mesh, group_.id, group_.members(),
                     static_cast<net::Messenger::Handler&>(*this));
  messenger_->open();
}

Exchanger::~Exchanger() {
  const net::MeshLock lock(group_.mesh.loop());
  closed_ = true;
  if (underway_) messenger_->send(underway_->partner, head_of(Cancel{underway_->exchange}));
  group_.mesh.loop().drive([&] { return !messenger_->has_unsent(); }, after(Seconds(1)));
  messenger_.reset();
}

void Exchanger::open(std::span<float> model) {
  const BriefLock lock(group_.mesh.loop());
  check(closed_ && !underway_, "an exchanger is opened that has not settled");
  averaging_.visit(model);
  closed_ = false;
  stale_ = false;
}

Visit Exchanger::visit(std::span<float> model, bool ask) {
  const BriefLock lock(group_.mesh.loop());
  require_sound();
  Visit visit;
  visit.changed = averaging_.has_difference();
  stale_ = !averaging_.visit(model);
  if (ask && !underway_ && !closed_) {
    to_ask_ = partners_.next();
    ask_next();
    visit.asked = underway_.has_value();
  }
  return visit;
}

void Exchanger::synchronize(std::span<float> model) {
  const net::MeshLock lock(group_.mesh.loop());
  closed_ = true;
  if (underway_ && underway_->stage == Underway::Stage::asking) {
    messenger_->send(underway_->partner, head_of(Cancel{underway_->exchange}));
    underway_.reset();
  }
  const TimelineScope scope(Activity::wait, {.detail = "exchange under way"});
  // Silence ends it too (progress()).
  group_.mesh.loop().drive([&] { return !underway_ || has_failed(); }, Deadline::max());
  require_sound();
  averaging_.visit(model);
}

ExchangerStats Exchanger::stats() {
  const BriefLock lock(group_.mesh.loop());
  return stats_;
}

bool Exchanger::is(int member, const Exchange& exchange) const {
  return underway_ && underway_->partner == member && underway_->exchange == exchange;
}

void Exchanger::heard() {
  if (underway_) underway_->deadline = after(options_.patience);
}

// The next of those to ask, or none: then the next visit tries again.
void Exchanger::ask_next() {
  underway_.reset();
  while (!to_ask_.empty() && !closed_) {
    const int partner = to_ask_.back();
    to_ask_.pop_back();
    const auto index = static_cast<std::size_t>(partner);
    if (silent_[index] || gone_[index]) continue;
    underway_.emplace(Exchange{rank_, 0, ++asked_}, partner);
    heard();
    messenger_->send(partner, head_of(Ask{underway_->exchange, averaging_.elements()}));
    return;
  }
}

void Exchanger::arrived(int member, net::ConstBytes head, net::Bytes payload) {
  silent_[static_cast<std::size_t>(member)] = false;
  if (const auto chunk = read<Chunk>(head)) return on_chunk(member, *chunk, payload);
  if (const auto ask = read<Ask>(head)) return on_ask(member, *ask);
  if (const auto accept = read<Accept>(head)) return on_accept(member, *accept);
  if (const auto busy = read<Busy>(head)) {
    if (!is(member, busy->exchange) || underway_->stage != Underway::Stage::asking) return;
    ++stats_.refused;
    return ask_next();
  }
  if (const auto got = read<Got>(head)) return on_got(member, *got);
  if (const auto done = read<Done>(head)) return on_done(member, *done);
  if (const auto cancel = read<Cancel>(head)) return on_cancel(member, cancel->exchange);
}

void Exchanger::on_ask(int member, const Ask& ask) {
  if (ask.elements != averaging_.elements()) {
    log().warn("rank {} asks for an exchange of {} elements, and the model here has {}", member,
               ask.elements, averaging_.elements());
    return messenger_->send(member, head_of(Busy{ask.exchange}));
  }
  // Two that ask each other: the lower rank's ask counts, and both know that without a message.
  const bool crossed =
      underway_ && underway_->stage == Underway::Stage::asking && underway_->partner == member;
  if (crossed && rank_ < member) return;
  if (crossed) underway_.reset();
  if (underway_ || closed_ || stale_) return messenger_->send(member, head_of(Busy{ask.exchange}));
  underway_.emplace(ask.exchange, member);
  messenger_->send(member, head_of(Accept{ask.exchange}));
  begin();
}

void Exchanger::on_accept(int member, const Accept& accept) {
  if (is(member, accept.exchange) && underway_->stage == Underway::Stage::asking) return begin();
  messenger_->send(member, head_of(Cancel{accept.exchange}));  // it came too late
}

void Exchanger::begin() {
  averaging_.begin();
  underway_->stage = Underway::Stage::streaming;
  underway_->began = Clock::now();
  heard();
  send_chunks();
}

void Exchanger::send_chunks() {
  while (underway_->leaving < kMostLeaving && underway_->sent < averaging_.elements()) {
    const std::size_t count = std::min(options_.chunk, averaging_.elements() - underway_->sent);
    const net::ConstBytes chunk = chunk_to_send(count);
    const Exchange exchange = underway_->exchange;
    const Chunk head{exchange, underway_->sent};
    underway_->sent += count;
    ++underway_->leaving;
    stats_.bytes_sent += chunk.size();
    messenger_->send(underway_->partner, head_of(head), chunk,
                     [this, exchange] { on_chunk_left(exchange); });
  }
}

net::ConstBytes Exchanger::chunk_to_send(std::size_t count) {
  const auto own = averaging_.own().subspan(underway_->sent, count);
  if (!options_.in_bf16) return std::as_bytes(own);
  std::vector<std::byte>& bytes = leaving_[next_leaving_++ % leaving_.size()];
  kernels::encode(kernels::Code::bf16, bytes.data(), own.data(), count);
  return std::span(bytes).first(count * kNarrow);
}

void Exchanger::on_chunk_left(const Exchange& exchange) {
  if (!underway_ || underway_->exchange != exchange) return;  // it was dropped
  --underway_->leaving;
  heard();
  send_chunks();
  say_got_if_complete();
}

void Exchanger::on_chunk(int member, const Chunk& chunk, net::ConstBytes payload) {
  if (!is(member, chunk.exchange) || underway_->stage != Underway::Stage::streaming) return;
  const std::size_t room = averaging_.elements() - underway_->received;
  const std::size_t size = options_.in_bf16 ? kNarrow : sizeof(float);
  const std::size_t count = payload.size() / size;
  if (chunk.begin != underway_->received || count == 0 || count > room ||
      payload.size() % size != 0) {
    log().warn(
        "rank {} sent elements {} to {} of its model, and {} should have come; the exchange "
        "is dropped",
        member, chunk.begin, chunk.begin + count, underway_->received);
    return give_up();
  }
  float* theirs = averaging_.theirs().data() + underway_->received;
  if (options_.in_bf16)
    kernels::decode(kernels::Code::bf16, theirs, payload.data(), count);
  else
    std::memcpy(theirs, payload.data(), payload.size());
  underway_->received += count;
  heard();
  say_got_if_complete();
}

// After our own last chunk, which then comes before it: what leaves later may be newer.
void Exchanger::say_got_if_complete() {
  const bool complete = underway_->received == averaging_.elements() &&
                        underway_->sent == averaging_.elements() && underway_->leaving == 0;
  if (complete && underway_->exchange.asker != rank_)
    messenger_->send(underway_->partner, head_of(Got{underway_->exchange}));
}

// Both have all of both models: the asker says so, and nothing the partner says can undo it.
void Exchanger::on_got(int member, const Got& got) {
  if (!is(member, got.exchange) || got.exchange.asker != rank_ ||
      underway_->stage != Underway::Stage::streaming || underway_->received < averaging_.elements())
    return;
  messenger_->send(member, head_of(Done{got.exchange}));
  underway_->stage = Underway::Stage::averaging;
}

void Exchanger::on_done(int member, const Done& done) {
  if (!is(member, done.exchange) || underway_->received < averaging_.elements()) return;
  underway_->stage = Underway::Stage::averaging;
}

void Exchanger::on_cancel(int member, const Exchange& exchange) {
  if (!is(member, exchange)) return;
  if (underway_->stage == Underway::Stage::asking) return ask_next();
  if (underway_->stage == Underway::Stage::streaming) drop();
}

void Exchanger::give_up() {
  messenger_->send(underway_->partner, head_of(Cancel{underway_->exchange}));
  silent_[static_cast<std::size_t>(underway_->partner)] = true;
  underway_->stage == Underway::Stage::asking ? ask_next() : drop();
}

void Exchanger::drop() {
  ++stats_.dropped;
  averaging_.drop();
  end();
}

void Exchanger::end() {
  stats_.seconds += seconds_since(underway_->began);
  const auto bytes = static_cast<std::int64_t>(underway_->received * sizeof(float));
  if (track_)
    record_span(*track_, Activity::exchange, underway_->began, {.bytes = bytes}, "pair average");
  underway_.reset();
}

bool Exchanger::progress() {
  if (!underway_) return false;
  if (underway_->stage != Underway::Stage::averaging) {
    if (Clock::now() < underway_->deadline) return false;
    give_up();
    return true;
  }
  if (!averaging_.complete(kAtOnce)) return true;
  ++stats_.exchanges;
  end();
  return true;
}

void Exchanger::gone(int member, net::LinkEnd) {
  partners_.remove(member);
  gone_[static_cast<std::size_t>(member)] = true;
  if (!underway_ || underway_->partner != member) return;
  if (underway_->stage == Underway::Stage::asking) return ask_next();
  if (underway_->stage == Underway::Stage::streaming) drop();
}

}  // namespace asup::gossip
