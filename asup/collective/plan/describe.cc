// Plans in words. The names of areas and steps are those of plan.h.
#include <fmt/format.h>

#include <string>

#include "asup/collective/plan/plan.h"

namespace asup::collective {
namespace {

std::string_view name_of(Area area) {
  switch (area) {
    case Area::input:
      return "input";
    case Area::output:
      return "output";
    case Area::scratch:
      return "scratch";
    case Area::stage:
      return "stage";
    case Area::coded:
      return "coded";
  }
  return "?";
}

std::string words(const Step& step) {
  const std::string src = describe(step.src), dst = describe(step.dst);
  switch (step.op) {
    case Step::Op::send:
      return step.src.size() == 0 ? fmt::format("signal {}", step.peer)
                                  : fmt::format("send {} to {}", src, step.peer);
    case Step::Op::recv:
      return step.dst.size() == 0 ? fmt::format("await {}", step.peer)
                                  : fmt::format("recv {} from {}", dst, step.peer);
    case Step::Op::recv_reduce:
      return fmt::format("recv_reduce {} = {} (+) from {}", dst, src, step.peer);
    case Step::Op::copy:
      return fmt::format("copy {} = {}", dst, src);
    case Step::Op::reduce_parts:
      return fmt::format("reduce_parts {} = {} (+) the others' parts in {}", dst,
                         describe(step.own), src);
    case Step::Op::peer_reduce:
      return step.own == step.src ? fmt::format("peer_reduce {} = (+) every rank's {}", dst, src)
                                  : fmt::format("peer_reduce {} = {} (+) every other rank's {}",
                                                dst, describe(step.own), src);
    case Step::Op::peer_write:
      return fmt::format("peer_write {} of {} = {}", dst, step.peer, src);
    case Step::Op::peer_read:
      return fmt::format("peer_read {} = {} of {}", dst, src, step.peer);
  }
  return "?";
}

}  // namespace

std::string describe(const AreaRange& range) {
  return fmt::format("{}[{}, {})", name_of(range.area), range.begin, range.end);
}

std::string describe(const Step& step) {
  return step.finish ? words(step) + ", complete" : words(step);
}

std::string describe(const Plan& plan) {
  std::string text;
  for (std::size_t l = 0; l < plan.lanes.size(); ++l) {
    if (plan.lanes.size() > 1) text += fmt::format("lane {}\n", l);
    for (std::size_t r = 0; r < plan.lanes[l].size(); ++r) {
      text += fmt::format("  round {}:", r);
      const char* before = " ";
      for (const Step& step : plan.lanes[l][r]) {
        text += before + describe(step);
        before = "; ";
      }
      text += '\n';
    }
  }
  if (plan.scratch > 0) text += fmt::format("  needs scratch for {} elements\n", plan.scratch);
  if (plan.coded > 0) text += fmt::format("  needs room for {} elements in code\n", plan.coded);
  if (plan.stage > 0) text += fmt::format("  needs a stage of {} elements\n", plan.stage);
  return text.empty() ? "  nothing to do\n" : text;
}

}  // namespace asup::collective
