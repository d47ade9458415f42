// asup run: starts a program as the ranks of a job.
#include <filesystem>
#include <memory>

#include "asup/base/error.h"
#include "asup/base/suggest.h"
#include "asup/cli/command.h"
#include "asup/cli/restarts.h"
#include "asup/cli/usage.h"
#include "asup/distribute/variables.h"
#include "asup/launch/launch.h"

namespace asup::cli {
namespace {

const std::vector<Example> kExamples{
    {"asup run -n 4 -- ./program --epochs 10", "four ranks on this host"},
    {"asup run --hosts alpha,beta -- ./program", "one rank on each of two hosts, over ssh"},
    {"asup run --hosts alpha:2,beta:2 -- ./program", "two on each"},
    {"asup run -n 4 --servers 2 -- ./program", "four ranks, and two servers beside them"},
    {"asup run -n 4 --restarts 3 -- ./program", "started again if it fails, up to three times"},
    {"asup run --join runs/mine -n 1 -- asup train", "one more worker for a job that runs"}};

constexpr const char *kRanks = "Ranks", *kNetwork = "Network", *kEnds = "Times and losses",
                     *kOutput = "Output";

constexpr const char* kFooter = R"(
A rank that fails ends the job, unless --on-loss continue; the last line says which rank and why.
Exit status: 0 done, 1 the job failed, 2 bad input, 130 Ctrl-C (128 + the signal's number).

The program finds its job with asup::Job::join(). Variables for scripts: ASUP_RANK, ASUP_SIZE,
ASUP_LOCAL_RANK, ASUP_LOCAL_SIZE, ASUP_SERVERS. OMP_NUM_THREADS is set to the host's cores divided
by its ranks, unless it is set already.)";

struct RunFlags {
  launch::LaunchOptions options;
  std::string hosts, on_loss = "end";
  std::string timeline;
  double join_timeout = 60, call_timeout = 300, grace = 5;
  std::int64_t restarts = 0;
  bool no_prefix = false;
};

void add_ranks(CLI::App& run, RunFlags& flags) {
  auto& options = flags.options;
  run.add_option("-n,--ranks", options.ranks, "How many ranks (default: 1, or the hosts' slots)")
      ->type_name("N")
      ->check(between(1, 1'000'000))
      ->group(kRanks);
  run.add_option("--servers", options.servers,
                 "How many servers beside the ranks, for `sync = server` (default: 0)")
      ->type_name("S")
      ->check(between(0, 1'000'000))
      ->group(kRanks);
  run.add_option("--hosts", flags.hosts,
                 "Hosts to run on, over ssh: a,b or a:2,b:4 with the ranks each can take; "
                 "localhost is this one")
      ->type_name("a,b")
      ->group(kRanks);
  run.add_option("--name", options.job,
                 "What the job is called, for --join (default: the pid of asup run)")
      ->type_name("NAME")
      ->group(kRanks);
  run.add_option("--join", options.join,
                 "Add the ranks to a running job instead: its name, the run folder of asup train, "
                 "or host:port of its coordinator (with ASUP_KEY_FILE)")
      ->type_name("JOB")
      ->group(kRanks);
}

void add_network(CLI::App& run, RunFlags& flags) {
  auto& options = flags.options;
  run.add_option("--interface", options.interface,
                 "Network the job uses: a name (eth0), an address, or a network (10.1.0.0/16); "
                 "default: loopback on one host, else the way to the first host")
      ->type_name("NAME")
      ->envname("ASUP_INTERFACE")
      ->group(kNetwork);
  run.add_option("--port", options.port, "Port of the coordinator (default: any free one)")
      ->type_name("PORT")
      ->check(between(1, 65535))
      ->group(kNetwork);
  run.add_option("--links", options.links, "How ranks are linked: auto (default), shm, tcp")
      ->type_name("KIND")
      ->envname("ASUP_LINKS")
      // Variables are read whichever command is called, and under mpirun this one may say mpi.
      ->check(CLI::IsMember({"auto", "shm", "tcp", "mpi"}))
      ->group(kNetwork);
  run.add_option("--tls", options.tls,
                 "Encrypt what the job sends: auto (default: what leaves a host), on, off; with "
                 "--join as the job does")
      ->type_name("auto|on|off")
      ->envname("ASUP_TLS")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->group(kNetwork);
  run.add_option("--ssh", options.ssh, "The ssh command, with options (default: ssh)")
      ->type_name("COMMAND")
      ->group(kNetwork);
  run.add_option("--remote-asup", options.remote_asup,
                 "Path of asup on the other hosts (default: the same as here)")
      ->type_name("PATH")
      ->group(kNetwork);
}

void add_times(CLI::App& run, RunFlags& flags) {
  const auto positive = between(0.001, 1e6);
  run.add_option("--join-timeout,--timeout", flags.join_timeout,
                 "Seconds from the first rank that joins to the last (default: 60)")
      ->type_name("SECONDS")
      ->envname("ASUP_JOIN_TIMEOUT")
      ->check(positive)
      ->group(kEnds);
  run.add_option("--call-timeout", flags.call_timeout,
                 "Seconds a collective may take (default: 300)")
      ->type_name("SECONDS")
      ->envname("ASUP_CALL_TIMEOUT")
      ->check(positive)
      ->group(kEnds);
  run.add_option("--grace", flags.grace,
                 "Seconds a rank has to end when it is told to, before it is killed (default: 5)")
      ->type_name("SECONDS")
      ->check(positive)
      ->group(kEnds);
  run.add_option("--on-loss", flags.on_loss,
                 "When a rank fails after all have joined: end the job (default), or continue "
                 "without it; a failed server ends it always")
      ->type_name("end|continue")
      ->check(CLI::IsMember({"end", "continue"}))
      ->group(kEnds);
  run.add_option("--restarts", flags.restarts,
                 "How often a job that failed is started again (default: 0); bad input, which is a "
                 "rank's status 2, is not tried again. ASUP_RESTART counts, in each rank")
      ->type_name("N")
      ->check(between(0, 1'000'000))
      ->group(kEnds);
}

void add_output(CLI::App& run, RunFlags& flags) {
  auto& options = flags.options;
  run.add_option(
         "--output-dir", options.output_dir,
         "Write each rank's output to rank_N.log in this folder, a server's to server_N.log")
      ->type_name("DIR")
      ->group(kOutput);
  run.add_flag("--prefix,!--no-prefix", options.prefix,
               "Begin each line of output with its rank (default with several ranks)")
      ->group(kOutput);
  run.add_option("--env", options.environment,
                 "A variable for every rank: NAME (its value here) or NAME=value; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false)
      ->group(kOutput);
  run.add_option("--timeline", flags.timeline,
                 "Record what each rank does and when: a file to open in Perfetto, which the "
                 "program writes in synchronize()")
      ->type_name("FILE")
      ->group(kOutput);
  run.add_flag("-v,--verbose", options.verbose, "Say what is started and how it ends")
      ->group(kOutput);
}

std::vector<std::string> program_of(const CLI::App& run, const ProgramArguments& program) {
  const auto words = run.remaining();
  if (!words.empty() && words.front().starts_with('-'))
    throw BadInput(unknown_flag(run, words.front()));
  require(words.empty() || !program.given,
          "'{}' stands before --: flags for asup come before it, the program after it",
          words.empty() ? "" : words.front());
  const auto& chosen = program.given ? program.words : words;
  require(!chosen.empty(), "no program to run: asup run -n 4 -- ./program");
  return chosen;
}

// What the flags ask for, checked.
const launch::LaunchOptions& read_flags(const CLI::App& run, RunFlags& flags,
                                        const ProgramArguments& program) {
  auto& options = flags.options;
  options.program = program_of(run, program);
  require(run.count("--join") == 0 || !options.join.empty(),
          "--join: names no job; give its name or run folder, or leave --join out");
  require(options.join.empty() || flags.restarts == 0,
          "--restarts: a job is started again by who has started it; leave it out with --join");
  require(
      options.links != "mpi",
      "links over MPI were asked for (--links or ASUP_LINKS), but asup run starts ranks without "
      "it: start them with mpirun -n N, or use other links");
  if (run.count("--timeline") > 0)
    options.environment.push_back("ASUP_TIMELINE=" +
                                  std::filesystem::absolute(flags.timeline).string());
  std::vector<std::string> variables = own_variables();
  for (const std::string& variable : options.environment)
    variables.push_back(variable.substr(0, variable.find('=')));
  refuse_unknown_variables(variables);
  if (!flags.hosts.empty()) options.hosts = launch::parse_hosts(flags.hosts);
  options.join_timeout = Seconds(flags.join_timeout);
  options.call_timeout = Seconds(flags.call_timeout);
  options.grace = Seconds(flags.grace);
  if (flags.on_loss == "continue") options.on_loss = launch::OnLoss::go_on;
  // One rank is a program like any other: its output needs no help.
  const bool alone = options.ranks <= 1 && options.hosts.empty() && options.servers == 0;
  if (alone && run.count("--prefix") == 0) options.prefix = false;
  options.inherit_rank_zero = alone && !options.prefix && options.output_dir.empty();
  return options;
}

int run_job(const launch::LaunchOptions& options, std::int64_t restarts) {
  const auto result = run_with_restarts("asup run", restarts, [&](const auto& variables) {
    launch::LaunchOptions life = options;
    life.environment.insert(life.environment.end(), variables.begin(), variables.end());
    return launch::run(life);
  });
  if (!result.message.empty()) print_last_line("asup run", result.message);
  return result.exit_status;
}

}  // namespace

Command add_run_command(CLI::App& app, const ProgramArguments& program) {
  CLI::App* run = app.add_subcommand("run", "Start a program on this host or on several");
  set_usage(*run, "Usage: asup run [-n N] [--hosts a,b] [flags] -- program [arguments]");
  run->footer(kFooter);
  run->prefix_command();
  auto flags = std::make_shared<RunFlags>();
  add_help(*run, {.common = {"--ranks", "--hosts", "--servers", "--join", "--interface",
                             "--on-loss", "--env", "--output-dir"}});
  add_ranks(*run, *flags);
  add_network(*run, *flags);
  add_times(*run, *flags);
  add_output(*run, *flags);
  return {run,
          [run, flags, &program] {
            return run_job(read_flags(*run, *flags, program), flags->restarts);
          },
          [run, flags, &program] { read_flags(*run, *flags, program); }, kExamples};
}

}  // namespace asup::cli
