#include "asup/collective/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "asup/base/error.h"
#include "asup/kernels/code.h"

namespace asup::collective {

std::string_view name_of(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::reduce_scatter:
      return "reduce_scatter";
    case Collective::all_gather:
      return "all_gather";
    case Collective::broadcast:
      return "broadcast";
    case Collective::reduce:
      return "reduce";
    case Collective::gather:
      return "gather";
    case Collective::scatter:
      return "scatter";
    case Collective::all_to_all:
      return "all_to_all";
    case Collective::barrier:
      return "barrier";
    case Collective::send:
      return "send";
    case Collective::recv:
      return "recv";
  }
  return "?";
}

std::string_view name_of(Step::Op op) {
  switch (op) {
    case Step::Op::send:
      return "send";
    case Step::Op::recv:
      return "recv";
    case Step::Op::recv_reduce:
      return "recv_reduce";
    case Step::Op::copy:
      return "copy";
    case Step::Op::reduce_parts:
      return "reduce_parts";
    case Step::Op::peer_reduce:
      return "peer_reduce";
    case Step::Op::peer_write:
      return "peer_write";
    case Step::Op::peer_read:
      return "peer_read";
  }
  return "?";
}

Operand operand(const Step& step, int rank, int of) {
  if (of == rank) return {rank, step.own};
  if (step.op == Step::Op::peer_reduce) return {of, step.src};
  const auto place = static_cast<std::size_t>(of - (of > rank));
  const std::size_t begin = step.src.begin + place * between_parts(step);
  return {rank, {step.src.area, begin, begin + step.own.size()}};
}

std::size_t between_parts(const Step& step) {
  const std::size_t size = step.own.size();
  return step.src.area == Area::coded ? kernels::in_whole_code_blocks(size) : size;
}

Cut cut(std::size_t count, int parts, int index, std::size_t grain) {
  check(parts > 0 && index >= 0 && index < parts && grain > 0,
        "cut: part {} of {} with a grain of {}", index, parts, grain);
  const std::size_t grains = count / grain + (count % grain != 0);
  const std::size_t each = grains / parts;
  const std::size_t longer = grains % parts;  // so many parts, the first ones, have one grain more
  auto edge = [&](std::size_t i) {
    const std::size_t before = i * each + std::min(i, longer);
    return before == grains ? count : before * grain;
  };
  return {edge(index), edge(index + 1)};
}

AreaRange Spec::block(Area area, int r) const {
  if (counts.empty()) {
    const Cut even = cut(count, ranks, r);
    return {area, even.begin, even.end};
  }
  std::size_t begin = 0;
  for (int before = 0; before < r; ++before) begin += counts[before];
  return {area, begin, begin + counts[r]};
}

std::vector<AreaRange> Spec::blocks(Area area) const {
  std::vector<AreaRange> all(ranks);
  std::size_t begin = 0;
  for (int r = 0; r < ranks; ++r) {
    const std::size_t size = counts.empty() ? cut(count, ranks, r).size() : counts[r];
    all[r] = {area, begin, begin + size};
    begin += size;
  }
  return all;
}

namespace {

std::size_t block_between(const Spec& spec, int sender, int receiver) {
  if (spec.counts.empty()) return cut(spec.count, spec.ranks, receiver).size();
  return spec.counts[static_cast<std::size_t>(sender) * spec.ranks + receiver];
}

}  // namespace

std::vector<AreaRange> Spec::leaving(int r) const {
  std::vector<AreaRange> row(ranks);
  std::size_t begin = 0;
  for (int receiver = 0; receiver < ranks; ++receiver) {
    const std::size_t size = block_between(*this, r, receiver);
    row[receiver] = in(begin, begin + size);
    begin += size;
  }
  return row;
}

std::vector<AreaRange> Spec::arriving(int r) const {
  std::vector<AreaRange> column(ranks);
  std::size_t begin = 0;
  for (int sender = 0; sender < ranks; ++sender) {
    const std::size_t size = block_between(*this, sender, r);
    column[sender] = out(begin, begin + size);
    begin += size;
  }
  return column;
}

bool Spec::aliased() const {
  return in_place && (collective == Collective::all_reduce || collective == Collective::broadcast ||
                      collective == Collective::reduce);
}

bool Spec::aliased(int r) const {
  return aliased() && (collective != Collective::reduce || r == root);
}

std::size_t Spec::elements(Area area, int r) const {
  check(area == Area::input || area == Area::output,
        "only a plan knows how much memory it needs beside input and output");
  const bool input = area == Area::input;
  switch (collective) {
    case Collective::all_reduce:
      return count;
    case Collective::reduce_scatter:
      return input ? count : block(area, r).size();
    case Collective::all_gather:
      return input ? block(area, r).size() : count;
    case Collective::broadcast:
      return input && r != root && !aliased() ? 0 : count;
    case Collective::reduce:
      return input || r == root ? count : 0;
    case Collective::gather:
      return input ? block(area, r).size() : r == root ? count : 0;
    case Collective::scatter:
      return !input ? block(area, r).size() : r == root ? count : 0;
    case Collective::all_to_all:
      return (input ? leaving(r) : arriving(r)).back().end;
    case Collective::barrier:
      return 0;
    case Collective::send:
      return input == (r != root) ? count : 0;
    case Collective::recv:
      return input == (r == root) ? count : 0;
  }
  return 0;
}

namespace {

void require_counts(const Spec& spec) {
  if (spec.counts.empty()) return;
  const std::string_view name = name_of(spec.collective);
  const bool matrix = spec.collective == Collective::all_to_all;
  const std::size_t ranks = spec.ranks;
  require(spec.counts.size() == (matrix ? ranks * ranks : ranks),
          "{} among {} ranks got {} block counts; give one for each {}, or none for even blocks",
          name, spec.ranks, spec.counts.size(), matrix ? "sender and receiver" : "rank");
  std::size_t sum = 0;
  for (std::size_t count : spec.counts) {
    require(count <= std::numeric_limits<std::size_t>::max() - sum,
            "{}: the block counts add up to more than any memory holds", name);
    sum += count;
  }
  require(sum == spec.count, "{}: the block counts add up to {}, but there are {} elements", name,
          sum, spec.count);
}

}  // namespace

void require_valid(const Spec& spec) {
  const std::string_view name = name_of(spec.collective);
  require(spec.ranks > 0, "{} among {} ranks; there must be at least one", name, spec.ranks);
  require(spec.root >= 0 && spec.root < spec.ranks, "{}: there is no rank {}; ranks are 0 to {}",
          name, spec.root, spec.ranks - 1);
  require(spec.slice > 0, "{}: a slice must hold at least one element", name);
  require(spec.hosts.empty() || static_cast<int>(spec.hosts.size()) == spec.ranks,
          "{} among {} ranks got {} hosts; give one for each rank, or none", name, spec.ranks,
          spec.hosts.size());
  require_counts(spec);
}

const Algorithm& find_algorithm(Collective collective, std::string_view name) {
  std::string names;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != collective) continue;
    if (algorithm.name == name) return algorithm;
    if (!names.empty()) names += ", ";
    names += algorithm.name;
  }
  throw BadInput(
      fmt::format("{} has no algorithm '{}'; choose from: {}", name_of(collective), name, names));
}

}  // namespace asup::collective
