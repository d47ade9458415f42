#include "asup/gossip/sample_dealer.h"

#include <fmt/format.h>

#include <utility>

#include "asup/base/error.h"
#include "asup/gossip/brief_lock.h"
#include "asup/gossip/message.h"

namespace asup::gossip {

SampleDealer::SampleDealer(net::MemberGroup group) : group_(group), rank_(group.mesh.rank()) {
  const net::MeshLock lock(group_.mesh.loop());
  messenger_.emplace(group_.mesh, group_.id, group_.members(),
                     static_cast<net::Messenger::Handler&>(*this));
  messenger_->open();
}

SampleDealer::~SampleDealer() {
  const net::MeshLock lock(group_.mesh.loop());
  group_.mesh.loop().drive([&] { return !messenger_->has_unsent(); }, after(Seconds(1)));
  messenger_.reset();
}

void SampleDealer::begin(int dealer, DealtSamples samples) {
  const BriefLock lock(group_.mesh.loop());
  dealer_ = dealer;
  samples_ = std::move(samples);
  answered_ = asked_;  // by one that is lost: never
}

std::optional<SampleRun> SampleDealer::ask(std::uint64_t count, std::uint64_t limit,
                                           Seconds timeout) {
  if (deals()) {
    const BriefLock lock(group_.mesh.loop());
    require_sound();
    if (answer_) return std::exchange(answer_, std::nullopt);
    return samples_.deal(rank_, count, limit);
  }
  const net::MeshLock lock(group_.mesh.loop());
  const Deadline deadline = after(timeout);
  if (const auto ahead = await_answer(deadline, timeout)) return ahead;
  messenger_->send(dealer_, head_of(WantSamples{++asked_, count, limit}));
  return await_answer(deadline, timeout);
}

void SampleDealer::ask_ahead(std::uint64_t count, std::uint64_t steps, std::uint64_t limit) {
  const BriefLock lock(group_.mesh.loop());
  if (answered_ != asked_ || answer_) return;
  if (deals())
    answer_ = samples_.deal_ahead(rank_, count, steps, limit, group_.workers);
  else
    messenger_->send(dealer_, head_of(WantSamples{++asked_, count, limit, steps}));
}

std::optional<SampleRun> SampleDealer::take_ahead() {
  const BriefLock lock(group_.mesh.loop());
  return std::exchange(answer_, std::nullopt);
}

std::optional<SampleRun> SampleDealer::await_ahead(Seconds timeout) {
  const net::MeshLock lock(group_.mesh.loop());
  return await_answer(after(timeout), timeout);
}

std::optional<SampleRun> SampleDealer::await_answer(Deadline deadline, Seconds timeout) {
  const auto is_gone = [&] { return group_.mesh.end_of(dealer_) != net::LinkEnd::open; };
  const auto is_answered = [&] { return answered_ == asked_ || has_failed(); };
  if (!is_answered())
    group_.mesh.loop().drive([&] { return is_answered() || is_gone(); }, deadline);
  require_sound();
  if (is_answered() || is_gone()) return std::exchange(answer_, std::nullopt);
  throw JobFailed(fmt::format("rank {}, which deals out the samples, did not answer within {:g} s",
                              dealer_, timeout.count()));
}

void SampleDealer::finish(std::uint64_t count) {
  const BriefLock lock(group_.mesh.loop());
  if (deals())
    samples_.finish(rank_, count);
  else
    messenger_->send(dealer_, head_of(SamplesDone{count}));
}

std::uint64_t SampleDealer::dealt() {
  const BriefLock lock(group_.mesh.loop());
  return deals() ? samples_.dealt() : 0;
}

std::vector<std::uint64_t> SampleDealer::finished_by_worker() {
  const BriefLock lock(group_.mesh.loop());
  std::vector<std::uint64_t> finished;
  for (int worker = 0; worker < group_.workers; ++worker)
    finished.push_back(deals() ? samples_.finished_by(worker) : 0);
  return finished;
}

void SampleDealer::lose(int worker) {
  const BriefLock lock(group_.mesh.loop());
  samples_.lose(worker);
}

void SampleDealer::arrived(int member, net::ConstBytes head, net::Bytes) {
  if (const auto want = read<WantSamples>(head)) {
    const auto run = want->steps_ahead > 0
                         ? samples_.deal_ahead(member, want->count, want->steps_ahead, want->limit,
                                               group_.workers)
                         : samples_.deal(member, want->count, want->limit);
    messenger_->send(member,
                     head_of(DealSamples{want->number, run ? run->begin : 0, run ? run->end : 0}));
  } else if (const auto done = read<SamplesDone>(head)) {
    samples_.finish(member, done->count);
  } else if (const auto deal = read<DealSamples>(head); deal && member == dealer_) {
    answered_ = deal->number;
    answer_.reset();
    if (deal->end > deal->begin) answer_ = SampleRun{deal->begin, deal->end};
  }
}

}  // namespace asup::gossip
