// Benchmarks that train one job many times, by `asup train`.
#include <fmt/ranges.h>

#include <memory>

#include "asup/bench/compare/strategies.h"
#include "asup/bench/faults.h"
#include "asup/bench/faults/ways.h"
#include "asup/bench/large_batch.h"
#include "asup/bench/stragglers.h"
#include "asup/bench/time_to_accuracy.h"
#include "asup/cli/benchmarks.h"

namespace asup::cli {
namespace {

// Of the benchmarks that train one job many times; defaults are those that it has.
void add_training(CLI::App& bench, bench::Training& training) {
  const auto add = [&](const char* flag, auto& value, const char* help) {
    bench.add_option(flag, value, fmt::format("{} (default: {})", help, value));
  };
  add("--workers", training.workers, "How many workers");
  add("--steps", training.steps, "Steps of a run");
  add("--tests", training.tests, "Tests of a run, evenly; each is a sync point of all workers");
  add("--batch", training.batch, "Global batch");
  add("--sample-ms", training.sample_ms, "Milliseconds that a sample takes, by sleeps");
  add("--target", training.target, "Test accuracy to reach");
  add("--model", training.model, "Model");
  add("--data", training.data, "Data");
  add("--optimizer", training.optimizer, "Of a way that has none of its own");
  bench.add_option_function<std::string>(
      "--lr", [&training](const std::string& text) { training.set_lr(text); },
      fmt::format(
          "Its learning rate, for all ways; auto: for each way the best of {:g} and what is "
          "2, 4, … times that or less, on samples set aside from training (default: {})",
          training.lr, training.tunes ? "auto" : fmt::format("{:g}", training.lr)));
  bench.add_option("--rates", training.rates,
                   "With --lr auto: keep learning rates in this file, and take them from there "
                   "where it has those of this job");
  add("--schedule", training.schedule, "Its course: constant, cosine, step or power");
  bench.add_option("--train", training.flags,
                   "More flags of asup train for all runs: '--stem imagenet --warmup 20'");
  add("--out", training.folder, "Folder of the runs");
}

}  // namespace

Command add_stragglers(CLI::App& bench) {
  CLI::App* stragglers = add_bench(
      bench, "stragglers", "Time training to an accuracy, in several ways, while workers are slow");
  auto options = std::make_shared<bench::StragglersBench>();
  stragglers
      ->add_option(
          "--scenes", options->scenes,
          "equal, slow (one 4 times slower), half (every other one is), pauses (one, at random), "
          "changes (one is 4 "
          "times slower for a third of the run), halted (the same, by SIGSTOP and SIGCONT "
          "from outside), network (all equal, on hosts of their own with links of 1 Gbit/s "
          "and a server beside each; needs root); default: all that this machine can make")
      ->delimiter(',');
  stragglers
      ->add_option(
          "--ways", options->ways,
          fmt::format("Names: {}; frozen is asup that keeps its first choice (default: {})",
                      fmt::join(bench::names_of_known_ways(), ", "),
                      fmt::join(bench::usual_for_stragglers(), ",")))
      ->delimiter(',');
  stragglers->add_option("--seeds", options->seeds, "Runs of each (default: 3)");
  add_training(*stragglers, options->training);
  stragglers->add_option("--json", options->json, "Write the rows to this file too");
  stragglers->add_flag("--quick", options->quick, "One seed, and no tuning, for a first look");
  return benchmark(
      stragglers, [options] { options->training.check(); },
      [options] { return bench::run_stragglers_bench(*options); },
      {{"asup bench stragglers --quick --scenes slow", "one worker is four times slower"},
       {"asup bench stragglers --ways allreduce,balance,asup", "these ways, in every scene"},
       {"asup bench stragglers --seeds 5 --json rows.json", "five runs of each"}});
}

Command add_time_to_accuracy(CLI::App& bench) {
  CLI::App* command = add_bench(
      bench, "time-to-accuracy",
      "Time training to an accuracy between hosts with slow links, in several ways; needs root");
  auto options = std::make_shared<bench::TimeToAccuracyBench>();
  command->add_option("--rate", options->rate,
                      "Of each host's link, both ways, as 100mbit or 1gbit (default: 100mbit)");
  command
      ->add_option("--ways", options->ways,
                   fmt::format("Names: {}; those with servers have one beside each worker "
                               "(default: {})",
                               fmt::join(bench::names_of_known_ways(), ", "),
                               fmt::join(bench::usual_for_slow_links(), ",")))
      ->delimiter(',');
  command
      ->add_option("--way", options->more_ways,
                   "One more, by its flags: 'local4=--sync local --every 4'; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--slow", options->slow,
                      "The last worker takes so many times as long (default: 1)");
  command->add_option("--seeds", options->seeds, "Runs of each (default: 3)");
  add_training(*command, options->training);
  command->add_option("--compute-allreduce", options->allreduce_steps,
                      "Time all-reduce over so many steps only, and compute the rest from the "
                      "steps of a run without a limit; the table says so");
  command->add_option("--html", options->html, "Write a report with drawings to this file");
  command->add_option("--json", options->json, "Write the rows to this file too");
  command->add_flag("--quick", options->quick, "One seed and a hundred steps, for a first look");
  return benchmark(
      command, [options] { options->training.check(); },
      [options] { return bench::run_time_to_accuracy_bench(*options); },
      {{"sudo asup bench time-to-accuracy --quick", "a first look"},
       {"sudo asup bench time-to-accuracy --rate 1gbit --ways allreduce,local,diloco"},
       {"sudo asup bench time-to-accuracy --way 'local4=--sync local --every 4' --html "
        "page.html"}});
}

Command add_large_batch(CLI::App& bench) {
  CLI::App* command =
      add_bench(bench, "large-batch",
                "Compare the accuracy that batches of several sizes end with, at equal epochs");
  auto options = std::make_shared<bench::LargeBatchBench>();
  bench::LargeBatchJob& job = options->job;
  bench::Training& training = job.training;
  const auto add = [&](const char* flag, auto& value, const char* help) {
    command->add_option(flag, value, fmt::format("{} (default: {})", help, value));
  };
  command
      ->add_option("--batches", job.batches,
                   fmt::format("Global batches (default: {})", fmt::join(job.batches, ",")))
      ->delimiter(',');
  command
      ->add_option(
          "--ways", job.ways,
          fmt::format("Names: {}; sgd has the rate of the smallest batch, which grows with "
                      "the batch, the others have one tuned for each batch; growing is "
                      "nesterov that begins with the smallest batch (default: all)",
                      fmt::join(bench::names_of_batch_ways(), ", ")))
      ->delimiter(',');
  add("--epochs", training.epochs, "Passes over the data, of every run");
  add("--seeds", options->seeds, "Runs of each");
  add("--jobs", options->jobs, "Runs at a time: more where there are many cores, or a GPU");
  add("--workers", training.workers, "How many workers a run has");
  add("--portion", job.portion, "Samples that a worker computes at once, at most");
  add("--model", training.model, "Model");
  add("--data", training.data, "Data");
  command->add_option("--train", training.flags,
                      "More flags of asup train for all runs: '--weight-decay 0.0005'");
  command->add_option("--rates", training.rates,
                      "Keep learning rates in this file, and take them from there where it has "
                      "those of this job");
  add("--out", training.folder, "Folder of the runs");
  command->add_option("--html", options->html, "Write a page with a drawing to this file");
  command->add_option("--json", options->json,
                      "Write the rows to this file, after each run; those that it has already are "
                      "not run again");
  command->add_flag("--quick", options->quick,
                    "One seed, two epochs and no tuning, for a first look");
  return benchmark(
      command, [options] { options->check(); },
      [options] { return bench::run_large_batch_bench(*options); },
      {{"asup bench large-batch --quick", "a small network on Fashion-MNIST"},
       {"asup bench large-batch --ways nesterov,lars --batches 128,1024,8192 --html page.html"},
       {"asup bench large-batch --model resnet18 --data DIR --workers 1 --jobs 4 --json "
        "rows.json"}});
}

Command add_faults(CLI::App& bench) {
  CLI::App* command = add_bench(
      bench, "faults",
      "Kill, halt and cut off workers that train, at random moments, and count what comes of it");
  auto options = std::make_shared<bench::FaultsBench>();
  const auto add = [&](const char* flag, auto& value, const char* help) {
    command->add_option(flag, value, fmt::format("{} (default: {})", help, value));
  };
  command
      ->add_option(
          "--ways", options->ways,
          fmt::format("Names: {} (default: all)", fmt::join(bench::names_of_faulty_ways(), ", ")))
      ->delimiter(',');
  command->add_option("--seconds", options->seconds,
                      "No job is begun after so many (default: 60, without --faults)");
  command->add_option("--faults", options->faults, "Until there were so many");
  command->add_option("--every", options->every,
                      "Measure the speed of a job that loses a worker and gets another so often, "
                      "in seconds, beside that of one left alone");
  add("--workers", options->workers, "How many workers a job has");
  command->add_option("--hosts", options->hosts,
                      "Hosts with a worker each, made of network namespaces, whose links are cut; "
                      "needs root");
  add("--model", options->model, "mlp or cnn");
  command->add_option("--steps", options->steps,
                      "Steps of a job (default: 300, between hosts 2000)");
  add("--seed", options->seed, "Of moments and victims");
  add("--out", options->folder, "Folder of the runs; those in which something is wrong stay there");
  command->add_option("--json", options->json, "Write the rows to this file too");
  return benchmark(
      command, [options] { options->check(); },
      [options] { return bench::run_faults_bench(*options); },
      {{"asup bench faults", "a minute, by all ways"},
       {"asup bench faults --faults 1000 --json rows.json", "until there were a thousand"},
       {"asup bench faults --ways allreduce,tcp --workers 8", "these ways"},
       {"sudo asup bench faults --hosts 3 --seconds 600", "links between hosts are cut"},
       {"asup bench faults --every 60 --seconds 600 --model cnn",
        "what a loss each minute costs"}});
}

}  // namespace asup::cli
