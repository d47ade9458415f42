#include "asup/pairwise/grapevine.h"

#include "asup/pairwise/message.h"

namespace asup::pairwise {

Grapevine::Grapevine(Circle circle)
    : circle_(circle),
      rank_(circle.mesh.rank()),
      counts_(circle.workers),
      gone_(static_cast<std::size_t>(circle.workers)),
      told_(rank_) {
  const net::Loop::Turn turn(circle_.mesh.loop());
  mail_.emplace(circle_.mesh, circle_.id, circle_.members(),
                static_cast<net::Mail::Handler&>(*this));
  mail_->open();
}

Grapevine::~Grapevine() {
  const net::Loop::Turn turn(circle_.mesh.loop());
  circle_.mesh.loop().drive([&] { return !mail_->has_unsent(); }, after(Seconds(1)));
  mail_.reset();
}

Grapevine::Known Grapevine::tell(std::uint64_t samples) {
  const Moment moment(circle_.mesh.loop());
  counts_.set_samples(rank_, samples);
  for (int tries = 0; tries < circle_.workers; ++tries) {
    told_ = (told_ + 1) % circle_.workers;
    if (told_ == rank_ || gone_[static_cast<std::size_t>(told_)]) continue;
    send(told_);
    break;
  }
  return {counts_.total(), counts_.fence()};
}

void Grapevine::call_fence(std::uint64_t fence) {
  const Moment moment(circle_.mesh.loop());
  counts_.call_fence(fence);
  for (int worker = 0; worker < circle_.workers; ++worker)
    if (worker != rank_) send(worker);
}

void Grapevine::learn(const Counts& counts) {
  const Moment moment(circle_.mesh.loop());
  counts_.learn(counts.bytes());
}

Counts Grapevine::counts() {
  const Moment moment(circle_.mesh.loop());
  return counts_;
}

void Grapevine::send(int worker) { mail_->send_kept(worker, head_of(News{}), counts_.bytes()); }

void Grapevine::arrived(int, net::ConstBytes head, net::Bytes payload) {
  if (read<News>(head)) counts_.learn(payload);
}

void Grapevine::gone(int member, net::LinkEnd) { gone_[static_cast<std::size_t>(member)] = true; }

}  // namespace asup::pairwise
