#include "asup/gossip/gossip_progress.h"

#include "asup/gossip/brief_lock.h"
#include "asup/gossip/message.h"

namespace asup::gossip {

GossipProgress::GossipProgress(net::MemberGroup group)
    : group_(group),
      rank_(group.mesh.rank()),
      counts_(group.workers),
      gone_(static_cast<std::size_t>(group.workers)),
      told_(rank_) {
  const net::MeshLock lock(group_.mesh.loop());
  messenger_.emplace(group_.mesh, group_.id, group_.members(),
                     static_cast<net::Messenger::Handler&>(*this));
  messenger_->open();
}

GossipProgress::~GossipProgress() {
  const net::MeshLock lock(group_.mesh.loop());
  group_.mesh.loop().drive([&] { return !messenger_->has_unsent(); }, after(Seconds(1)));
  messenger_.reset();
}

GossipProgress::Known GossipProgress::tell(std::uint64_t samples) {
  const BriefLock lock(group_.mesh.loop());
  require_sound();
  counts_.set_samples(rank_, samples);
  for (int tries = 0; tries < group_.workers; ++tries) {
    told_ = (told_ + 1) % group_.workers;
    if (told_ == rank_ || gone_[static_cast<std::size_t>(told_)]) continue;
    send(told_);
    break;
  }
  return {counts_.total(), counts_.round()};
}

void GossipProgress::call_round(std::uint64_t round) {
  const BriefLock lock(group_.mesh.loop());
  counts_.call_round(round);
  for (int worker = 0; worker < group_.workers; ++worker)
    if (worker != rank_) send(worker);
}

void GossipProgress::learn(const ProgressVector& counts) {
  const BriefLock lock(group_.mesh.loop());
  counts_.learn(counts.bytes());
}

ProgressVector GossipProgress::counts() {
  const BriefLock lock(group_.mesh.loop());
  return counts_;
}

void GossipProgress::send(int worker) {
  messenger_->send_kept(worker, head_of(News{}), counts_.bytes());
}

void GossipProgress::arrived(int, net::ConstBytes head, net::Bytes payload) {
  if (read<News>(head)) counts_.learn(payload);
}

void GossipProgress::gone(int member, net::LinkEnd) {
  gone_[static_cast<std::size_t>(member)] = true;
}

}  // namespace asup::gossip
