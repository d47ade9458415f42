#include "asup/collective/verify/goal.h"

namespace asup::collective::proof {
namespace {

class Goal {
 public:
  Goal(const Spec& spec, const SymbolicRun& machine)
      : spec_(spec),
        terms_(machine.terms()),
        memory_(machine.memory()),
        first_sent_(spec.ranks, 0) {}

  // needs: called for the ranks in their order

  void check_output(int rank) {
    const IntervalMap<Value>& output = memory_.output(rank);
    if (spec_.collective != Collective::all_to_all) {
      const bool own_block =
          spec_.collective == Collective::reduce_scatter || spec_.collective == Collective::scatter;
      const std::size_t first = own_block ? spec_.block(Area::output, rank).begin : 0;
      return check_range(rank, out(0, output.size()), first, source_for_all());
    }
    const std::vector<AreaRange> arriving = spec_.arriving(rank);
    for (int sender = 0; sender < spec_.ranks; ++sender) {
      check_range(rank, arriving[sender], first_sent_[sender], sender);
      first_sent_[sender] += arriving[sender].size();
    }
  }

  // Rank 0's bits are everyone's bits. needs: check_output holds for both
  void check_same_order(int rank) const {
    const IntervalMap<Value>& first = memory_.output(0);
    first.visit(0, first.size(), [&](std::size_t begin, std::size_t end, const Value& expected) {
      memory_.output(rank).visit(begin, end, [&](std::size_t b, std::size_t e, const Value& value) {
        if (value.term == expected.term) return;
        refute({rank, value.lane, value.round, value.step}, out(b, e),
               "was added up in another order than on rank 0, so that the last bits may differ");
      });
    });
  }

 private:
  struct CheckedRange {
    Site site;
    AreaRange range;
  };

  static constexpr int kEveryone = -1;  // the sum of all ranks' contributions
  static constexpr int kAnyone = -2;    // an element of the whole is in one rank's input only

  // Whose data every output holds. needs: not an all_to_all
  int source_for_all() const {
    switch (spec_.collective) {
      case Collective::all_reduce:
      case Collective::reduce_scatter:
      case Collective::reduce:
        return kEveryone;
      case Collective::broadcast:
      case Collective::scatter:
      case Collective::recv:
        return spec_.root;
      case Collective::send:
        return 1 - spec_.root;
      default:
        return kAnyone;
    }
  }

  // `range` of a rank's output must hold the elements of the whole from `first` on.
  void check_range(int rank, const AreaRange& range, std::size_t first, int source) const {
    const auto shift = static_cast<std::ptrdiff_t>(first - range.begin);
    auto check_run = [&](std::size_t begin, std::size_t end, const Value& value) {
      const CheckedRange place = {{rank, value.lane, value.round, value.step}, out(begin, end)};
      if (value.term == Contributions::kNothing)
        refute(place.site, place.range, "is never written");
      if (source == kEveryone) check_sum(place, value.term);
      if (source >= 0) check_source(place, value.term, source);
      if (value.shift != shift) {
        refute(place.site, place.range, "ends with elements from {} of the whole, not from {}",
               static_cast<std::ptrdiff_t>(begin) + value.shift,
               static_cast<std::ptrdiff_t>(begin) + shift);
      }
    };
    memory_.output(rank).visit(range.begin, range.end, check_run);
  }

  void check_sum(const CheckedRange& place, Contributions::Id term) const {
    if (!terms_.is_complete(term)) {
      refute(place.site, place.range, "ends with the contributions of {} only",
             terms_.describe(term));
    }
    if (spec_.ranks > 1 && !terms_.is_finished(term)) {
      refute(place.site, place.range, "is complete, but no step finishes it");
    }
  }

  void check_source(const CheckedRange& place, Contributions::Id term, int source) const {
    if (term == terms_.input(source)) return;
    refute(place.site, place.range, "ends with data of {}, not of rank {}", terms_.describe(term),
           source);
  }

  const Spec& spec_;
  const Contributions& terms_;
  const Memory& memory_;
  // Of an all_to_all, by sender: where in its input the next receiver's block begins.
  std::vector<std::size_t> first_sent_;
};

void check_heard(const Spec& spec, const HappensBefore& order) {
  for (int rank = 0; rank < spec.ranks; ++rank) {
    for (int other = 0; other < spec.ranks; ++other) {
      if (order.heard(rank, other)) continue;
      refute({rank, -1, -1, -1}, {}, "leaves the barrier without having heard from rank {}", other);
    }
  }
}

}  // namespace

void check_goal(const Spec& spec, const SymbolicRun& machine) {
  Goal goal(spec, machine);
  for (int rank = 0; rank < spec.ranks; ++rank) goal.check_output(rank);
  if (spec.collective == Collective::all_reduce) {
    for (int rank = 1; rank < spec.ranks; ++rank) goal.check_same_order(rank);
  }
  if (spec.collective == Collective::barrier) check_heard(spec, *machine.order());
}

}  // namespace asup::collective::proof
