#include "asup/parallel/cut/stage_cut.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "asup/base/error.h"

namespace asup::parallel {
namespace {

constexpr double kNo = std::numeric_limits<double>::infinity();
constexpr std::size_t kMostOrders = 50'000;

void require_sizes(const LayerCost& layer) {
  for (const double size :
       {layer.times.forward, layer.times.backward, layer.times.backward_input,
        layer.times.backward_weight, layer.parameters, layer.activations, layer.output})
    require(std::isfinite(size) && size >= 0,
            "layer {} has a time or size of {}: they are numbers from 0 on", layer.name, size);
}

void require_sound(const CutProblem& problem, const PipelineSpec& spec) {
  const auto ranks = static_cast<std::size_t>(spec.ranks);
  for (const LayerCost& layer : problem.layers) require_sizes(layer);
  require(problem.ranks.size() == 1 || problem.ranks.size() == ranks,
          "{} ranks are described, the pipeline has {}; describe each, or one for all",
          problem.ranks.size(), ranks);
  for (const RankCapacity& rank : problem.ranks) {
    require(std::isfinite(rank.speed) && rank.speed > 0,
            "a rank of speed {}: a speed is larger than 0", rank.speed);
    require(rank.memory >= 0, "a rank of {} bytes of memory: they are 0 or more", rank.memory);
  }
  const std::size_t links = problem.links.size();
  require(links <= 1 || links == ranks || links + 1 == ranks,
          "{} links are described, {} ranks have {}, and one from the last to the first; describe "
          "each, or one for all",
          links, ranks, ranks - 1);
  for (const LinkRate& link : problem.links)
    require(std::isfinite(link.latency) && link.latency >= 0 && link.bandwidth > 0,
            "a link of {} s latency and {} bytes a second: a latency is 0 or more, a bandwidth "
            "larger than 0",
            link.latency, link.bandwidth);
  require(std::ssize(problem.layers) >= spec.stages(),
          "{} stages need a layer each, and the model has {}; give fewer ranks{}", spec.stages(),
          problem.layers.size(), spec.chunks > 1 ? " or chunks" : "");
}

std::vector<RankCapacity> each_rank(const CutProblem& problem, const PipelineSpec& spec) {
  if (problem.ranks.size() > 1) return problem.ranks;
  return std::vector<RankCapacity>(static_cast<std::size_t>(spec.ranks), problem.ranks.at(0));
}

// Between a stage and the next; no time where they are on one rank.
LinkRate link_behind(int stage, const CutProblem& problem, const PipelineSpec& spec) {
  if (stage < 0 || stage + 1 >= spec.stages() || problem.links.empty()) return {};
  const int a = spec.rank_of(stage), b = spec.rank_of(stage + 1);
  if (a == b) return {};
  if (problem.links.size() == 1) return problem.links.front();
  const auto place =
      static_cast<std::size_t>(std::abs(a - b) == 1 ? std::min(a, b) : spec.ranks - 1);
  require(place < problem.links.size(),
          "stages {} and {} are on the last rank and the first, and no link between these is "
          "described",
          stage, stage + 1);
  return problem.links[place];
}

// Micro-batches whose activations each stage holds at most.
std::vector<int> held_by_stages(const PipelineSchedule& schedule, const PipelineSpec& spec) {
  const auto stages = static_cast<std::size_t>(spec.stages());
  std::vector<int> held(stages), most(stages);
  for (int rank = 0; rank < spec.ranks; ++rank)
    for (const Action& action : schedule.computations(rank, spec)) {
      int& now = held[action.stage];
      now += action.op == Action::Op::forward ? 1 : 0;
      most[action.stage] = std::max(most[action.stage], now);
      now -= action.op == Action::Op::backward || action.op == Action::Op::backward_weight ? 1 : 0;
    }
  return most;
}

std::string amount(double bytes) {
  if (bytes < 1e4) return fmt::format("{:.0f} bytes", bytes);
  return bytes < 1e6 ? fmt::format("{:.1f} kB", bytes / 1e3)
                     : fmt::format("{:.1f} MB", bytes / 1e6);
}

// Finds the best cut for ranks in one order.
class Partition {
 public:
  Partition(const CutProblem& problem, const std::vector<RankCapacity>& ranks,
            const std::vector<int>& held, bool splits_backward, const PipelineSpec& spec)
      : problem_(problem), ranks_(ranks), held_(held), spec_(spec) {
    double time = 0, parameters = 0, activations = 0;
    for (const LayerCost& layer : problem.layers) {
      times_.push_back(time);
      parameters_.push_back(parameters);
      activations_.push_back(activations);
      time += layer.times.forward + (splits_backward
                                         ? layer.times.backward_input + layer.times.backward_weight
                                         : layer.times.backward);
      parameters += layer.parameters;
      activations += layer.activations;
    }
    times_.push_back(time);
    parameters_.push_back(parameters);
    activations_.push_back(activations);
    for (int stage = -1; stage < spec.stages(); ++stage)
      links_.push_back(link_behind(stage, problem, spec));
  }

  // Nothing where no cut fits the memories.
  std::optional<StageCut> best() const {
    const Table table = solved();
    const int stages = spec_.stages(), layers = static_cast<int>(problem_.layers.size());
    if (table[stages][layers].slowest == kNo) return std::nullopt;
    StageCut cut{.first = {layers}, .ranks = ranks_, .slowest = table[stages][layers].slowest};
    for (int stage = stages; stage > 0; --stage)
      cut.first.push_back(table[stage][cut.first.back()].begin);
    std::reverse(cut.first.begin(), cut.first.end());
    return cut;
  }

  double slowest(const std::vector<int>& first) const {
    double slowest = 0;
    for (int stage = 0; stage < spec_.stages(); ++stage)
      slowest = std::max(slowest, seconds(stage, first[stage], first[stage + 1]));
    return slowest;
  }

  // Says what does not fit. needs: no cut that fits
  [[noreturn]] void refuse() const {
    const Table table = solved();
    const int stages = spec_.stages();
    for (int stage = 0, end = 0; stage < stages; ++stage) {
      const int farthest = farthest_of(table[stage + 1]);
      if (farthest < 0) refuse(stage, end);
      end = farthest;
    }
    const int left = farthest_of(table[stages]);
    double room = 0;
    for (const RankCapacity& rank : ranks_) room += rank.memory;
    throw BadInput(fmt::format(
        "{} fits nowhere with all that is before it: as full as memory allows, the stages end with "
        "the layer before it. All layers take {} without activations, and {} of one micro-batch; "
        "the {} ranks have {} together. Give more ranks, more memory, or smaller micro-batches",
        name_of(left), amount(parameters_.back()), amount(activations_.back()), ranks_.size(),
        amount(room)));
  }

 private:
  struct Entry {
    double slowest = kNo;
    int begin = -1;  // of the last stage
  };
  // table[s][l]: the best cut of layers 0 to l-1 into stages 0 to s-1.
  using Table = std::vector<std::vector<Entry>>;

  Table solved() const {
    const int stages = spec_.stages(), layers = static_cast<int>(problem_.layers.size());
    Table table(stages + 1, std::vector<Entry>(layers + 1));
    table[0][0].slowest = 0;
    for (int stage = 0; stage < stages; ++stage)
      // A layer is left for each stage behind.
      for (int end = stage + 1; end <= layers - (stages - 1 - stage); ++end)
        for (int begin = stage; begin < end; ++begin) {
          const double before = table[stage][begin].slowest;
          if (before == kNo || !fits(stage, begin, end)) continue;
          const double slowest = std::max(before, seconds(stage, begin, end));
          if (slowest < table[stage + 1][end].slowest) table[stage + 1][end] = {slowest, begin};
        }
    return table;
  }

  // Layers of the largest number that some cut holds; -1 for none.
  static int farthest_of(const std::vector<Entry>& row) {
    const auto last = std::find_if(row.rbegin(), row.rend(),
                                   [](const Entry& entry) { return entry.slowest != kNo; });
    return static_cast<int>(row.rend() - last) - 1;
  }

  double bytes(int stage, int begin, int end) const {
    const double parameters = parameters_[end] - parameters_[begin];
    const double activations = activations_[end] - activations_[begin];
    return parameters + (problem_.recompute ? held_[stage] * input(begin) + activations
                                            : held_[stage] * activations);
  }
  // Of a stage that begins with this layer.
  double input(int begin) const { return begin == 0 ? 0 : problem_.layers[begin - 1].output; }
  double room(int stage) const { return ranks_[spec_.rank_of(stage)].memory / spec_.chunks; }
  bool fits(int stage, int begin, int end) const { return bytes(stage, begin, end) <= room(stage); }

  // Of a micro-batch in a stage of layers [begin, end), there and back.
  double seconds(int stage, int begin, int end) const {
    const double computes = (times_[end] - times_[begin]) / ranks_[spec_.rank_of(stage)].speed;
    const double in = input(begin), out = problem_.layers[end - 1].output;
    const LinkRate &before = links_[stage], &behind = links_[stage + 1];
    const double takes = in / before.bandwidth, gives = out / behind.bandwidth;
    if (problem_.messages_beside) return std::max({computes, takes, gives});
    return computes + 2 * (before.latency + takes + behind.latency + gives);
  }

  std::string name_of(int layer) const {
    const std::string& name = problem_.layers[layer].name;
    return name.empty() ? fmt::format("layer {}", layer)
                        : fmt::format("layer {} ({})", layer, name);
  }

  [[noreturn]] void refuse(int stage, int layer) const {
    const int rank = spec_.rank_of(stage);
    throw BadInput(fmt::format(
        "{} does not fit on rank {}: with the activations of {} micro-batch{} it takes {}, and {} "
        "has {}; give the rank more memory, or smaller micro-batches",
        name_of(layer), rank, held_[stage], held_[stage] == 1 ? "" : "es",
        amount(bytes(stage, layer, layer + 1)), spec_.chunks == 1 ? "the rank" : "a stage of it",
        amount(room(stage))));
  }

  const CutProblem& problem_;
  const std::vector<RankCapacity>& ranks_;
  const std::vector<int>& held_;
  const PipelineSpec& spec_;
  std::vector<double> times_, parameters_, activations_;  // of all layers before one
  std::vector<LinkRate> links_;                           // before each stage, and behind the last
};

std::size_t orders_of(const std::vector<int>& kinds) {
  std::vector<std::size_t> alike(kinds.size());
  std::size_t orders = 1;
  for (std::size_t i = 0; i < kinds.size() && orders <= kMostOrders; ++i)
    orders = orders * (i + 1) / ++alike[kinds[i]];
  return orders;
}

bool alike(const RankCapacity& a, const RankCapacity& b) {
  return a.speed == b.speed && a.memory == b.memory;
}

}  // namespace

StageCut cut_stages(const CutProblem& problem, const PipelineSchedule& schedule,
                    const PipelineSpec& spec) {
  require_sound(problem, spec);
  const std::vector<RankCapacity> ranks = each_rank(problem, spec);
  const std::vector<int> held = held_by_stages(schedule, spec);
  const Partition partition(problem, ranks, held, schedule.splits_backward, spec);
  if (auto best = partition.best()) return std::move(*best);
  partition.refuse();
}

double slowest_of(const std::vector<int>& first, const CutProblem& problem,
                  const PipelineSchedule& schedule, const PipelineSpec& spec) {
  require_sound(problem, spec);
  check(std::ssize(first) == spec.stages() + 1, "a cut of {} stages for a pipeline of {}",
        std::ssize(first) - 1, spec.stages());
  const std::vector<RankCapacity> ranks = each_rank(problem, spec);
  const std::vector<int> held = held_by_stages(schedule, spec);
  return Partition(problem, ranks, held, schedule.splits_backward, spec).slowest(first);
}

StageCut cut_stages_in_any_order(const CutProblem& problem, const PipelineSchedule& schedule,
                                 const PipelineSpec& spec) {
  require_sound(problem, spec);
  require(problem.links.size() <= 1,
          "orders of ranks can be compared where all links are alike; describe one for all");
  const std::vector<RankCapacity> given = each_rank(problem, spec);
  const std::vector<int> held = held_by_stages(schedule, spec);
  // Of each rank, the first that is like it: orders that swap such ranks are the same.
  std::vector<int> kinds;
  for (const RankCapacity& rank : given)
    kinds.push_back(
        static_cast<int>(std::find_if(given.begin(), given.end(),
                                      [&](const RankCapacity& one) { return alike(one, rank); }) -
                         given.begin()));
  require(orders_of(kinds) <= kMostOrders,
          "{} unlike ranks have too many orders to try them all; give them in one", given.size());

  const auto best_of = [&](const std::vector<RankCapacity>& ranks) {
    return Partition(problem, ranks, held, schedule.splits_backward, spec).best();
  };
  std::optional<StageCut> best = best_of(given);
  std::sort(kinds.begin(), kinds.end());
  do {
    std::vector<RankCapacity> ranks;
    for (const int kind : kinds) ranks.push_back(given[kind]);
    auto other = best_of(ranks);
    if (other && (!best || other->slowest < best->slowest)) best = std::move(other);
  } while (std::next_permutation(kinds.begin(), kinds.end()));
  if (best) return std::move(*best);
  Partition(problem, given, held, schedule.splits_backward, spec).refuse();
}

PipelineTimes times_of(const StageCut& cut, const CutProblem& problem, const PipelineSpec& spec) {
  PipelineTimes times;
  for (int stage = 0; stage < spec.stages(); ++stage) {
    StageTimes sum{.forward = 0, .backward = 0, .backward_input = 0, .backward_weight = 0};
    for (int l = cut.first[stage]; l < cut.first[stage + 1]; ++l) {
      const StageTimes& one = problem.layers[l].times;
      sum.forward += one.forward;
      sum.backward += one.backward;
      sum.backward_input += one.backward_input;
      sum.backward_weight += one.backward_weight;
    }
    times.stages.push_back(sum);
    if (stage + 1 == spec.stages()) break;
    const LinkRate link = link_behind(stage, problem, spec);
    times.transfer.push_back(problem.layers[cut.first[stage + 1] - 1].output / link.bandwidth);
    times.latency = std::max(times.latency, link.latency);
  }
  for (const RankCapacity& rank : cut.ranks) times.speeds.push_back(rank.speed);
  return times;
}

}  // namespace asup::parallel
