// asup plan: shows what an algorithm does, round by round, draws it, and proves it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "asup/base/clock.h"
#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/base/numbers.h"
#include "asup/base/suggest.h"
#include "asup/bench/collective_names.h"
#include "asup/cli/command.h"
#include "asup/cli/plan_pipeline.h"
#include "asup/cli/usage.h"
#include "asup/collective/drawing/svg.h"
#include "asup/collective/drawing/text.h"
#include "asup/collective/verify/verify.h"

namespace asup::cli {
namespace {

using collective::Algorithm;
using collective::Collective;
using collective::Plan;
using collective::Spec;
namespace drawing = collective::drawing;

constexpr std::size_t kMostSteps = 20'000'000;  // of all ranks: some gigabytes

const std::vector<Example> kExamples{
    {"asup plan", "lists the algorithms"},
    {"asup plan binary_blocks --ranks 6", "prints its rounds"},
    {"asup plan binary_blocks --ranks 6 --svg plan.svg", "draws them"},
    {"asup plan binary_blocks --ranks 600 --verify", "proves them"},
    {"asup plan ring --op allgather --ranks 8 --rank 3", "what rank 3 does"},
    {"asup plan pipeline", "lists the schedules of pipelines"}};

struct PlanFlags {
  std::string algorithm, op, count, slice, json, svg;
  int ranks = 0, rank = -1, root = 0;
  bool verify = false;
};

int list_algorithms() {
  std::size_t width = 0;
  for (const Algorithm& algorithm : collective::algorithms())
    width = std::max(width, algorithm.name.size());
  Collective before = Collective::recv;
  for (const Algorithm& algorithm : collective::algorithms()) {
    if (is_point_to_point(algorithm.collective)) continue;
    if (algorithm.collective != before) fmt::print("{}\n", bench::word_for(algorithm.collective));
    before = algorithm.collective;
    fmt::print("  {:<{}}  {}\n", algorithm.name, width, algorithm.description);
  }
  fmt::print(
      "\nasup plan ALGORITHM --ranks N prints the rounds of one; asup plan pipeline lists the "
      "schedules\nof pipelines.\n");
  return 0;
}

// Of the collective that was asked for, else of the first that has it.
const Algorithm& find(const PlanFlags& flags) {
  std::vector<std::string> names;
  for (const Algorithm& algorithm : collective::algorithms()) {
    if (is_point_to_point(algorithm.collective)) continue;
    if (!flags.op.empty() && bench::collective_of(flags.op) != algorithm.collective) continue;
    if (algorithm.name == flags.algorithm) return algorithm;
    if (std::count(names.begin(), names.end(), algorithm.name) == 0)
      names.emplace_back(algorithm.name);
  }
  const std::string near = did_you_mean(flags.algorithm, names);
  throw BadInput(fmt::format(
      "no algorithm '{}'{}{}", flags.algorithm, flags.op.empty() ? "" : " for " + flags.op,
      near.empty() ? fmt::format("; there are: {}", fmt::join(names, ", ")) : near));
}

std::size_t number(const char* flag, const std::string& text) {
  const auto value = number_in<std::size_t>(text);
  require(value && *value <= std::numeric_limits<std::int64_t>::max() / 8,
          "{} {}: how many elements, a number that memory can hold", flag, text);
  return *value;
}

Spec spec_of(const PlanFlags& flags, const Algorithm& algorithm) {
  require(flags.ranks >= 1, "--ranks says among how many ranks, at least 1");
  require(flags.ranks <= 65536, "--ranks {}: at most 65536", flags.ranks);
  Spec spec;
  spec.collective = algorithm.collective;
  spec.ranks = flags.ranks;
  // A part of 64 elements, a cache line of any dtype, for each rank.
  if (algorithm.collective != Collective::barrier)
    spec.count = flags.count.empty() ? 64 * static_cast<std::size_t>(flags.ranks)
                                     : number("--count", flags.count);
  if (!flags.slice.empty()) spec.slice = number("--slice", flags.slice);
  spec.root = flags.root;
  spec.shared = algorithm.needs_shared;
  spec.stage = algorithm.needs_stage;
  collective::require_valid(spec);
  require(flags.rank < flags.ranks && flags.rank >= -1, "--rank {}: ranks are 0 to {}", flags.rank,
          flags.ranks - 1);
  require(spec.count / spec.slice <= 1'000'000,
          "{} elements in slices of {} are too many messages to show; give a larger --slice",
          spec.count, spec.slice);
  return spec;
}

std::size_t steps_of(const Plan& plan) {
  std::size_t steps = 0;
  for (const auto& lane : plan.lanes)
    for (const auto& round : lane) steps += round.size();
  return steps;
}

std::vector<Plan> plans_of(const Algorithm& algorithm, const Spec& spec) {
  const Plan first = algorithm.plan(spec.root, spec);
  const auto ranks = static_cast<std::size_t>(spec.ranks);
  require(steps_of(first) * ranks <= kMostSteps,
          "{} among {} ranks has some {} million steps, more than fit here; give fewer --ranks, a "
          "larger --slice, or the plan of one --rank",
          algorithm.name, spec.ranks, steps_of(first) * ranks / 1'000'000);
  std::vector<Plan> plans;
  for (int rank = 0; rank < spec.ranks; ++rank) plans.push_back(algorithm.plan(rank, spec));
  return plans;
}

std::string title_of(const Algorithm& algorithm, const Spec& spec) {
  return fmt::format("{} by {} among {} rank{}, {} elements", bench::word_for(spec.collective),
                     algorithm.name, spec.ranks, spec.ranks == 1 ? "" : "s", spec.count);
}

// What the plans amount to: depth, messages, the busiest rank's elements.
std::string summary_of(const Spec& spec, const std::vector<Plan>& plans,
                       const drawing::Timeline& timeline) {
  std::vector<std::size_t> sent(plans.size());
  std::size_t scratch = 0;
  for (const drawing::Event& event : timeline.events)
    if (event.is_message()) sent[static_cast<std::size_t>(event.from)] += event.step.src.size();
  for (const Plan& plan : plans) scratch = std::max(scratch, plan.scratch);
  const std::size_t most = sent.empty() ? 0 : *std::max_element(sent.begin(), sent.end());
  std::string text =
      fmt::format("{} rounds deep, {} messages", timeline.ticks, timeline.messages());
  if (timeline.lanes > 1) text += fmt::format(" in {} lanes", timeline.lanes);
  if (spec.count > 0)
    text += fmt::format("; a rank sends {} elements at most, {:.2f} of the whole", most,
                        static_cast<double>(most) / static_cast<double>(spec.count));
  if (scratch > 0) text += fmt::format("; scratch for {} elements", scratch);
  return text;
}

nlohmann::json row_of(const drawing::Event& event) {
  nlohmann::json row = {{"lane", event.lane},
                        {"round", event.tick},
                        {"from", event.from},
                        {"op", name_of(event.is_message() ? event.received.op : event.step.op)}};
  const collective::Step& writes = event.is_message() ? event.received : event.step;
  row["to"] = event.is_message() ? event.to : event.step.peer;
  row["begin"] = writes.dst.begin;
  row["end"] = writes.dst.end;
  row["complete"] = writes.finish;
  return row;
}

void write_json(const std::string& path, const drawing::Timeline& timeline) {
  auto rows = nlohmann::json::array();
  for (const drawing::Event& event : timeline.events) rows.push_back(row_of(event));
  write_atomically(path, rows.dump(1) + "\n");
}

// What was proven, in words. Throws Error with the flaw where there is one.
std::string prove(const Spec& spec, const std::vector<Plan>& plans) {
  const auto start = Clock::now();
  const auto flaw = collective::verify(spec, plans);
  if (flaw) throw Error("not proven: " + describe(*flaw));
  return fmt::format(
      "proven in {:.1f} ms for {} ranks and {} elements: every output ends with exactly the right\n"
      "contributions, added up in one order on all ranks; every send meets its receive; nobody\n"
      "waits for ever, even on links that buffer nothing; no two accesses to memory race\n",
      seconds_since(start) * 1e3, spec.ranks, spec.count);
}

// Few lines of many ranks, where something else was asked for as well.
drawing::TextLimits limits_of(const PlanFlags& flags) {
  const bool more = flags.verify || !flags.svg.empty() || !flags.json.empty();
  return more && flags.ranks > 16 ? drawing::TextLimits{3, 6} : drawing::TextLimits{};
}

int show_all(const PlanFlags& flags, const Algorithm& algorithm, const Spec& spec) {
  const std::vector<Plan> plans = plans_of(algorithm, spec);
  // Plans with a flaw may have no rounds to speak of: it is found first, and ends the command.
  std::string proof;
  if (flags.verify) proof = prove(spec, plans);
  const drawing::Timeline timeline = drawing::timeline_of(spec, plans);
  if (flags.rank < 0)
    fmt::print("{}: {}\n{}\n{}", title_of(algorithm, spec), algorithm.description,
               summary_of(spec, plans, timeline),
               drawing::text_of(spec, timeline, limits_of(flags)));
  fmt::print("{}", proof);
  if (!flags.svg.empty()) {
    require(timeline.events.size() <= 100'000,
            "--svg: {} arrows are no picture; give fewer --ranks", timeline.events.size());
    write_atomically(flags.svg, drawing::svg_of(spec, timeline, title_of(algorithm, spec)));
    fmt::print("drawn to {}\n", flags.svg);
  }
  if (!flags.json.empty()) write_json(flags.json, timeline);
  return 0;
}

int show(const PlanFlags& flags) {
  if (flags.algorithm.empty()) return list_algorithms();
  const Algorithm& algorithm = find(flags);
  const Spec spec = spec_of(flags, algorithm);
  if (flags.rank >= 0) {
    fmt::print("{}: rank {}\n{}", title_of(algorithm, spec), flags.rank,
               describe(algorithm.plan(flags.rank, spec)));
    if (flags.svg.empty() && flags.json.empty() && !flags.verify) return 0;
  }
  return show_all(flags, algorithm, spec);
}

// A flag before the word `pipeline` would count for nothing.
void require_no_flags(const CLI::App& plan) {
  for (const CLI::Option* option : plan.get_options())
    require(option->count() == 0, "{} stands before pipeline; give it behind its schedule",
            option->get_name());
}

}  // namespace

Command add_plan_command(CLI::App& app) {
  CLI::App* plan =
      app.add_subcommand("plan", "Show, draw and prove what an algorithm does, or a pipeline");
  set_usage(*plan, "Usage: asup plan [ALGORITHM --ranks N] [flags]");
  auto flags = std::make_shared<PlanFlags>();
  plan->add_option("algorithm", flags->algorithm, "Which one; without it, all are listed");
  plan->add_option("-n,--ranks", flags->ranks, "Among how many ranks")->type_name("N");
  plan->add_option("--op", flags->op,
                   "allreduce, reduce_scatter, allgather, …; default: the first that has the "
                   "algorithm")
      ->type_name("OP");
  plan->add_option("--count", flags->count, "Elements of the whole (default: 64 a rank)")
      ->type_name("E");
  plan->add_option("--slice", flags->slice,
                   "Elements of a message, about: how finely lanes are cut")
      ->type_name("E");
  plan->add_option("--root", flags->root, "Of a broadcast, reduce, … (default: 0)")->type_name("R");
  plan->add_option("--rank", flags->rank, "Print what this rank does")->type_name("R");
  plan->add_option("--svg", flags->svg, "Draw the rounds to this file")->type_name("FILE");
  plan->add_option("--json", flags->json, "Write the steps to this file, an object each")
      ->type_name("FILE");
  plan->add_flag("--verify", flags->verify,
                 "Prove that the plans of all ranks do what they should");
  const Command pipeline = add_plan_pipeline(*plan);
  pipeline.app->group("Commands");
  return {plan,
          [flags, pipeline, plan] {
            if (!pipeline.app->parsed()) return show(*flags);
            require_no_flags(*plan);
            return pipeline.run();
          },
          [flags, pipeline, plan] {
            if (pipeline.app->parsed()) {
              require_no_flags(*plan);
              return pipeline.check();
            }
            if (!flags->algorithm.empty()) spec_of(*flags, find(*flags));
          },
          kExamples,
          {pipeline}};
}

}  // namespace asup::cli
