#include "asup/sync/server/parameter_server.h"

#include <fmt/format.h>

#include <algorithm>

#include "asup/base/error.h"
#include "asup/net/member_group.h"
#include "asup/ps/pace/sample_allocator.h"
#include "asup/sync/model/sharing.h"

namespace asup {
namespace {

using config::field;

// Of both ways; `pace` is the first of the one that lets it be chosen.
const std::vector<config::Setting>& common_settings() {
  static const std::vector<config::Setting> rows{
      {"merge",
       field<&ParameterServer::merge>(),
       "workers train by themselves and exchange parameters: easgd draws them and the servers' "
       "elastically together, mean averages them; none: gradients of every step are exchanged",
       {},
       {},
       config::Scope::fixed},
      {"compensation",
       field<&ParameterServer::compensation>(),
       "lambda of delay compensation (DC-ASGD) for late gradients",
       {0, 1000}},
      {"stale-lr", field<&ParameterServer::stale_lr>(),
       "a gradient that is late by n steps counts for 1/n"},
      non_finite_setting<ParameterServer>(),
      {"local-parameters",
       field<&ParameterServer::local_parameters>(),
       "parameters that each worker trains for itself, a,b: names, or what they begin with and a "
       "dot",
       {},
       {},
       config::Scope::fixed},
      {"evaluate-with", field<&ParameterServer::evaluate_with>(),
       "whose statistics and local parameters a test takes: the average, rank 0's, each worker's "
       "own"},
      {"bucket-mb",
       field<&ParameterServer::bucket_mb>(),
       "gradients travel in buckets of about so many megabytes",
       {0, 4096, true, false}},
      {"compress", field<&ParameterServer::compress>(),
       "gradients of weights, and what these have changed by, travel in fewer bytes: bf16, fp16, "
       "int8, int4 or onebit; docs/compression.md"},
      {"compress-feedback", field<&ParameterServer::compress_feedback>(),
       "what compress loses of gradients is added to those of the next step; auto: of int4 and "
       "onebit"}};
  return rows;
}

// Of merges alone: the first of every merge, the second of easgd.
std::span<const config::Setting> settings_of_merge(Merge merge) {
  static const std::vector<config::Setting> rows{
      {"every", field<&ParameterServer::every>(),
       "of merge: steps between two exchanges of parameters", config::kCount},
      {"elasticity",
       field<&ParameterServer::elasticity>(),
       "merge easgd: by how much of the way to the workers' mean an exchange with all of them "
       "moves the servers' parameters",
       {0, 1, true, false}}};
  const std::size_t count = merge == Merge::easgd ? 2 : merge == Merge::mean ? 1 : 0;
  return std::span(rows).first(count);
}

// With those of the paces that may be chosen.
std::vector<NestedSettings> nested_settings(std::vector<NestedSettings> nested) {
  nested.push_back({"", "", common_settings()});
  nested.push_back({"merge", "easgd", settings_of_merge(Merge::easgd)});
  nested.push_back({"merge", "mean", settings_of_merge(Merge::mean)});
  return nested;
}

std::vector<config::Section> sections_of(ParameterServer& options) {
  return {{common_settings(), &options},
          {settings_of_merge(options.merge), &options},
          options.pace.section()};
}

void check_compress(const ParameterServer& options) {
  const std::string name = options.compress.to_text();
  const Feedback feedback = options.compress_feedback;
  require(options.compress != Compress::none || feedback != Feedback::on,
          "compress-feedback is for what is lost by compress, which is none");
  if (options.compress == Compress::none) return;
  require(!options.compress.is_auto(),
          "compress {} measures what workers exchange with each other, and here they do so with "
          "servers: say {}",
          name, names_of_codes());
  const Compress compress = options.compress.among.front();
  require(code_of(compress) != kernels::Code::none,
          "compress {} is for sync = allreduce, where workers have each other's gradients; to "
          "servers and back numbers travel in a code: say {}",
          name, names_of_codes());
  require(options.merge == Merge::none,
          "merge is {}: models are exchanged now and then, and compress is for gradients of every "
          "step. Leave one of them out, or take sync = local, whose models travel in fewer bytes "
          "with exchange-dtype",
          config::name_of_choice(options.merge));
  require(compress != Compress::onebit || feedback != Feedback::off,
          "compress {} does not train without what it keeps: leave out compress-feedback off",
          name);
  require(!has_feedback(compress, feedback) || options.pace.options().backup == 0,
          "with backup, late gradients are dropped, and with them what compress {} has kept of "
          "those before. Take compress int8 without compress-feedback, or backup = 0",
          name);
}

void check_options(const ParameterServer& options) {
  check_compress(options);
  const auto unused = [&](std::string_view name, const std::string& because) {
    config::require_usual(common_settings(), options, name, because);
  };
  if (!options.pace.has_late_gradients())
    for (const char* name : {"compensation", "stale-lr"})
      unused(name, "the pace is bsp: no gradient is late");
  const auto merge = fmt::format("merge is {}", config::name_of_choice(options.merge));
  if (options.merge == Merge::none) return;
  for (const char* name : {"compensation", "stale-lr"})
    unused(name, merge + ": no gradients are pushed");
}

// Who has a part of the model pushes gradients of all of it, as they are, and of every lease.
bool takes_parts(const ParameterServer& options) {
  return options.merge == Merge::none && options.local_parameters.empty() &&
         options.compress == Compress::none && options.pace.options().backup == 0;
}

Capabilities capabilities_of(const ParameterServer& options) {
  const bool merges = options.merge != Merge::none;
  return {.exchanges = Exchange::pushes,
          .lockstep = false,
          .needs_servers = true,
          .leases_samples = true,
          .survives_loss = true,
          .keeps_own_parameters = merges || !options.local_parameters.empty(),
          .skips_non_finite = options.non_finite != NonFinite::apply,
          .takes_parts = takes_parts(options),
          .pace = options.pace.name(),
          .lease_steps = merges ? options.every : 1,
          .backups = options.pace.options().backup};
}

void check_workers(const ParameterServer& options, int workers) {
  const auto* bsp = std::get_if<Bsp>(&options.pace.row);
  require(!bsp || bsp->backup == 0 || bsp->backup < workers,
          "backup = {} leaves none of the {} workers to wait for. Lower backup, or raise workers.",
          bsp ? bsp->backup : 0, workers);
  const auto* kasync = std::get_if<KAsync>(&options.pace.row);
  require(!kasync || kasync->gather <= workers,
          "gather = {}: an update cannot take more pushes than there are workers, which are {}. "
          "Lower gather, or raise workers.",
          kasync ? kasync->gather : 0, workers);
}

void check_model(const ParameterServer& options, torch::nn::Module& model,
                 torch::optim::Optimizer& optimizer) {
  if (!options.local_parameters.empty())
    sync::share(sync::TrainedModel(model, optimizer), sync::split_names(options.local_parameters));
}

MadeReplica make(const ServerReplicaOptions& options, const ReplicaContext& context) {
  ServerReplicaOptions server = options;
  if (context.work) server.work = *context.work;
  server.parts = context.parts;
  auto replica = make_server_replica(context.communicator, net::workers_and_servers(context.job),
                                     context.model, context.optimizer, server);
  MadeReplica made;
  made.server = replica.get();
  made.replica = std::move(replica);
  return made;
}

}  // namespace

ServerReplicaOptions server_options(const ParameterServer& options, Seconds timeout) {
  ServerReplicaOptions server;
  server.bucket_bytes = static_cast<std::size_t>(options.bucket_mb * (1 << 20));
  server.first_bucket_bytes = std::min(server.first_bucket_bytes, server.bucket_bytes);
  server.pace = options.pace.options();
  server.pace.stale_lr = options.stale_lr;
  server.pace.non_finite = options.non_finite;
  server.merge = options.merge;
  if (options.merge != Merge::none) server.every = options.every;
  server.elasticity = options.merge == Merge::easgd ? options.elasticity : 0;
  server.compensation = options.compensation;
  server.local = sync::split_names(options.local_parameters);
  server.evaluate_with = options.evaluate_with;
  server.code = code_of(options.compress.among.front());
  server.feedback = has_feedback(options.compress.among.front(), options.compress_feedback);
  server.timeout = timeout;
  return server;
}

const Way& way_of(const ParameterServer&) {
  static const Way way(WayOf<ParameterServer>{
      .name = "server",
      .group = "Servers",
      .summary = "parameter servers: workers push gradients, servers update parameters",
      .example = "--sync server --pace ssp --staleness 4 --servers 2",
      .settings =
          {{"pace", field<&ParameterServer::pace>(),
            "who waits for whom: bsp all for all, ssp for those more than staleness steps "
            "behind, asp nobody, kasync an update for the next few pushes, adaptive as it goes"}},
      .nested = nested_settings(settings_of_paces()),
      .sections = sections_of,
      .capabilities = capabilities_of,
      .check = check_options,
      .check_workers = check_workers,
      .check_model = check_model,
      .make = [](const ParameterServer& options, const ReplicaContext& context) {
        return make(server_options(options, context.timeout), context);
      }});
  return way;
}

const Way& way_of(const Asup&) {
  static const Way way(WayOf<Asup>{
      .name = "asup",
      .group = "Servers",
      .summary = "parameter servers at a pace that adapts to what is measured",
      .example = "--sync asup --servers 1",
      .settings = {{"keep-servers", field<&Asup::keep_servers>(),
                    "go on through servers, even where all-reduce or local steps are measured to "
                    "be much faster"}},
      .nested = nested_settings({settings_of_paces().back()}),
      .sections = [](Asup& options) { return sections_of(options.server); },
      .capabilities = [](const Asup& options) { return capabilities_of(options.server); },
      .check = [](const Asup& options) { check_options(options.server); },
      .check_model =
          [](const Asup& options, torch::nn::Module& model, torch::optim::Optimizer& optimizer) {
            check_model(options.server, model, optimizer);
          },
      .make =
          [](const Asup& options, const ReplicaContext& context) {
            ServerReplicaOptions server = server_options(options.server, context.timeout);
            server.pace.leaves = !options.keep_servers;
            return make(server, context);
          }});
  return way;
}

}  // namespace asup
