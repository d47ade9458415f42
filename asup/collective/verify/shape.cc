#include "asup/collective/verify/shape.h"

#include <initializer_list>

#include "asup/collective/verify/access.h"
#include "asup/collective/verify/site.h"
#include "asup/kernels/code.h"

namespace asup::collective::proof {
namespace {

using Op = Step::Op;

bool is_reduction(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce_scatter ||
         collective == Collective::reduce;
}

class Shape {
 public:
  Shape(const Spec& spec, const std::vector<Plan>& plans) : spec_(spec), plans_(plans) {
    for (int r = 0; r < spec.ranks; ++r) {
      inputs_.push_back(spec.elements(Area::input, r));
      outputs_.push_back(spec.elements(Area::output, r));
    }
  }

  void check(const Site& site, const Step& step, bool messages) const {
    const AreaRange& named = step.op == Op::send ? step.src : step.dst;
    if (step.is_message() != messages) {
      refute(site, named, "{}: a round holds only messages or only memory steps", describe(step));
    }
    check_peer(site, step, named);
    check_ranges(site, step);
    check_code(site, step);
    check_reduction(site, step);
  }

 private:
  void check_peer(const Site& site, const Step& step, const AreaRange& named) const {
    if (step.op == Op::copy || step.sums_all()) return;
    if (step.peer < 0 || step.peer >= spec_.ranks || step.peer == site.rank) {
      refute(site, named, "{}: the peer must be another rank of 0 to {}", describe(step),
             spec_.ranks - 1);
    }
  }

  void check_ranges(const Site& site, const Step& step) const {
    if (reaches_peer(step)) check_reach(site, step);
    if (step.op != Op::recv) check_source(site, step);
    if (step.op == Op::send) return;
    const int owner = step.op == Op::peer_write ? step.peer : site.rank;
    check_inside(site, step, step.dst, owner);
    if (step.dst.area == Area::input && !spec_.aliased(owner)) {
      refute(site, step.dst, "{}: writes an input", describe(step));
    }
    if (step.op != Op::recv && (step.sums_all() ? step.own : step.src).size() != step.dst.size()) {
      refute(site, step.dst, "{}: the two ranges differ in length", describe(step));
    }
  }

  void check_source(const Site& site, const Step& step) const {
    if (step.op == Op::peer_reduce) {
      for (int owner = 0; owner < spec_.ranks; ++owner) {
        if (owner != site.rank) check_inside(site, step, step.src, owner);
      }
    } else {
      check_inside(site, step, step.src, step.op == Op::peer_read ? step.peer : site.rank);
    }
    if (!step.sums_all()) return;
    check_inside(site, step, step.own, site.rank);
    const std::size_t parts = step.op == Op::peer_reduce ? 1 : spec_.ranks - 1;
    const std::size_t wanted = parts == 0 ? 0 : (parts - 1) * between_parts(step) + step.own.size();
    if (step.src.size() != wanted) {
      refute(site, step.own, "{}: the operands differ in length", describe(step));
    }
  }

  void check_inside(const Site& site, const Step& step, const AreaRange& range, int owner) const {
    const std::size_t size = size_of(range.area, owner);
    if (range.begin > range.end || range.end > size) {
      refute(site, range, "{}: rank {} has {} elements there", describe(step), owner, size);
    }
  }

  std::size_t size_of(Area area, int owner) const {
    if (area == Area::scratch) return plans_[owner].scratch;
    if (area == Area::stage) return plans_[owner].stage;
    if (area == Area::coded) return plans_[owner].coded;
    return area == Area::input ? inputs_[owner] : outputs_[owner];
  }

  // The ranks share inputs and outputs, or stages, or nothing; scratch is each executor's own.
  void check_reach(const Site& site, const Step& step) const {
    const AreaRange& far = step.op == Op::peer_write ? step.dst : step.src;
    if (!(far.area == Area::stage ? spec_.stage : spec_.shared)) {
      refute(site, far, "{}: these ranks share no {}", describe(step),
             far.area == Area::stage ? "stage" : "memory");
    }
    if (far.area == Area::scratch || far.area == Area::coded) {
      refute(site, far, "{}: scratch is not shared", describe(step));
    }
  }

  // Blocks of a code are whole, and only messages, copies and sums of parts know it.
  void check_code(const Site& site, const Step& step) const {
    for (const AreaRange* range : {&step.src, &step.dst, &step.own}) {
      if (range->area != Area::coded) continue;
      if (range->begin % kernels::kCodeBlock != 0) {
        refute(site, *range, "{}: begins inside a block of the code", describe(step));
      }
      const bool known = step.op == Op::send || step.op == Op::recv || step.op == Op::copy ||
                         (step.op == Op::reduce_parts && range == &step.src);
      if (!known) refute(site, *range, "{}: is no step on numbers in code", describe(step));
    }
  }

  void check_reduction(const Site& site, const Step& step) const {
    if (reduces(step) && !is_reduction(spec_.collective)) {
      refute(site, step.dst, "{}: {} reduces nothing", describe(step), name_of(spec_.collective));
    }
    if (step.finish && !reduces(step)) {
      refute(site, step.dst, "{}: only a reduction completes elements", describe(step));
    }
  }

  const Spec& spec_;
  const std::vector<Plan>& plans_;
  std::vector<std::size_t> inputs_, outputs_;  // elements, by rank
};

}  // namespace

void check_shape(const Spec& spec, const std::vector<Plan>& plans) {
  const Shape shape(spec, plans);
  for (int rank = 0; rank < spec.ranks; ++rank) {
    for (int lane = 0; lane < static_cast<int>(plans[rank].lanes.size()); ++lane) {
      for_each_round(plans[rank], rank, lane, [&](Site site, const Round& round) {
        for (const Step& step : round) {
          shape.check(site, step, round.front().is_message());
          ++site.step;
        }
      });
    }
  }
}

}  // namespace asup::collective::proof
