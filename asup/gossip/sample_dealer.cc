#include "asup/gossip/sample_dealer.h"

#include <fmt/format.h>

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
}

std::optional<SampleRun> SampleDealer::ask(std::uint64_t count, std::uint64_t limit,
                                           Seconds timeout) {
  if (deals()) {
    const BriefLock lock(group_.mesh.loop());
    return samples_.deal(rank_, count, limit);
  }
  const net::MeshLock lock(group_.mesh.loop());
  const auto is_gone = [&] { return group_.mesh.end_of(dealer_) != net::LinkEnd::open; };
  messenger_->send(dealer_, head_of(WantSamples{++asked_, count, limit}));
  group_.mesh.loop().drive([&] { return answered_ == asked_ || is_gone(); }, after(timeout));
  if (answered_ == asked_) return answer_;
  if (is_gone()) return std::nullopt;
  throw JobFailed(fmt::format("rank {}, which deals out the samples, did not answer within {:g} s",
                              dealer_, timeout.count()));
}

void SampleDealer::finish() {
  const BriefLock lock(group_.mesh.loop());
  if (deals())
    samples_.finish(rank_);
  else
    messenger_->send(dealer_, head_of(SamplesDone{}));
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
    const auto run = samples_.deal(member, want->count, want->limit);
    messenger_->send(member,
                     head_of(DealSamples{want->number, run ? run->begin : 0, run ? run->end : 0}));
  } else if (read<SamplesDone>(head)) {
    samples_.finish(member);
  } else if (const auto deal = read<DealSamples>(head); deal && member == dealer_) {
    answered_ = deal->number;
    answer_.reset();
    if (deal->end > deal->begin) answer_ = SampleRun{deal->begin, deal->end};
  }
}

}  // namespace asup::gossip
