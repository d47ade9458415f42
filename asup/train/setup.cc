#include "asup/train/setup.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <set>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/base/thread.h"
#include "asup/collective/tuning/cache.h"
#include "asup/data/random.h"
#include "asup/net/mesh.h"
#include "asup/sync/agreement.h"
#include "asup/train/carry_state.h"
#include "asup/train/distribute.h"
#include "asup/train/inputs.h"
#include "asup/train/rounds.h"
#include "asup/train/run_folder.h"
#include "asup/train/settings.h"
#include "asup/train/stepper.h"
#include "asup/train/strings_exchange.h"

namespace asup::train {
namespace {

using Json = nlohmann::ordered_json;

// What the launcher or the user said, else the rank's share of the host's cores.
std::int64_t usual_threads(const Job& job) {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return torch::get_num_threads();
  const auto workers = job.roster().workers();
  const auto& host = workers[static_cast<std::size_t>(job.rank())].host;
  const auto here = std::count_if(workers.begin(), workers.end(),
                                  [&](const net::Member& member) { return member.host == host; });
  return std::max<std::int64_t>(1, usable_cores() / here);
}

std::string hosts_of(const Job& job) {
  std::set<std::string> names;
  for (const auto& member : job.roster().workers()) names.insert(member.hostname);
  return fmt::format("{}", fmt::join(names, " "));
}

std::string links_in_words(Job& job) {
  if (job.mesh().shares_memory()) return "shared memory";
  return job.roster().one_host() ? "TCP on this host" : "TCP";
}

// Other launchers than asup train could give each rank flags of its own.
void check_same_settings(Communicator& control, const TrainConfig& config) {
  std::vector<sync::Fact> facts;
  for (const auto& setting : settings()) {
    if (setting.scope == Scope::call) continue;
    facts.push_back({fmt::format("setting {}", setting.name), text_of(config, setting)});
  }
  sync::check_same_facts(control, facts);
}

// Rank 0 reads the checkpoint, and all ranks learn its header.
struct Resumed {
  CheckpointFile file;  // on rank 0
  std::optional<CheckpointInfo> info;
};

Resumed read_checkpoint(Communicator& control, const TrainConfig& config, std::int64_t steps) {
  Resumed resumed;
  if (config.resume.empty()) return resumed;
  std::string complaint;
  if (control.rank() == 0) {
    try {
      resumed.file = read_newest_checkpoint(config.resume);
      check_can_resume(info_of(resumed.file, config.resume), config, steps);
    } catch (const BadInput& error) {
      complaint = error.what();
    }
  }
  sync::agree(control, complaint);
  CheckpointFile header;
  header.header = Json::parse(broadcast_text(control, resumed.file.header.dump()));
  resumed.info = info_of(header, config.resume);
  return resumed;
}

// How the convolution path was found, for the log.
struct PathChoice {
  std::string name;
  std::string note;
};

PathChoice measure_path(const Setup& setup, const TrainConfig& config) {
  const auto own = std::max<std::int64_t>(1, config.batch / config.workers / config.accumulate);
  const auto count = std::min<std::int64_t>(own, static_cast<std::int64_t>(setup.train->size()));
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), 0);
  const auto choice = models::measure_convolution_path(*setup.model, setup.train->get(indices));
  return {std::string(models::name_of(choice.path)), choice.times.empty() ? "" : choice.describe()};
}

// The configuration's, the checkpoint's, the remembered, or the fastest: as rank 0 has it.
PathChoice choose_path(const Setup& setup, const TrainConfig& config, const std::string& key) {
  if (config.conv_path != "auto") {
    return {config.conv_path, fmt::format("convolution path: {} (as set)", config.conv_path)};
  }
  if (setup.resumed) {
    const auto& name = setup.resumed->choices.convolution_path;
    return {name, fmt::format("convolution path: {} (as before)", name)};
  }
  const auto cache = ConvolutionCache::of_user();
  const bool first = setup.control->rank() == 0;
  const auto known =
      broadcast_text(*setup.control, first ? cache.find(key).value_or("") : std::string());
  if (!known.empty()) return {known, fmt::format("convolution path: {} (as last time)", known)};
  // All ranks measure at once, as they will work at once.
  PathChoice choice = measure_path(setup, config);
  choice.name = broadcast_text(*setup.control, choice.name);
  if (first && !choice.note.empty()) cache.remember(key, choice.name);
  return choice;
}

std::int64_t count_parameters(const models::Model& model) {
  std::int64_t count = 0;
  for (const auto& parameter : model.parameters()) {
    if (parameter.requires_grad()) count += parameter.numel();
  }
  return count;
}

RunFacts facts_of(const Setup& setup, Job& job, const TrainConfig& config) {
  RunFacts facts;
  facts.folder = config.out;
  facts.model = config.model;
  facts.data = config.data;
  facts.optimizer = config.optimizer;
  facts.sync = config.sync;
  if (has_phases(config)) facts.then = config.then;
  facts.servers = job.servers();
  for (const Phase phase : {Phase::first, Phase::second})
    if (const Strategy way = strategy_of(of_phase(config, phase)); way.needs_servers())
      facts.pace = way.pace;
  facts.links = job.mesh().size() > 1 ? links_in_words(job) : "none";
  facts.convolution_path = setup.choices.convolution_path;
  facts.workers = config.workers;
  facts.threads = setup.choices.threads;
  facts.batch = config.batch;
  facts.parameters = count_parameters(*setup.model);
  facts.train_samples = static_cast<std::int64_t>(setup.train->size());
  facts.test_samples = static_cast<std::int64_t>(setup.test->size());
  facts.steps = setup.length.steps;
  facts.steps_per_epoch = setup.length.steps_per_epoch;
  facts.first_step = setup.resumed ? setup.resumed->step : 0;
  return facts;
}

void set_threads(Setup& setup, const Job& job, const TrainConfig& config) {
  const bool as_before = config.threads == 0 && setup.resumed;
  setup.choices.threads = as_before            ? setup.resumed->choices.threads
                          : config.threads > 0 ? config.threads
                                               : usual_threads(job);
  torch::set_num_threads(static_cast<int>(setup.choices.threads));
}

// Chooses algorithms as the run did before, else by what is found now.
void make_gradients(Setup& setup, Job& job, const TrainConfig& config) {
  const Strategy strategy = strategy_of(config);
  // With servers, there was nothing to choose.
  const bool chose = setup.resumed && setup.resumed->ranks == config.workers &&
                     !Strategy{.sync = setup.resumed->config_of_phase().sync}.needs_servers();
  std::string& known = setup.choices.rates;  // for the way before
  if (known.empty() && chose) known = setup.resumed->choices.rates;
  std::optional<collective::Rates> rates;
  if (!known.empty())
    rates = collective::tuning::rates_from(known);
  else if (!chose)
    rates = find_rates(job, *setup.control, strategy);
  if (rates) known = collective::tuning::to_text(*rates);
  setup.gradients = make_communicator(job, strategy, rates);
}

// What servers have left beside the checkpoint to resume from, as rank 0 sees it; "": nothing.
std::string shards_of_checkpoint(const Setup& setup) {
  std::string path;
  if (setup.control->rank() == 0) {
    path = RunFolder(setup.config.resume).checkpoint_file(setup.resumed->step);
    path = RunFolder::has_shards(path) ? std::filesystem::absolute(path).string() : "";
  }
  return broadcast_text(*setup.control, path);
}

void make_replica_of_servers(Setup& setup, Job& job, std::int64_t step, const std::string& saved) {
  ServerReplicaOptions options = server_options(strategy_of(setup.config));
  options.work = work_of(setup.config, setup.length, *setup.batches, step);
  options.resume = saved;
  auto replica = make_server_replica(job, *setup.control, *setup.model, *setup.optimizer, options);
  setup.server = replica.get();
  setup.replica = std::move(replica);
}

void make_trained_parts(Setup& setup, Job& job) {
  const TrainConfig& config = setup.config;
  const auto seed = static_cast<std::uint64_t>(config.seed);
  torch::manual_seed(seed);
  setup.model = make_model(config, *setup.train);
  setup.optimizer = make_optimizer(config, *setup.model);
  // Dropout is each rank's own.
  torch::manual_seed(data::Random(seed, static_cast<std::uint64_t>(job.rank()) + 1).next());
  // What another way of staying in step has learned is of no use to this one.
  if (setup.resumed && setup.resumed->config_of_phase().sync == config.sync)
    setup.choices.learned = setup.resumed->choices.learned;
  if (setup.resumed && config.balance && setup.resumed->ranks == config.workers)
    setup.choices.parts = setup.resumed->choices.parts;
}

// Whether a run that is resumed has changed its way.
void find_phase(Setup& setup, const TrainConfig& config) {
  const auto at = switch_step(config, setup.length);
  if (!setup.resumed || !has_phases(config)) return;
  const CheckpointInfo& info = *setup.resumed;
  const bool as_before = info.config.sync == config.sync && info.config.then == config.then;
  const bool had_switched = as_before && info.switched_after;
  require(!had_switched || info.config.at == config.at,
          "at = {}: the run has changed to sync = {} after step {} already. Leave at out.",
          config.at, config.then, had_switched ? *info.switched_after : 0);
  const bool stalled = as_before && info.stall.stalled();
  if (!had_switched && (at ? info.step < *at : !stalled)) return;
  setup.phase = Phase::second;
  setup.switched_after = had_switched ? *info.switched_after : at.value_or(info.step);
}

// Of the phases to come.
void check_roles_of_phases(const Job& job, const TrainConfig& config, Phase from) {
  for (const Phase phase : {from, Phase::second})
    check_roles(job, strategy_of(of_phase(config, phase)), needs_servers(config));
}

// Servers begin with what they left beside the checkpoint; where it is of another way, they are
// handed the state of its optimizer, unless workers keep theirs.
void resume_with_servers(Setup& setup, Job& job, const CheckpointFile& file) {
  const std::string shards = shards_of_checkpoint(setup);
  const bool is_handed = shards.empty() && setup.config.merge == "none";
  const std::string handover = RunFolder(setup.config.resume).handover();
  std::string saved = shards;
  if (is_handed) {
    restore_checkpoint(*setup.control, file,
                       {*setup.model,
                        *setup.optimizer,
                        sync::buffers_of(*setup.model),
                        /*own_optimizer=*/false,
                        job.rank(),
                        {}});
    saved = hand_to_servers(setup, handover);
  } else {
    restore_parameters(*setup.control, file, *setup.model);
  }
  make_replica_of_phase(setup, job, setup.resumed->step, saved);
  restore_checkpoint(*setup.control, file, trained_of(setup, job.rank()));
  if (is_handed) has_been_handed(setup, handover);
}

void resume_without_servers(Setup& setup, Job& job, const CheckpointFile& file) {
  make_replica_of_phase(setup, job, setup.resumed->step);
  restore_checkpoint(*setup.control, file, trained_of(setup, job.rank()));
  const TrainConfig before = setup.resumed->config_of_phase();
  const std::string shards = shards_of_checkpoint(setup);
  if (!shards.empty() && before.merge == "none")
    take_from_servers(setup, before, shards, /*saves=*/false);
}

// The replica, and what the checkpoint has for it.
void begin(Setup& setup, Job& job, const CheckpointFile& file) {
  if (!setup.resumed)
    make_replica_of_phase(setup, job, 0);
  else if (strategy_of(setup.config).needs_servers())
    resume_with_servers(setup, job, file);
  else
    resume_without_servers(setup, job, file);
}

}  // namespace

void make_replica_of_phase(Setup& setup, Job& job, std::int64_t step, const std::string& saved) {
  const Strategy strategy = strategy_of(setup.config);
  if (strategy.needs_servers()) return make_replica_of_servers(setup, job, step, saved);
  if (!setup.gradients) make_gradients(setup, job, setup.config);
  setup.replica = make_replica(job, *setup.gradients, *setup.model, *setup.optimizer, strategy,
                               setup.choices.learned, {setup.length.steps, step});
}

Trained trained_of(const Setup& setup, int rank) {
  return {*setup.model,
          *setup.optimizer,
          setup.server ? setup.server->unshared() : sync::buffers_of(*setup.model),
          setup.replica->keeps_own_optimizer(),
          rank,
          setup.replica->state()};
}

Setup set_up(Job& job, const TrainConfig& whole) {
  Setup setup;
  setup.train = open_data(whole, data::Split::train);
  setup.test = open_data(whole, data::Split::test);
  setup.control = make_communicator(job, strategy_of(of_phase(whole, Phase::first)));
  setup.batches = make_batches(whole, *setup.train, job.rank());
  setup.length = run_length(whole, static_cast<std::int64_t>(setup.batches->steps_per_epoch()));

  check_same_settings(*setup.control, whole);
  const Resumed resumed = read_checkpoint(*setup.control, whole, setup.length.steps);
  setup.resumed = resumed.info;
  find_phase(setup, whole);
  check_roles_of_phases(job, whole, setup.phase);
  setup.config = of_phase(whole, setup.phase, setup.length);
  const TrainConfig& config = setup.config;
  if (setup.phase == Phase::second) setup.control = make_communicator(job, strategy_of(config));
  set_threads(setup, job, config);
  make_trained_parts(setup, job);
  begin(setup, job, resumed.file);

  const auto shape = fmt::format("{}", fmt::join(setup.train->input_shape(), "x"));
  const PathChoice path = choose_path(
      setup, config,
      convolution_key(config, hosts_of(job), TORCH_VERSION, shape, setup.choices.threads));
  setup.choices.convolution_path = path.name;
  setup.path = models::convolution_path_from(path.name);
  setup.facts = facts_of(setup, job, whole);
  setup.facts.conv_note = path.note;
  return setup;
}

}  // namespace asup::train
