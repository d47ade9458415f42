// asup train: trains a model that asup knows, with no program at all.
//
// Called by a person it is the launcher: it checks what it was given and starts copies of itself.
// Called inside a job (by itself, asup run, torchrun, mpirun or srun) it is a worker or a server.
#include "asup/train/loop/train.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "asup/base/command_line.h"
#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/bench/injected_slowness.h"
#include "asup/cli/command.h"
#include "asup/cli/live/live_page.h"
#include "asup/cli/restarts.h"
#include "asup/cli/serve.h"
#include "asup/cli/stop_signals.h"
#include "asup/cli/train_help.h"
#include "asup/cli/usage.h"
#include "asup/config/given.h"
#include "asup/data/load_plugin.h"
#include "asup/distribute/variables.h"
#include "asup/distribute/ways.h"
#include "asup/launch/job_place.h"
#include "asup/launch/launch.h"
#include "asup/net/job.h"
#include "asup/net/membership/join_options.h"
#include "asup/report/format.h"
#include "asup/report/observers.h"
#include "asup/report/progress.h"
#include "asup/report/run_folder.h"
#include "asup/tensors/tensor_places.h"
#include "asup/train/phases.h"
#include "asup/train/resolve.h"
#include "asup/train/settings.h"
#include "asup/train/state/check_inputs.h"
#include "asup/train/worker_changes.h"

namespace asup::cli {
namespace {

using config::Given;
using report::RunFolder;
using report::Terminal;
using train::TrainConfig;

const std::vector<Example> kExamples{
    {"asup train", "a small network on Fashion-MNIST, two workers"},
    {"asup train --model resnet18 --workers 4 --epochs 10 --schedule cosine --out runs/mine"},
    {"asup train --config job.toml --lr 0.02", "flags go over the file's keys"},
    {"asup train --resume runs/mine", "continue where it stopped"},
    {"asup train --init runs/mine --data mine --lr 0.01", "fine-tune it on other data"}};

constexpr const char* kFooter = R"(
Every flag is also a key of the file, without the dashes. The run folder holds config.toml,
metrics.jsonl, summary.json, report.html, model.safetensors and checkpoints. Exit status: 0 done,
1 the job failed and the last line says why, 2 bad input, 130 Ctrl-C (then it can be resumed).)";

constexpr int kBadInput = 2;  // an exit status

struct TrainFlags {
  std::string config_file;
  bool list = false;
  bool worker = false;
  std::vector<std::pair<const config::Setting*, CLI::Option*>> settings;
};

CLI::Option* add_setting(CLI::App& app, const config::Setting& setting,
                         const std::string& usual = "") {
  const auto name = fmt::format("--{}", setting.name);
  const std::string help(setting.help);
  if (setting.is_flag())
    return app.add_flag(fmt::format("{0},!--no-{1}", name, setting.name), help);
  // The values are taken from the results, so that files and flags are checked by the same code.
  CLI::Option* option = app.add_option(
      name, [](const CLI::results_t&) { return true; }, help);
  option->type_name(setting.form());
  // The parser would take a default for what a flag that stands alone says.
  return setting.may_stand_alone() ? option->expected(0, 1) : option->default_str(usual);
}

void say_flags(Given& given, const TrainFlags& flags) {
  given.begin_source();
  for (const auto& [setting, option] : flags.settings)
    if (option->count() > 0)
      given.say(setting->name, text_given(*option, *setting), fmt::format("--{}", setting->name));
}

// The settings of a run that is there, to be continued.
void read_run(Given& given, const std::string& folder) {
  RunFolder(folder).check_is_run();
  given.read_toml(RunFolder(folder).config_file());
  const auto* format = given.find(train::kFormatKey);
  require(format && config::text_of(format->value) == std::to_string(train::kFormat),
          "{}: is a run of another version of asup, which this one cannot continue. Continue it "
          "with that version, or begin a new run",
          folder);
}

// Defaults, then the resumed run, then the file, then flags.
Given read_settings(const TrainFlags& flags) {
  Given said;
  if (!flags.config_file.empty()) said.read_toml(flags.config_file);
  say_flags(said, flags);
  const auto* resume = said.find("resume");
  if (!resume || flags.worker) return said;
  const std::string folder = config::text_of(resume->value);
  require(!folder.empty(),
          "--resume: names no folder; give the folder of the run to continue, or leave it out");
  require(!said.has("init"),
          "--resume goes on with the run's own weights, and --init begins with others: give one of "
          "them");
  Given given;
  read_run(given, folder);
  if (!flags.config_file.empty()) given.read_toml(flags.config_file);
  say_flags(given, flags);
  train::forget_changed_choices(given);
  return given;
}

void fill_in_folder(TrainConfig& config, const std::string& job) {
  if (!config.out.empty()) return;
  config.out = config.resume.empty() ? report::default_run_folder(config.model, config.data, job)
                                     : config.resume;
}

// Workers, and who resumes the run, may be in another folder.
void find_libraries(TrainConfig& config) {
  for (std::string* name : {&config.model, &config.data})
    if (data::is_plugin(*name))
      *name = std::filesystem::absolute(*name).lexically_normal().string();
}

net::Environment environment_for(const TrainConfig& config) {
  auto environment = net::process_environment();
  if (config.links != "auto")
    environment = net::with_variable(environment, "ASUP_LINKS", config.links);
  if (config.tls != "auto") environment = net::with_variable(environment, "ASUP_TLS", config.tls);
  return environment;
}

net::JoinOptions identity_for(const TrainConfig& config, net::JoinOptions identity) {
  if (!config.interface.empty()) identity.interface = config.interface;
  identity.call_timeout = Seconds(config.timeout);
  return identity;
}

void tell_how_it_ended(const train::TrainEnd& end, const Terminal& terminal) {
  const auto& facts = end.summary.facts;
  if (end.was_finished)
    return terminal.write(fmt::format(
        "already finished at step {} of {}; give {} to go on\n", end.summary.step, facts.steps,
        end.summary.ended_early ? "a larger --patience" : "--epochs or --steps"));
  if (!end.stopped) return terminal.write(report::result_block(end.summary, terminal));
  const std::string how = end.summary.checkpoint.empty()
                              ? std::string("no checkpoint was kept")
                              : fmt::format("continue with: asup train --resume {}", facts.folder);
  const auto text =
      fmt::format("stopped after step {} of {}; {}", end.summary.step, facts.steps, how);
  terminal.write(report::wrapped(text, terminal.room()) + "\n");
}

int train_here(TrainConfig config, const net::JoinOptions& identity) {
  if (identity.is_server()) return serve(identity_for(config, identity));
  keep_tensor_memory();
  const StopSignals signals;
  Job job = Job::join(identity_for(config, identity));
  set_up_log(fmt::format("rank {}", job.rank()));
  const Terminal terminal(STDOUT_FILENO);
  auto slowness =
      bench::InjectedSlowness::from(net::process_environment(), job.rank(), config.seed);
  report::Observers display;
  if (config.live.on) display.add(make_live_page(config.live, terminal));
  display.add(report::make_progress(config.progress, terminal));
  const auto end = train::train(
      job, config, display, [] { return StopSignals::received() != 0; }, slowness,
      life_in(net::process_environment()));
  if (end.keeps_folder && config.progress != "none") tell_how_it_ended(end, terminal);
  const int signal = StopSignals::received();
  return end.stopped && signal != 0 ? 128 + signal : 0;
}

launch::LaunchOptions launch_options(const TrainConfig& config) {
  launch::LaunchOptions options;
  options.name = "asup train";
  options.job = launch::name_of_folder(config.out);
  options.program = {std::filesystem::read_symlink("/proc/self/exe").string(), "train", "--worker"};
  for (const auto& flag : train::to_flags(config)) options.program.push_back(flag);
  options.ranks = static_cast<int>(config.workers);
  options.servers = static_cast<int>(config.servers.value());
  options.server_program = options.program;
  const auto survives_loss = [&](train::Phase phase) {
    return train::survives_loss(config, train::of_phase(config, phase).strategy);
  };
  // Where the way changes, those who are left begin a next generation.
  const bool by_itself = config.on_loss == "auto" && survives_loss(train::Phase::first) &&
                         survives_loss(train::Phase::second) &&
                         (!train::has_phases(config) || train::can_change_workers(config));
  if (by_itself || config.on_loss == "continue") options.on_loss = launch::OnLoss::go_on;
  if (!config.hosts.empty()) options.hosts = launch::parse_hosts(config.hosts);
  options.interface = config.interface;
  options.links = config.links;
  if (config.tls != "auto") options.tls = config.tls;
  options.call_timeout = Seconds(config.timeout);
  options.grace = Seconds(60);  // a step may take long, and so may its checkpoint
  options.program_joins = true;
  options.inherit_rank_zero = true;
  options.environment.push_back(command_line_variable());
  return options;
}

launch::JobResult run_workers(const TrainConfig& config, const std::vector<std::string>& life) {
  auto options = launch_options(config);
  options.environment.insert(options.environment.end(), life.begin(), life.end());
  launch::JobResult result = launch::run(options);
  const Terminal terminal(STDOUT_FILENO);
  if (terminal.live()) terminal.write("\x1b[?25h");  // a killed worker left the cursor hidden
  // What a worker finds wrong with its input is wrong with ours.
  if (result.exit_status == kBadInput) result.message = result.culprit->note->text;
  return result;
}

int launch_workers(const TrainConfig& config) {
  const auto result = run_with_restarts("asup train", config.restarts, [&](const auto& variables) {
    return run_workers(config, variables);
  });
  if (!result.message.empty()) print_last_line("asup train", result.message);
  return result.exit_status;
}

void check_folder(const TrainConfig& config) {
  const bool in_place = !config.resume.empty() && config.out == config.resume;
  if (!in_place) RunFolder(config.out).check_can_create();
}

// The launcher counts, and what was said must agree with it.
void settle_roles(TrainConfig& config, const Given& given, const net::JoinOptions& identity) {
  const net::Roles roles = identity.roles();
  const auto check = [&](const char* name, std::int64_t said, int started) {
    require(said == started, "{} = {}, but {} started {}: leave {} out", name, said,
            identity.launcher, roles.describe(), name);
  };
  if (given.has("workers")) check("workers", config.workers, roles.workers);
  if (config.servers) check("servers", *config.servers, roles.servers);
  config.workers = roles.workers;
  config.servers = roles.servers;
}

// needs: settle_roles(). Outside a job, resolve() says what to do.
void require_servers(const TrainConfig& config) {
  const bool at_first = config.strategy.capabilities().needs_servers;
  const Strategy& strategy = at_first || !config.then ? config.strategy : *config.then;
  require(!train::needs_servers(config) || config.servers.value() > 0,
          "sync = {} keeps the parameters on servers, and there are none: start the job with asup "
          "run --servers N, or under other launchers with ASUP_SERVERS=N, which makes servers of "
          "the last N processes",
          strategy.name());
}

void refuse_variables_of_programs() {
  const auto names = own_variables();
  refuse_unknown_variables(names);
  const auto of_programs = program_variables();
  for (const std::string& name : names)
    require(std::find(of_programs.begin(), of_programs.end(), name) == of_programs.end(),
            "{} is for programs of one's own and has no effect here: unset it, and give flags "
            "(--sync …) or --config FILE",
            name);
}

int run_train(const TrainFlags& flags) {
  if (flags.list) {
    std::fputs(train::list_inputs().c_str(), stdout);
    return 0;
  }
  refuse_variables_of_programs();
  const Given given = read_settings(flags);
  TrainConfig config = train::config_from(given);
  find_libraries(config);
  const auto identity = net::identity_from(environment_for(config));
  const bool inside = identity.launcher != "none";
  if (identity.joins) return train_here(config, identity);  // by the settings of the job
  if (inside) {
    settle_roles(config, given, identity);
    require_servers(config);
  }
  config = train::resolve(config);
  fill_in_folder(config, life_in(net::process_environment()).job);
  require(!inside || flags.worker || config.restarts == 0,
          "restarts: {} has started this job, and starts it again: asup run --restarts {} does",
          identity.launcher, config.restarts);
  // On other hosts it shows where rank 0 is. Our own launcher has looked before.
  if (config.live.on && !flags.worker && identity.rank == 0 && config.hosts.empty())
    check_live_page(config.live);
  if (inside) return train_here(config, identity);
  check_folder(config);
  const bool alone =
      config.workers + config.servers.value() == 1 && config.hosts.empty() && config.restarts == 0;
  if (!alone || !config.init.empty()) train::check_inputs(config);
  return alone ? train_here(config, identity) : launch_workers(config);
}

}  // namespace

Command add_train_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("train", "Train a model on this host or on several");
  set_usage(*command, "Usage: asup train [--config job.toml] [flags]");
  command->footer(kFooter);
  auto flags = std::make_shared<TrainFlags>();
  add_help(*command, train_help());
  command->add_option("--config", flags->config_file, "TOML file with some of the keys below")
      ->type_name("FILE");
  command->add_flag("--list", flags->list, "Print the models and data sets there are, and exit");
  command->add_flag("--worker", flags->worker)->group("");  // we started it: flags say everything
  const TrainConfig usual;
  for (const auto& setting : train::settings()) {
    CLI::Option* option = add_setting(*command, setting, setting.field.text(&usual));
    option->group(std::string(setting.group))->take_last();
    flags->settings.emplace_back(&setting, option);
  }
  for (const std::string& name : names_of_way_settings()) {
    const config::Setting& setting = *train::find_setting(name);
    CLI::Option* option = add_setting(*command, setting);
    option->group("")->take_last();  // `--help WAY` shows it
    flags->settings.emplace_back(&setting, option);
  }
  return {command, [flags] { return run_train(*flags); }, {}, kExamples};
}

}  // namespace asup::cli
