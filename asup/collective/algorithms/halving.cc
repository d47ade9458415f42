#include "asup/collective/algorithms/halving.h"

#include <bit>

#include "asup/collective/plan/build.h"

namespace asup::collective {

std::vector<std::size_t> edges_of(Cut whole, int pieces) {
  std::vector<std::size_t> edges = {whole.begin};
  for (int i = 0; i < pieces; ++i) {
    edges.push_back(whole.begin + cut(whole.size(), pieces, i, kGrain).end);
  }
  return edges;
}

Halving::Halving(Team team, std::vector<std::size_t> edges)
    : team_(std::move(team)),
      edges_(std::move(edges)),
      steps_(std::bit_width(static_cast<unsigned>(team_.size())) - 1) {}

Halving::Segment Halving::held(int steps) const {
  Segment segment = {0, static_cast<int>(edges_.size()) - 1};
  for (int step = 0; step < steps; ++step) {
    const int middle = (segment.begin + segment.end) / 2;
    (team_.place >> step & 1 ? segment.begin : segment.end) = middle;
  }
  return segment;
}

Halving::Segment Halving::sibling(int steps) const {
  const Segment both = held(steps - 1), own = held(steps);
  return own.begin == both.begin ? Segment{own.end, both.end} : Segment{both.begin, own.begin};
}

void Halving::reduce(Area source, bool finish, Lane& lane) const {
  for (int step = 0; step < steps_; ++step) {
    const Area from = step == 0 ? source : Area::output;
    const Segment kept = held(step + 1), given = sibling(step + 1);
    lane.push_back({
        send(partner(step), range(from, given)),
        recv_reduce(partner(step), range(from, kept), range(Area::output, kept),
                    finish && step == steps_ - 1),
    });
  }
}

void Halving::gather(Lane& lane) const {
  for (int step = steps_ - 1; step >= 0; --step) {
    lane.push_back({
        send(partner(step), range(Area::output, held(step + 1))),
        recv(partner(step), range(Area::output, sibling(step + 1))),
    });
  }
}

int Halving::place_of(int piece, int pieces, int steps) {
  int place = 0;
  for (int step = 0; step < steps; ++step) {
    pieces /= 2;
    if (piece < pieces) continue;
    piece -= pieces;
    place |= 1 << step;
  }
  return place;
}

}  // namespace asup::collective
