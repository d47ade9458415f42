#include "asup/pairwise/attendance.h"

#include <algorithm>
#include <cstring>

#include "asup/base/error.h"
#include "asup/net/roles.h"
#include "asup/pairwise/message.h"

namespace asup::pairwise {

Attendance::Attendance(Circle circle)
    : circle_(circle),
      rank_(circle.mesh.rank()),
      known_(static_cast<std::size_t>(circle.workers)),
      gone_(static_cast<std::size_t>(circle.workers)) {
  const net::Loop::Turn turn(circle_.mesh.loop());
  mail_.emplace(circle_.mesh, circle_.id, circle_.members(),
                static_cast<net::Mail::Handler&>(*this));
  mail_->open();
}

Attendance::~Attendance() {
  const net::Loop::Turn turn(circle_.mesh.loop());
  circle_.mesh.loop().drive([&] { return !mail_->has_unsent(); }, after(Seconds(1)));
  mail_.reset();
}

Attendance::Meeting Attendance::come(std::uint64_t number, const std::vector<int>& workers,
                                     Seconds patience, Seconds timeout) {
  const net::Loop::Turn turn(circle_.mesh.loop());
  const auto of = [&](int worker) -> Known& { return known_[static_cast<std::size_t>(worker)]; };
  const bool decides = workers.front() == rank_;
  const auto is_here = [&](int worker) { return of(worker).come >= number; };
  of(rank_).come = number;
  if (!decides) tell_all();
  circle_.mesh.loop().drive(
      [&] {
        return someone_is_gone(workers) || decided_ >= number ||
               (decides && std::all_of(workers.begin(), workers.end(), is_here));
      },
      after(decides && patience.count() > 0 ? patience : timeout));
  if (someone_is_gone(workers)) return {number, workers};
  std::vector<int> late;
  std::copy_if(workers.begin(), workers.end(), std::back_inserter(late),
               [&](int worker) { return !is_here(worker); });
  if (decides && (late.empty() || patience.count() > 0)) {
    for (const int worker : late) of(worker).left_out = number;
    decided_ = number;
    tell_all();
  }
  if (decided_ < number)
    throw JobFailed(fmt::format("{} did not come to a meeting of all workers within {:g} s",
                                net::name_ranks(decides ? late : std::vector{workers.front()}),
                                timeout.count()));
  Meeting meeting{std::max(number, of(rank_).left_out), {}};
  if (of(rank_).left_out >= number) return meeting;
  for (const int worker : workers)
    if (of(worker).left_out < number) meeting.workers.push_back(worker);
  return meeting;
}

bool Attendance::someone_is_gone(const std::vector<int>& workers) const {
  return std::any_of(workers.begin(), workers.end(),
                     [&](int worker) { return gone_[static_cast<std::size_t>(worker)]; });
}

// All that is known.
void Attendance::tell_all() {
  std::vector<std::uint64_t> numbers{decided_};
  for (const Known& each : known_) numbers.insert(numbers.end(), {each.come, each.left_out});
  const auto bytes = std::as_bytes(std::span(numbers));
  for (int worker = 0; worker < circle_.workers; ++worker)
    if (worker != rank_ && !gone_[static_cast<std::size_t>(worker)])
      mail_->send_kept(worker, head_of(News{}), {bytes.begin(), bytes.end()});
}

void Attendance::arrived(int, net::ConstBytes head, net::Bytes payload) {
  std::vector<std::uint64_t> numbers(1 + 2 * known_.size());
  if (!read<News>(head) || payload.size() != numbers.size() * sizeof numbers[0]) return;
  std::memcpy(numbers.data(), payload.data(), payload.size());
  decided_ = std::max(decided_, numbers[0]);
  for (std::size_t i = 0; i < known_.size(); ++i) {
    known_[i].come = std::max(known_[i].come, numbers[1 + 2 * i]);
    known_[i].left_out = std::max(known_[i].left_out, numbers[2 + 2 * i]);
  }
}

void Attendance::gone(int member, net::LinkEnd) { gone_[static_cast<std::size_t>(member)] = true; }

}  // namespace asup::pairwise
