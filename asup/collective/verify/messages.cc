#include "asup/collective/verify/messages.h"

#include <numeric>
#include <tuple>

namespace asup::collective::proof {
namespace {

// One side of a message.
struct End {
  int from, to;
  std::uint32_t place;  // among the message steps of its own rank
  Site site;
  std::size_t size;  // elements

  auto pair() const { return std::tuple(from, to); }
};

struct Ends {
  std::vector<End> sends, recvs;
};

// By the rank that is at `side`; ends of one rank stay in their order.
void sort_by(int End::*side, int ranks, std::vector<End>& ends) {
  std::vector<std::size_t> next(ranks + 1);  // where the next end of each rank goes
  for (const End& end : ends) ++next[end.*side + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<End> sorted(ends.size());
  for (const End& end : ends) sorted[next[end.*side]++] = end;
  ends.swap(sorted);
}

// Of all ranks, by sender and receiver: first come first.
Ends ends_of(const Spec& spec, const std::vector<Plan>& plans, int lane) {
  Ends ends;
  for (int rank = 0; rank < spec.ranks; ++rank) {
    std::uint32_t place = 0;
    for_each_step(plans[rank], rank, lane, [&](const Site& site, const Step& step) {
      if (!step.is_message()) return;
      if (step.op == Step::Op::send) {
        ends.sends.push_back({rank, step.peer, place++, site, step.src.size()});
      } else {
        ends.recvs.push_back({step.peer, rank, place++, site, step.dst.size()});
      }
    });
  }
  sort_by(&End::to, spec.ranks, ends.sends);
  sort_by(&End::from, spec.ranks, ends.sends);
  sort_by(&End::from, spec.ranks, ends.recvs);
  return ends;
}

[[noreturn]] void refute_send(const End& send, const Step& step) {
  refute(send.site, step.src, "{}: rank {} never receives it", describe(step), send.to);
}

[[noreturn]] void refute_recv(const End& recv, const Step& step) {
  refute(recv.site, step.dst, "{}: rank {} never sends it", describe(step), recv.from);
}

[[noreturn]] void refute_length(const End& recv, const Step& received, const End& send) {
  refute(recv.site, received.dst, "{}: rank {} sends {} elements in round {}", describe(received),
         send.from, send.size, send.site.round);
}

}  // namespace

Messages pair_messages(const Spec& spec, const std::vector<Plan>& plans, int lane) {
  const Ends ends = ends_of(spec, plans, lane);
  Messages messages;
  messages.by_rank.resize(spec.ranks);
  auto note = [&](int rank, std::uint32_t place) {
    auto& places = messages.by_rank[rank];
    if (places.size() <= place) places.resize(place + 1);
    places[place] = static_cast<std::uint32_t>(messages.all.size());
  };
  auto send = ends.sends.begin(), last_send = ends.sends.end();
  auto recv = ends.recvs.begin(), last_recv = ends.recvs.end();
  while (send != last_send || recv != last_recv) {
    if (recv == last_recv || (send != last_send && send->pair() < recv->pair())) {
      refute_send(*send, step_at(plans, send->site));
    }
    if (send == last_send || recv->pair() < send->pair()) {
      refute_recv(*recv, step_at(plans, recv->site));
    }
    if (send->size != recv->size) refute_length(*recv, step_at(plans, recv->site), *send);
    note(send->from, send->place);
    note(recv->to, recv->place);
    messages.all.push_back({send->site, recv->site, send->size});
    ++send, ++recv;
  }
  return messages;
}

}  // namespace asup::collective::proof
