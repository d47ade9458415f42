#include "asup/bench/faults/job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "asup/base/error.h"
#include "asup/bench/compare/strategies.h"
#include "asup/bench/faults/program.h"

namespace asup::bench {
namespace {

using Words = std::vector<std::string>;

constexpr int kBatch = 24;
constexpr const char* kSlowness = "ASUP_INJECTED_SLOWNESS=sample_ms=0.5";

void append(Words& words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
}

std::string program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

// A test and a checkpoint come now and then.
Words train_flags(const FaultyJob& job) {
  Words words{"--data=synthetic",
              "--synthetic-samples=2400",
              "--synthetic-test-samples=90",
              fmt::format("--batch={}", kBatch),
              "--lr=0.01",
              "--threads=1",
              "--log-every=1",
              fmt::format("--eval-every={}", job.test_every),
              fmt::format("--checkpoint-every={}", job.save_every),
              "--progress=none",
              "--no-tensorboard",
              fmt::format("--steps={}", job.steps),
              fmt::format("--seed={}", job.seed),
              fmt::format("--out={}", job.run_folder())};
  append(words, job.model == "mlp"
                    ? Words{"--model=mlp", "--width=64", "--depth=3", "--synthetic-shape=1x8x8"}
                    : Words{"--model=cnn", "--synthetic-shape=1x28x28"});
  return words;
}

// Between hosts a second one would be on one that is lost.
int servers_of(const FaultyJob& job) {
  return job.hosts ? std::min(job.way.servers, 1) : job.way.servers;
}

// Up to the program.
Words run_command(const FaultyJob& job) {
  Words words{program(), "run"};
  if (job.hosts)
    append(words, job.hosts->run_flags());
  else
    append(words, {"-n", fmt::format("{}", job.workers)});
  if (job.way.after != AfterLoss::ends) append(words, {"--on-loss", "continue"});
  if (servers_of(job) > 0) append(words, {"--servers", fmt::format("{}", servers_of(job))});
  for (const std::string& variable : variables_of(job)) append(words, {"--env", variable});
  words.push_back("--");
  return words;
}

}  // namespace

std::string FaultyJob::join_log(std::size_t newcomer) const {
  return fmt::format("{}/join-{}.log", folder, newcomer);
}

std::string FaultyJob::mark() const {
  return fmt::format("FAULTS_BENCH_JOB={}-{}", getpid(), folder);
}

std::string FaultyJob::why_not() const {
  if (hosts && way.loses_server) return "between hosts, servers are left alone";
  if (workers % way.group != 0)
    return fmt::format("{} workers are no groups of {}", workers, way.group);
  if (way.mlp_only && model != "mlp") return fmt::format("it does not go with {}", model);
  if (way.is_program && workers > kMostOfProgram)
    return fmt::format("it tells {} workers apart at most", kMostOfProgram);
  return "";
}

void check_model(const std::string& model) {
  require(model == "mlp" || model == "cnn", "--model {}: there is mlp, cnn", model);
}

std::vector<std::string> command_of(const FaultyJob& job) {
  Words words;
  if (job.way.is_program) {
    words = run_command(job);
    append(words, {program(), "bench", "faults", fmt::format("--steps={}", job.steps)});
  } else if (job.hosts) {
    words = run_command(job);
    append(words, {program(), "train"});
    append(words, train_flags(job));
    append(words, words_of(job.way.flags));
  } else {
    words = {program(), "train", fmt::format("--workers={}", job.workers)};
    append(words, train_flags(job));
    append(words, words_of(job.way.flags));
    if (job.way.servers > 0) words.push_back(fmt::format("--servers={}", job.way.servers));
    if (job.way.after != AfterLoss::ends) words.push_back("--on-loss=continue");
  }
  return job.hosts ? job.hosts->on_first_host(words) : words;
}

std::vector<std::string> variables_of(const FaultyJob& job) {
  Words variables{job.mark(), "ASUP_STEP_TIMES=" + job.times_folder()};
  if (job.is_slow) variables.push_back(kSlowness);
  if (job.way.is_program) {
    variables.push_back(fmt::format("{}={}", kProgramVariable, job.program_folder()));
    append(variables, words_of(job.way.flags));
  }
  return variables;
}

std::vector<std::string> join_command_of(const FaultyJob& job) {
  return {program(), "run", "--join=" + job.run_folder(), "-n1", "--", program(), "train"};
}

std::vector<std::string> resume_command_of(const FaultyJob& job) {
  Words words{program(), "train", "--resume=" + job.run_folder()};
  if (job.hosts) words.push_back(fmt::format("--workers={}", job.workers));
  if (servers_of(job) > 0) words.push_back(fmt::format("--servers={}", servers_of(job)));
  return words;
}

std::vector<std::string> undisturbed_command_of(const FaultyJob& job, int workers) {
  Words words{program(), "train", fmt::format("--workers={}", workers)};
  append(words, train_flags(job));
  return words;
}

void make_faulty_job_folders(const FaultyJob& job) {
  remove_faulty_job(job);
  for (const std::string& folder : {job.folder, job.times_folder(), job.program_folder()})
    std::filesystem::create_directories(folder);
}

void remove_faulty_job(const FaultyJob& job) { std::filesystem::remove_all(job.folder); }

}  // namespace asup::bench
