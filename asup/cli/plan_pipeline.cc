// asup plan pipeline: shows what a pipeline schedule does, prices it, draws it, and proves it.
#include "asup/cli/plan_pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "asup/base/clock.h"
#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/base/numbers.h"
#include "asup/cli/usage.h"
#include "asup/parallel/cut/cut_file.h"
#include "asup/parallel/schedule/cost.h"
#include "asup/parallel/schedule/drawing.h"
#include "asup/parallel/schedule/verify.h"
#include "asup/report/run_folder.h"

namespace asup::cli {
namespace {

using parallel::PipelineSchedule;
using parallel::PipelineSpec;
using parallel::PipelineTimes;
using parallel::Price;
using parallel::StageTimes;

constexpr std::int64_t kMostActions = 2'000'000;  // of all ranks

struct PipelineFlags {
  std::string schedule, times = "1,1,1", speeds, cut, svg, json;
  int ranks = 0, micro_batches = 0, chunks = 0;
  double link_time = 0;
  bool verify = false, any_order = false;
};

int list_schedules() {
  std::size_t width = 0;
  for (const PipelineSchedule& schedule : parallel::pipeline_schedules())
    width = std::max(width, schedule.name.size());
  for (const PipelineSchedule& schedule : parallel::pipeline_schedules())
    fmt::print("{:<{}}  {}\n", schedule.name, width, schedule.description);
  fmt::print(
      "\nfor p ranks, m micro-batches, v chunks and equal times of forward, input and weights;\n"
      "asup plan pipeline SCHEDULE --stages P --microbatches M shows one\n");
  return 0;
}

PipelineSpec spec_of(const PipelineFlags& flags, const PipelineSchedule& schedule) {
  require(flags.ranks >= 1, "--stages says of how many ranks the pipeline is, at least 1");
  require(flags.micro_batches >= 1,
          "--microbatches says into how many a step's batch is cut, at least 1");
  const PipelineSpec spec{.ranks = flags.ranks,
                          .micro_batches = flags.micro_batches,
                          .chunks = flags.chunks != 0 ? flags.chunks : schedule.least_chunks,
                          .placement = schedule.placement};
  parallel::require_valid(schedule, spec);
  const std::int64_t actions =
      std::int64_t{7} * spec.ranks * spec.chunks * std::int64_t{spec.micro_batches};
  require(
      spec.ranks <= kMostActions && spec.micro_batches <= kMostActions && actions <= kMostActions,
      "{} stages and {} micro-batches are some {} million actions, more than can be shown; "
      "give fewer",
      spec.stages(), spec.micro_batches, actions / 1'000'000);
  return spec;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text)
    if (c == at)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

double number(const char* flag, const std::string& all, const std::string& text) {
  const auto value = number_in<double>(text);
  require(value.has_value(), "{} {}: '{}' is no number", flag, all, text);
  return *value;
}

StageTimes stage_times(const std::string& all, const std::string& text) {
  const auto parts = split(text, ',');
  require(parts.size() == 3,
          "--times {}: '{}' should be three times: of forward, of the input's gradient and of the "
          "weights'",
          all, text);
  StageTimes times{.forward = number("--times", all, parts[0]),
                   .backward_input = number("--times", all, parts[1]),
                   .backward_weight = number("--times", all, parts[2])};
  times.backward = times.backward_input + times.backward_weight;
  return times;
}

PipelineTimes times_of(const PipelineFlags& flags, const PipelineSpec& spec) {
  const auto stages = split(flags.times, '/');
  PipelineTimes times;
  if (stages.size() == 1) {
    times = equal_times(stage_times(flags.times, stages[0]), spec);
  } else {
    require(std::ssize(stages) == spec.stages(),
            "--times has {} stages, the pipeline {}: give one triple for all ranks, or one for "
            "each stage",
            stages.size(), spec.stages());
    for (const std::string& stage : stages) times.stages.push_back(stage_times(flags.times, stage));
  }
  if (!flags.speeds.empty())
    for (const std::string& speed : split(flags.speeds, ','))
      times.speeds.push_back(number("--speeds", flags.speeds, speed));
  times.latency = flags.link_time;
  return times;
}

// The cut of measured layers, and the times that follow from it.
struct MeasuredCut {
  parallel::CutProblem problem;
  parallel::StageCut cut;
};

// Of a run's folder, the file in it.
std::string cut_file(const std::string& path) {
  if (!std::filesystem::is_directory(path)) return path;
  const report::RunFolder folder(path);
  folder.check_is_run();
  require(std::filesystem::exists(folder.layers_file()),
          "--cut {}: the run has not measured its layers, since it has no pipeline or its stages "
          "were said: give one with pipeline-cut = auto",
          path);
  return folder.layers_file();
}

MeasuredCut measured_cut(const PipelineFlags& flags, const PipelineSchedule& schedule,
                         const PipelineSpec& spec) {
  MeasuredCut measured{.problem = parallel::read_cut_problem(cut_file(flags.cut)), .cut = {}};
  measured.cut = flags.any_order
                     ? parallel::cut_stages_in_any_order(measured.problem, schedule, spec)
                     : parallel::cut_stages(measured.problem, schedule, spec);
  return measured;
}

// A line for each stage.
std::string text_of(const MeasuredCut& measured, const PipelineSpec& spec) {
  std::string text;
  for (int stage = 0; stage < spec.stages(); ++stage) {
    const int begin = measured.cut.first[stage], end = measured.cut.first[stage + 1];
    const auto name = [&](int layer) {
      const std::string& given = measured.problem.layers[layer].name;
      return given.empty() ? fmt::format("layer {}", layer) : given;
    };
    const int rank = spec.rank_of(stage);
    text += fmt::format("stage {} on rank {}", stage, rank);
    if (spec.ranks > 1) text += fmt::format(", of speed {:.4g}", measured.cut.ranks[rank].speed);
    text += end - begin == 1
                ? fmt::format(": {}\n", name(begin))
                : fmt::format(": {} layers, {} to {}\n", end - begin, name(begin), name(end - 1));
  }
  return text +
         fmt::format("the slowest stage takes {:.4g} s a micro-batch\n", measured.cut.slowest);
}

std::string title_of(const PipelineSchedule& schedule, const PipelineSpec& spec) {
  return fmt::format("{} on {} rank{}{}, {} micro-batch{}", schedule.name, spec.ranks,
                     spec.ranks == 1 ? "" : "s",
                     spec.chunks == 1 ? "" : fmt::format(" of {} chunks", spec.chunks),
                     spec.micro_batches, spec.micro_batches == 1 ? "" : "es");
}

std::string summary_of(const PipelineSpec& spec, const Price& price) {
  const int most = *std::max_element(price.activations.begin(), price.activations.end());
  std::string text = fmt::format(
      "a step takes {:.4g}, {:.2f} times as fast as one rank alone; the bubble is {:.1f} %\n",
      price.makespan, price.speedup(), 100 * price.bubble());
  std::vector<std::string> idle;
  for (int rank = 0; rank < spec.ranks; ++rank)
    idle.push_back(fmt::format("{:.0f}", 100 * price.bubble(rank)));
  const auto [least_busy, most_busy] = std::minmax_element(price.busy.begin(), price.busy.end());
  if (*most_busy - *least_busy > 1e-9 * price.makespan)
    text += fmt::format("of the ranks: {} %\n", fmt::join(idle, ", "));
  return text + fmt::format("a rank holds activations of {} micro-batch{}{} at most\n", most,
                            most == 1 ? "" : "es",
                            spec.chunks == 1
                                ? ""
                                : fmt::format(", each in 1/{} of its layers", spec.chunks));
}

// What was proven, in words. Throws Error with the flaw where there is one.
std::string prove(const PipelineSchedule& schedule, const PipelineSpec& spec) {
  const auto start = Clock::now();
  const auto all = parallel::verified_schedules(schedule, spec);
  std::size_t actions = 0;
  for (const parallel::Schedule& one : all) actions += one.size();
  return fmt::format(
      "proven in {:.1f} ms, {} actions: every stage does each micro-batch forward and backward\n"
      "exactly once, with what it needs; every send meets its recv, in order; nobody waits for\n"
      "ever, even on links that buffer nothing; no rank holds more activations than it says\n",
      seconds_since(start) * 1e3, actions);
}

void write_json(const std::string& path, const Price& price) {
  auto rows = nlohmann::json::array();
  for (std::size_t rank = 0; rank < price.ranks.size(); ++rank)
    for (const parallel::TimedAction& timed : price.ranks[rank])
      rows.push_back({{"rank", rank},
                      {"op", name_of(timed.action.op)},
                      {"stage", timed.action.stage},
                      {"micro_batch", timed.action.micro_batch},
                      {"begin", timed.begin},
                      {"end", timed.end}});
  write_atomically(path, rows.dump(1) + "\n");
}

int show(const PipelineFlags& flags) {
  if (flags.schedule.empty()) return list_schedules();
  const PipelineSchedule& schedule = parallel::find_schedule(flags.schedule);
  const PipelineSpec spec = spec_of(flags, schedule);
  PipelineTimes times = times_of(flags, spec);
  std::string cut;
  if (!flags.cut.empty()) {
    const MeasuredCut measured = measured_cut(flags, schedule, spec);
    times = parallel::times_of(measured.cut, measured.problem, spec);
    cut = text_of(measured, spec);
  }
  // A schedule with a flaw may have no course in time: it is found first, and ends the command.
  const std::string proof = flags.verify ? prove(schedule, spec) : "";
  const Price price = parallel::price(spec, schedules_of(schedule, spec), times);
  fmt::print("{}: {}\n{}{}{}{}", title_of(schedule, spec), schedule.description, cut,
             summary_of(spec, price), parallel::text_of(spec, price), proof);
  if (!flags.svg.empty()) {
    require(spec.stages() * std::int64_t{spec.micro_batches} <= 30'000,
            "--svg: {} stages and {} micro-batches are no picture; give fewer", spec.stages(),
            spec.micro_batches);
    write_atomically(flags.svg, svg_of(spec, price, title_of(schedule, spec)));
    fmt::print("drawn to {}\n", flags.svg);
  }
  if (!flags.json.empty()) write_json(flags.json, price);
  return 0;
}

void check_flags(const PipelineFlags& flags) {
  if (flags.schedule.empty()) return;
  times_of(flags, spec_of(flags, parallel::find_schedule(flags.schedule)));
}

}  // namespace

Command add_plan_pipeline(CLI::App& plan) {
  CLI::App* pipeline =
      plan.add_subcommand("pipeline", "The same of a pipeline's schedule, with its bubble");
  set_usage(*pipeline, "Usage: asup plan pipeline [SCHEDULE --stages P --microbatches M] [flags]");
  auto flags = std::make_shared<PipelineFlags>();
  pipeline->add_option("schedule", flags->schedule, "Which one; without it, all are listed");
  pipeline
      ->add_option("-n,--stages,--ranks", flags->ranks,
                   "Ranks of the pipeline, each with a stage, or with several by --chunks")
      ->type_name("P");
  pipeline->add_option("--microbatches", flags->micro_batches, "Of a step's batch")->type_name("M");
  pipeline
      ->add_option("--chunks", flags->chunks,
                   "Stages of a rank (default: the fewest that the schedule has)")
      ->type_name("V");
  pipeline
      ->add_option(
          "--times", flags->times,
          "Of a micro-batch on a rank, over its chunks: forward, the input's gradient, the "
          "weights' (default: 1,1,1); or a triple for each stage, with / between")
      ->type_name("F,B,W");
  pipeline->add_option("--speeds", flags->speeds, "Of each rank, by which its times are divided")
      ->type_name("A,B,…");
  pipeline->add_option("--link-time", flags->link_time, "Of a message (default: 0)")
      ->type_name("T");
  CLI::Option* cut =
      pipeline
          ->add_option("--cut", flags->cut,
                       "Cut the layers that this file describes (docs/pipeline_schedules.md), or "
                       "that this run has measured, into stages, as even as can be, and take its "
                       "times")
          ->type_name("FILE|RUN");
  for (const char* given : {"--times", "--speeds", "--link-time"})
    cut->excludes(pipeline->get_option(given));
  pipeline
      ->add_flag("--any-order", flags->any_order, "The file's ranks in the order that is the best")
      ->needs(cut);
  pipeline->add_option("--svg", flags->svg, "Draw it to this file")->type_name("FILE");
  pipeline->add_option("--json", flags->json, "Write the actions and their times to this file")
      ->type_name("FILE");
  pipeline->add_flag("--verify", flags->verify, "Prove that all ranks do what they should");
  return {
      pipeline,
      [flags] { return show(*flags); },
      [flags] { check_flags(*flags); },
      {{"asup plan pipeline", "lists the schedules"},
       {"asup plan pipeline 1f1b --stages 4 --microbatches 8", "what each rank does, and when"},
       {"asup plan pipeline zbv -n 4 --microbatches 8 --verify", "proves another"},
       {"asup plan pipeline zb1p -n 4 --microbatches 8 --svg plan.svg", "draws it"},
       {"asup plan pipeline interleaved -n 4 --microbatches 8 --chunks 3", "three stages a rank"},
       {"asup plan pipeline 1f1b -n 2 --microbatches 8 --times 1,1,1/2,2,2", "unequal stages"},
       {"asup plan pipeline 1f1b -n 2 --microbatches 8 --cut FILE", "measured layers"}}};
}

}  // namespace asup::cli
