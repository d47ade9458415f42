#include "asup/train/state/training_context.h"

#include <fmt/chrono.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <numeric>
#include <set>

#include "asup/base/command_line.h"
#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/base/thread.h"
#include "asup/base/version.h"
#include "asup/collective/text_exchange.h"
#include "asup/collective/tuning/cache.h"
#include "asup/data/load_plugin.h"
#include "asup/data/random.h"
#include "asup/data/text/text_dataset.h"
#include "asup/distribute/distribute.h"
#include "asup/kernels/instruction_set.h"
#include "asup/net/transport/mesh.h"
#include "asup/parallel/tensor/tensor_group.h"
#include "asup/parallel/tensor_cut.h"
#include "asup/sync/model/agreement.h"
#include "asup/sync/model/kept_tensors.h"
#include "asup/sync/model/sync_batch_norm.h"
#include "asup/train/batch_schedule.h"
#include "asup/train/device.h"
#include "asup/train/pipeline_settings.h"
#include "asup/train/settings.h"
#include "asup/train/state/choose_path.h"
#include "asup/train/state/inputs.h"
#include "asup/train/state/layer_times.h"
#include "asup/train/state/make_optimizer.h"
#include "asup/train/state/require_statistics.h"
#include "asup/train/state/rounds.h"
#include "asup/train/weights.h"

namespace asup::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr Seconds kTokenizerPatience(3600);  // while rank 0 trains one on 100 MB of text

// What the launcher or the user said, else the rank's share of the host's cores.
std::int64_t usual_threads(const Job& job) {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return torch::get_num_threads();
  const auto workers = job.roster().workers();
  const auto& host = workers[static_cast<std::size_t>(job.rank())].host;
  const auto here = std::count_if(workers.begin(), workers.end(),
                                  [&](const net::Member& member) { return member.host == host; });
  return std::max<std::int64_t>(1, usable_cores() / here);
}

std::set<std::string> hosts_of(const Job& job) {
  std::set<std::string> names;
  for (const auto& member : job.roster().workers()) names.insert(member.hostname);
  return names;
}

bool any_link_is_encrypted(Job& job) {
  const net::MeshLock lock(job.mesh().loop());
  for (int rank = 0; rank < job.mesh().size(); ++rank)
    if (rank != job.member() && job.mesh().link(rank).wire().abilities().name == "tls") return true;
  return false;
}

std::string links_in_words(Job& job) {
  if (job.mesh().shares_memory()) return "shared memory";
  const bool encrypted = any_link_is_encrypted(job);
  return fmt::format("TCP{}{}", job.roster().one_host() ? " on this host" : "",
                     encrypted ? ", encrypted" : "");
}

// Other launchers than asup train could give each rank flags of its own. A device may be.
void check_same_settings(Communicator& control, const TrainConfig& config) {
  std::vector<sync::AgreedValue> values;
  for (const SettingValue& value : values_of(config))
    if (value.setting->scope != config::Scope::call && value.setting->name != "device")
      values.push_back({fmt::format("setting {}", value.setting->name), value.text});
  sync::check_agreed(control, values);
}

// Rank 0 does it, for which the others wait for `timeout`, or else as for any call. Bad input there
// is all ranks' bad input.
template <typename Action>
void on_first_rank(Communicator& control, const Action& action, Seconds timeout = Seconds(0)) {
  std::string complaint;
  if (control.rank() == 0) try {
      action();
    } catch (const BadInput& error) {
      complaint = error.what();
    }
  complaint = broadcast_text(control, complaint, timeout);
  require(complaint.empty(), "{}", complaint);
}

// The checkpoint to resume from, if any.
std::unique_ptr<checkpoint::Reader> open_checkpoint(TrainingContext& context,
                                                    const TrainConfig& config) {
  if (config.resume.empty()) return nullptr;
  Communicator& control = *context.control;
  report::FoundCheckpoint found;
  on_first_rank(control, [&] { found = newest_whole_checkpoint(config.resume); });
  for (const auto& [path, why] : found.newer) {
    log().warn("{}. It is skipped: {} is whole", why, found.path);
    context.damaged.push_back(path);
  }
  return std::make_unique<checkpoint::Reader>(control, found.path);
}

// Rank 0's, which may have to train it; of a run that is resumed, the run's.
std::string common_tokenizer(const TrainingContext& context, const TrainConfig& config) {
  if (!data::is_text(config.data)) return "";
  if (context.resumed) return tokenizer_of(context.resumed->model, config.resume);
  std::string model;
  on_first_rank(
      *context.control, [&] { model = tokenizer_model(config); }, kTokenizerPatience);
  return broadcast_text(*context.control, model);
}

// Of those that train: spares make none (loop/spare.h).
std::unique_ptr<Communicator> make_communicator_of(
    Job& job, const TrainConfig& config, std::string_view name,
    std::optional<collective::Rates> rates = std::nullopt) {
  if (config.workers == job.size())
    return make_communicator(job, config.strategy, std::move(rates));
  std::vector<int> workers(static_cast<std::size_t>(config.workers));
  std::iota(workers.begin(), workers.end(), 0);
  return make_communicator(job, workers, name, config.strategy, std::move(rates));
}

int group_of(const Job& job, const TrainConfig& config) {
  return parallel::place_of(job.rank(), grid_shape(config)).data;
}

// The test set's pixels are taken as those of the training set, which need not be measured twice.
void open_data_sets(TrainingContext& context, const Job& job, TrainConfig config) {
  if (!config.data_threads) config.data_threads = usual_threads(job);
  const std::string tokenizer = common_tokenizer(context, config);
  context.train = open_data(config, data::Split::train, {}, tokenizer);
  const data::Normalisation known = context.train->normalisation();
  const auto same = known.mean.empty() ? std::nullopt : std::optional(known);
  context.test = open_data(config, data::Split::test, same, tokenizer);
  context.validation = open_validation(config, same);
  context.batches = make_batches(config, *context.train, group_of(job, config));
  context.length =
      run_length(config, static_cast<std::int64_t>(context.batches->steps_per_epoch()));
}

// Of the whole model, of which this worker may have parts.
std::int64_t count_parameters(const models::Model& model) {
  const auto cuts = parallel::cuts_of(model);
  std::int64_t count = 0;
  for (const auto& parameter : model.named_parameters()) {
    if (!parameter->requires_grad()) continue;
    const auto cut = cuts.find(parameter.key());
    count += cut == cuts.end()
                 ? parameter->numel()
                 : c10::multiply_integers(parallel::whole_shape(parameter->sizes(), cut->second));
  }
  return count;
}

// Of a library of the user's own, or of a text, for people.
std::string short_name(const std::string& name) {
  if (!data::is_plugin(name) && !data::is_text(name)) return name;
  std::filesystem::path path(data::is_text(name) ? data::path_of_text(name) : name);
  if (!path.has_filename()) path = path.parent_path();  // text:corpus/
  return path.filename().string();
}

report::RunFacts facts_of(const TrainingContext& context, Job& job, const TrainConfig& config) {
  report::RunFacts facts = context.facts;
  facts.folder = config.out;
  facts.model = short_name(config.model);
  facts.data = short_name(config.data);
  facts.optimizer = config.optimizer;
  facts.learning_rate = describe_learning_rate(config);
  facts.sync = config.strategy.name();
  if (has_phases(config)) facts.then = config.then->name();
  facts.servers = job.servers();
  for (const Phase phase : {Phase::first, Phase::second})
    if (const auto pace = of_phase(config, phase).strategy.capabilities().pace; !pace.empty())
      facts.pace = pace;
  facts.links = job.mesh().size() > 1 ? links_in_words(job) : "none";
  facts.convolution_path = models::name_of(context.path.convolution);
  facts.memory_format = context.path.channels_last ? "channels-last" : "contiguous";
  facts.precision = name_of(context.path.precision);
  facts.workers = config.workers;
  if (context.spread && context.spread->has_stages()) {
    facts.pipeline = config.pipeline;
    facts.pipeline_schedule = config.pipeline_schedule;
    facts.micro_batches = micro_batches_of(config);
    facts.stages = context.spread->describe_stages();
  }
  facts.tensor = config.tensor;
  if (context.spread) facts.tensor_groups = context.spread->describe_tensor_groups();
  facts.threads = context.choices.threads;
  facts.device = devices_in_words(*context.control, context.device);
  facts.batch = config.batch;
  if (const Updates updates(config, context.length); updates.grow()) {
    facts.batch_schedule = config.batch_schedule;
    facts.updates = updates.count();
  }
  facts.train_samples = static_cast<std::int64_t>(context.train->size());
  facts.test_samples = static_cast<std::int64_t>(context.test->size());
  if (context.validation)
    facts.validation_samples = static_cast<std::int64_t>(context.validation->size());
  if (const data::Text* text = context.train->text()) facts.tokens_per_sample = text->tokens;
  facts.steps = context.length.steps;
  facts.steps_per_epoch = context.length.steps_per_epoch;
  facts.first_step = context.resumed ? context.resumed->step : 0;
  facts.data_note = context.train->note();
  facts.command = command_line();
  facts.began = fmt::format("{:%Y-%m-%dT%H:%M:%S%z}", fmt::localtime(std::time(nullptr)));
  const std::set<std::string> hosts = hosts_of(job);
  facts.hosts.assign(hosts.begin(), hosts.end());
  facts.versions = fmt::format("asup {}, torch {}, {} kernels", kVersion, TORCH_VERSION,
                               kernels::instruction_set());
  return facts;
}

// On a GPU a few: torch's threads have little to do there but to copy batches, and those that wait
// for more of it, awake, take the cores from the threads that decode images.
constexpr std::int64_t kThreadsBesideAGpu = 4;

void set_threads(TrainingContext& context, const Job& job, const TrainConfig& config) {
  const auto by_itself = [&] {
    const std::int64_t share = usual_threads(job);
    return context.device.is_cpu() ? share : std::min(share, kThreadsBesideAGpu);
  };
  context.choices.threads = config.threads    ? *config.threads
                            : context.resumed ? context.resumed->choices.threads
                                              : by_itself();
  torch::set_num_threads(static_cast<int>(context.choices.threads));
}

// Chooses algorithms as the run did before, else by what is found now.
void make_gradients(TrainingContext& context, Job& job, const TrainConfig& config) {
  const Strategy& strategy = config.strategy;
  // With servers, there was nothing to choose.
  const bool chose = context.resumed && context.resumed->ranks == config.workers &&
                     !context.resumed->config_of_phase().strategy.capabilities().needs_servers;
  std::string& known = context.choices.rates;  // for the way before
  if (known.empty() && chose) known = context.resumed->choices.rates;
  std::optional<collective::Rates> rates;
  if (!known.empty())
    rates = collective::tuning::rates_from(known);
  else if (!chose)
    rates = find_rates(job, *context.control, strategy);
  if (rates) known = collective::tuning::to_text(*rates);
  context.gradients = make_communicator_of(job, config, "gradients", rates);
}

checkpoint::Cuts cuts_of(const TrainingContext& context) {
  return context.spread ? context.spread->cuts() : checkpoint::Cuts();
}

// BatchNorm over the batches of all workers, where it is wanted. Collective.
models::MakeNorm norms_of(Job& job, const TrainConfig& config) {
  if (!config.sync_bn) return {};
  const std::shared_ptr<Communicator> statistics = make_communicator(job, config.strategy);
  return [statistics](std::int64_t channels) {
    return torch::nn::AnyModule(SyncBatchNorm(SyncBatchNormOptions(channels, statistics)));
  };
}

// Of a whole model's weights, what this worker has.
void take_parts(torch::nn::Module& model, const torch::nn::Module& whole,
                const checkpoint::Cuts& cuts) {
  torch::NoGradGuard no_grad;
  const auto theirs = whole.named_parameters();
  for (const auto& [name, tensor] : sync::parameters_of(model)) {
    const checkpoint::Cut* cut = checkpoint::find_cut(cuts, name);
    torch::Tensor(tensor).copy_(cut ? cut->part_of(theirs[name]) : theirs[name]);
  }
}

// Where weights begin the run, rank 0 reads them, and what of the whole model they leave out is as
// one worker would make it.
void begin_with_said(TrainingContext& context) {
  const TrainConfig& config = context.config;
  if (config.init.empty() || context.resumed) return;
  torch::manual_seed(static_cast<std::uint64_t>(config.seed));
  const auto whole = has_tensor(config) ? make_model(config, *context.train) : context.model;
  sync::together(*context.control, [&] {
    if (context.control->rank() == 0)
      context.facts.init_note = begin_with_weights(*whole, config, *context.train);
  });
  if (!is_spread(config)) return;  // the others get them when the replica is made
  for (const auto& tensors : {sync::parameters_of(*whole), sync::buffers_of(*whole)})
    sync::broadcast_tensors(*context.control, tensors);
  if (has_tensor(config))
    take_parts(*context.model, *whole, cuts_on_grid(*context.model, *context.grid));
}

// Servers have no part in it.
void make_grid(TrainingContext& context, Job& job) {
  const TrainConfig& config = context.config;
  if (!is_spread(config)) return;
  const bool has_servers = config.strategy.capabilities().needs_servers;
  if (!has_servers) make_gradients(context, job, config);
  context.grid = std::make_unique<parallel::Grid>(
      has_servers ? *context.control : *context.gradients, grid_shape(config));
}

// Each rank of a tensor group makes its part. Layers talk by a communicator of their own.
void make_first_model(TrainingContext& context, Job& job) {
  const TrainConfig& config = context.config;
  const auto seed = static_cast<std::uint64_t>(config.seed);
  if (has_tensor(config))
    context.tensor.emplace(context.grid->tensor().split(0, context.grid->place().tensor));
  torch::manual_seed(seed);
  context.model = make_model(config, *context.train, norms_of(job, config),
                             context.tensor ? &*context.tensor : nullptr);
  context.facts.parameters = count_parameters(*context.model);
  begin_with_said(context);
  require_statistics(*context.model, config, context.train->size());
  context.model->to(context.device);
  // Dropout is each group's own.
  const auto group = static_cast<std::uint64_t>(group_of(job, config));
  torch::manual_seed(data::Random(seed, group + 1).next());
  // What another way of staying in step has observed is of no use to this one, nor what was of a
  // whole model to a part of it.
  if (context.resumed && !is_spread(config) &&
      context.resumed->config_of_phase().strategy.name() == config.strategy.name())
    context.choices.observed = context.resumed->choices.observed;
  if (context.resumed && config.balance && context.resumed->ranks == config.workers)
    context.choices.parts = context.resumed->choices.parts;
}

// By the rates that algorithms are chosen by, where these are known.
std::vector<parallel::LinkRate> links_of_stages(const TrainingContext& context, const Job& job) {
  if (context.choices.rates.empty()) return {};
  std::vector<net::HostId> hosts;
  for (const net::Member& member : job.roster().workers()) hosts.push_back(member.host);
  return links_of(collective::tuning::rates_from(context.choices.rates), hosts,
                  context.grid->shape());
}

// Whether a run goes on with as many stages, on as many workers with as much memory.
bool keeps_stages(const TrainingContext& context) {
  if (!context.resumed) return false;
  const TrainConfig &before = context.resumed->config, &now = context.config;
  return grid_shape(before) == grid_shape(now) && before.worker_memory == now.worker_memory &&
         (context.resumed->choices.layers || !now.rebalance) &&
         std::ssize(context.resumed->choices.stages) == pipeline_spec(now).stages();
}

// As they were measured before, or are now.
std::vector<int> layers_of_stages(TrainingContext& context, const Job& job, StepHooks& hooks) {
  const TrainConfig& config = context.config;
  if (!has_pipeline(config)) return {};
  check_pipeline_of(config, *context.model);
  if (!cuts_by_measure(config)) return layers_by_setting(config);
  TunedChoices& choices = context.choices;
  if (keeps_stages(context)) {
    choices.stages = context.resumed->choices.stages;
    choices.layers = context.resumed->choices.layers;
    return choices.stages;
  }
  choices.layers =
      measured_layers(*context.control, *context.grid, config, *context.model, context.path,
                      first_samples(context), links_of_stages(context, job), hooks);
  try {
    choices.stages = fastest_cut(*choices.layers, parallel::find_schedule(config.pipeline_schedule),
                                 pipeline_spec(config));
  } catch (const BadInput& refusal) {
    throw BadInput(
        fmt::format("worker-memory = {}: {}", config.worker_memory.to_text(), refusal.what()));
  }
  return choices.stages;
}

// The layers that other workers have are freed here.
void spread_model(TrainingContext& context, const Job& job, const checkpoint::Reader* checkpoint,
                  StepHooks& hooks) {
  if (checkpoint)
    checkpoint::check_is_of(
        checkpoint->index(), *context.model,
        context.grid ? cuts_on_grid(*context.model, *context.grid) : checkpoint::Cuts());
  if (!context.grid) return;
  context.spread = std::make_unique<SpreadModel>(
      *context.grid, context.tensor, context.config, context.model, context.path,
      layers_of_stages(context, job, hooks), context.resumed ? context.resumed->step : 0, hooks);
}

// Where a model is computed in fp16. As many workers as before have their own scale again, others
// the least of all, unless a first one is said anew.
void scale_losses(TrainingContext& context, int rank) {
  if (context.path.precision != Precision::fp16) return;
  context.scaler = std::make_unique<GradScaler>(
      context.model->parameters(), GradScalerOptions{.first = context.config.loss_scale});
  if (!context.resumed || context.resumed->loss_scales.empty() ||
      context.resumed->config.loss_scale != context.config.loss_scale)
    return;
  const std::vector<GradScalerState>& before = context.resumed->loss_scales;
  if (std::ssize(before) == context.config.workers)
    context.scaler->restore(before[static_cast<std::size_t>(rank)]);
  else
    context.scaler->restore({std::ranges::min(before, {}, &GradScalerState::scale).scale, 0});
}

// Whether a run that is resumed has changed its way.
void find_phase(TrainingContext& context, const TrainConfig& config) {
  const auto at = switch_step(config, context.length);
  if (!context.resumed || !has_phases(config)) return;
  const CheckpointInfo& info = *context.resumed;
  const bool as_before = info.config.strategy.name() == config.strategy.name() &&
                         has_phases(info.config) && info.config.then->name() == config.then->name();
  const bool had_switched = as_before && info.switched_after;
  require(!had_switched || info.config.at == config.at,
          "at = {}: the run has changed to sync = {} after step {} already. Leave at out.",
          config.at, config.then->name(), had_switched ? *info.switched_after : 0);
  const bool stalled = as_before && info.stall.stalled();
  if (!had_switched && (at ? info.step < *at : !stalled)) return;
  context.phase = Phase::second;
  context.switched_after = had_switched ? *info.switched_after : at.value_or(info.step);
}

// Of the phases to come.
void check_roles_of_phases(const Job& job, const TrainConfig& config, Phase from) {
  for (const Phase phase : {from, Phase::second})
    check_roles(job, of_phase(config, phase).strategy, needs_servers(config));
}

bool strategy_has_changed(const TrainingContext& context) {
  return context.resumed->config_of_phase().strategy.name() != context.config.strategy.name();
}

void begin_average(TrainingContext& context) {
  if (context.config.ema > 0) context.average.emplace(*context.model, context.config.ema);
}

// The replica, and what the checkpoint has for it. By another strategy than before, workers do not
// go on with models of their own, nor with what another replica has kept.
void begin(TrainingContext& context, Job& job, checkpoint::Reader* checkpoint) {
  if (checkpoint == nullptr) {
    make_replica_of_phase(context, job, 0);
    return begin_average(context);
  }
  const bool same_way = !strategy_has_changed(context);
  checkpoint::Restore restore(*checkpoint, *context.control, job.rank(), same_way,
                              cuts_of(context));
  restore.common(context.module(), *context.optimizer);
  make_replica_of_phase(context, job, context.resumed->step);
  const checkpoint::Trained trained = trained_of(context, job.rank());
  restore.own(trained);
  if (same_way) context.replica->restore(trained.replica);
  begin_average(context);
  if (context.average) restore.average(context.average->tensors());
}

// The workers of a group have saved the same numbers to come, which workers of several groups would
// draw alike from here.
void draw_anew_on_another_grid(const TrainingContext& context, const Job& job) {
  if (!context.resumed || !is_spread(context.resumed->config) ||
      grid_shape(context.resumed->config) == grid_shape(context.config))
    return;
  data::Random random(static_cast<std::uint64_t>(context.config.seed),
                      static_cast<std::uint64_t>(context.resumed->step),
                      static_cast<std::uint64_t>(group_of(job, context.config)));
  torch::manual_seed(random.next());
}

}  // namespace

void make_replica_of_phase(TrainingContext& context, Job& job, std::int64_t step) {
  const Strategy& strategy = context.config.strategy;
  const Capabilities capabilities = strategy.capabilities();
  if (!capabilities.needs_servers && !context.gradients)
    make_gradients(context, job, context.config);
  std::optional<ps::pace::Workload> work;
  if (capabilities.leases_samples)
    work = work_of(context.config, context.length, *context.batches, step);
  MadeReplica made =
      strategy.make({.job = job,
                     .communicator = context.spread               ? context.spread->replicas()
                                     : capabilities.needs_servers ? *context.control
                                                                  : *context.gradients,
                     .model = context.module(),
                     .optimizer = *context.optimizer,
                     .timeout = strategy.timeout,
                     .observed = context.choices.observed,
                     .progress = {context.length.steps, step},
                     .work = work ? &*work : nullptr,
                     .seed = static_cast<std::uint64_t>(context.config.seed),
                     .clip_norm = context.config.clip_norm,
                     .parts = context.spread ? context.spread->parts() : sync::ModelParts()});
  context.replica = std::move(made.replica);
  context.server = made.server;
  context.local = made.local;
  context.facts.sync_note = made.note;
}

void make_replica_from_neutral_state(TrainingContext& context, Job& job, std::int64_t step) {
  const sync::KeptTensors own(sync::buffers_of(*context.model));  // it begins with rank 0's
  make_replica_of_phase(context, job, step);
}

checkpoint::Trained trained_of(const TrainingContext& context, int rank) {
  checkpoint::Trained trained{
      context.module(),
      *context.optimizer,
      context.server ? context.server->unshared() : sync::buffers_of(context.module()),
      context.replica->keeps_own_optimizer(),
      rank,
      {},
      context.replica->state()};
  if (context.spread) trained.part = context.spread->written();
  trained.cuts = cuts_of(context);
  return trained;
}

TrainingContext make_context(Job& job, const TrainConfig& whole, StepHooks& hooks) {
  TrainingContext context;
  context.control = make_communicator_of(job, of_phase(whole, Phase::first), "control");
  check_same_settings(*context.control, whole);
  const auto checkpoint = open_checkpoint(context, whole);
  if (checkpoint) context.resumed = info_from(checkpoint->index().run, whole.resume);
  open_data_sets(context, job, whole);
  if (checkpoint) check_can_resume(*context.resumed, whole, context.length.steps);
  find_phase(context, whole);
  check_roles_of_phases(job, whole, context.phase);
  context.config = of_phase(whole, context.phase, context.length);
  const TrainConfig& config = context.config;
  if (context.phase == Phase::second) context.control = make_communicator(job, config.strategy);
  set_arithmetic(config);
  context.device = choose_device(config.device, place_on_host(job));
  require(config.offload == "none" || context.device.is_cpu(),
          "offload = {} is for workers on CPUs, and this one computes on {}: leave it out, or give "
          "device = cpu",
          config.offload, context.device.str());
  context.offload = Offload(config);
  set_threads(context, job, config);
  context.train->set_page_locked(!context.device.is_cpu());
  make_grid(context, job);
  make_first_model(context, job);
  const PathChoice path = choose_path(context, job);
  context.path = path.path;
  context.choices.compute_path = models::name_of(path.path);
  spread_model(context, job, checkpoint.get(), hooks);
  context.optimizer =
      make_optimizer(config, context.module(), context.model->decays_matrices_alone());
  begin(context, job, checkpoint.get());
  draw_anew_on_another_grid(context, job);
  if (context.spread) context.spread->share_random();
  scale_losses(context, job.rank());
  context.facts = facts_of(context, job, whole);
  context.facts.compute_note = path.note;
  return context;
}

}  // namespace asup::train
