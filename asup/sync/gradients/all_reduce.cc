#include "asup/sync/gradients/all_reduce.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/collective/tuning/surroundings.h"
#include "asup/sync/compressors/coded_momenta.h"
#include "asup/sync/compressors/low_rank_gradients.h"
#include "asup/sync/compressors/sparse_gradients.h"
#include "asup/sync/gradients/fastest_exchange.h"
#include "asup/sync/model/agreement.h"
#include "asup/sync/sharded/sharded_optimizer.h"

namespace asup {
namespace {

using config::field;

bool is_sparse(Compress compress) {
  return compress == Compress::topk || compress == Compress::dgc;
}

// By rank of the communicator, which need not be of all workers. Collective.
std::vector<int> hosts_of(const ReplicaContext& context) {
  std::vector<int> workers(static_cast<std::size_t>(context.job.size()));
  std::iota(workers.begin(), workers.end(), 0);
  std::int32_t own = collective::tuning::hosts_of(
      context.job.roster(), workers)[static_cast<std::size_t>(context.job.rank())];
  std::vector<std::int32_t> all(static_cast<std::size_t>(context.communicator.size()));
  context.communicator.all_gather(buffer_of(std::span(&own, 1)), buffer_of(std::span(all)))
      .or_throw();
  return {all.begin(), all.end()};
}

// What gradients may travel in here, and the hosts that sum theirs before: none where each worker
// has one to itself. On one host alone there is nothing to leave out.
struct Candidates {
  std::vector<Compress> among;
  std::vector<int> hosts{};
  std::string note{};
};

Candidates candidates(const AllReduce& options, const ReplicaContext& context) {
  Candidates found{.among = options.compress.among};
  if (std::ranges::none_of(found.among, is_sparse) || options.compress_per == CompressPer::worker)
    return found;
  found.hosts = hosts_of(context);
  const auto hosts = std::set(found.hosts.begin(), found.hosts.end()).size();
  if (hosts == found.hosts.size() && hosts > 1) found.hosts.clear();
  if (hosts > 1) return found;
  const Compress sparse = *std::ranges::find_if(found.among, is_sparse);
  std::erase_if(found.among, is_sparse);
  if (found.among.empty()) found.among.push_back(Compress::none);
  found.note = fmt::format(
      "compress {}: all workers share this host, so gradients are summed whole, in memory "
      "(compress-per = worker has each worker's largest numbers travel)",
      config::name_of_choice(sparse));
  return found;
}

// In Replica::observed(), before what the replica has observed.
std::string observed_choice(Compress compress, const AllReduce& options, int workers) {
  return fmt::format("compress {} by {} ({:g}, {}) per {} of {} workers; ",
                     config::name_of_choice(compress), options.compress.to_text(),
                     options.compress_density, options.compress_rank,
                     config::name_of_choice(options.compress_per), workers);
}

// What the replica has observed, without a choice.
std::string without_choice(const std::string& observed) {
  constexpr std::string_view kEnd = "; ";
  const auto end = observed.find(kEnd);
  return end == std::string::npos ? observed : observed.substr(end + kEnd.size());
}

// Exchanges, one a step, since the first that was sparse: a checkpoint has how many there were.
std::uint64_t warmup_of(const AllReduce& options, const ReplicaContext& context) {
  const std::int64_t steps = context.progress.steps;
  if (!options.compress_warmup.is_share || steps > 0)
    return static_cast<std::uint64_t>(options.compress_warmup.steps(steps));
  if (context.communicator.rank() == 0)
    log().warn(
        "compress-warmup = {} is a share of a run whose length is not known here: there is no "
        "warm-up; give a number of steps",
        options.compress_warmup.to_text());
  return 0;
}

// Whether the optimizer's momentum is before the exchange, and gradients are clipped there too.
// Where each worker keeps a part of the optimizer's state, onebit leaves the momentum there.
bool takes_momentum(Compress compress, const AllReduce& options, const ReplicaContext& context) {
  if (compress == Compress::dgc) return true;
  return compress == Compress::onebit && options.shard == Shard::none &&
         sync::has_momentum_to_take(context.optimizer);
}

double clip_norm_of(const AllReduce& options, const ReplicaContext& context) {
  return options.clip_norm > 0 ? options.clip_norm : context.clip_norm.value_or(0);
}

CompressorFactory compressor_of(Compress compress, const AllReduce& options,
                                const std::vector<int>& hosts, const ReplicaContext& context) {
  using enum Compress;
  if (compress == onebit && takes_momentum(compress, options, context))
    return sync::coded_momenta(
        {.code = code_of(compress), .clip_norm = clip_norm_of(options, context)});
  if (compress == powersgd) return sync::powersgd(static_cast<int>(options.compress_rank));
  if (!is_sparse(compress)) return options.compressor;
  sync::Sparsity sparsity{
      .density = options.compress_density, .warmup = warmup_of(options, context), .hosts = hosts};
  if (compress == topk) return sync::topk(sparsity);
  sparsity.clip_norm = clip_norm_of(options, context);
  return sync::dgc(sparsity);
}

sync::ExchangeWay exchange_way(Compress compress, const AllReduce& options,
                               const std::vector<int>& hosts, const ReplicaContext& context) {
  const CompressorFactory compressor = compressor_of(compress, options, hosts, context);
  return {.name = std::string(config::name_of_choice(compress)),
          .code = compressor ? kernels::Code::none : code_of(compress),
          .feedback = !compressor && has_feedback(compress, options.compress_feedback),
          .compressor = compressor};
}

std::size_t weights_in(torch::nn::Module& model) {
  std::int64_t numbers = 0;
  for (const torch::Tensor& parameter : model.parameters())
    if (parameter.requires_grad() && is_large_weight(parameter)) numbers += parameter.numel();
  return static_cast<std::size_t>(numbers);
}

// Before ranks that want different things measure them. Collective.
void check_agreed_on(const AllReduce& options, const ReplicaContext& context) {
  const std::array facts{
      sync::AgreedValue{"setting compress", options.compress.to_text()},
      sync::AgreedValue{"setting compress-density", fmt::format("{}", options.compress_density)},
      sync::AgreedValue{"setting compress-per",
                        std::string(config::name_of_choice(options.compress_per))},
      sync::AgreedValue{"setting compress-rank", fmt::format("{}", options.compress_rank)},
      sync::AgreedValue{"setting observed", context.observed.empty() ? "nothing" : "something"}};
  sync::check_agreed(context.communicator, facts);
}

// Measured, unless it was before, with the same settings and as many workers. Collective.
Compress chosen(const AllReduce& options, const Candidates& candidates,
                const ReplicaContext& context, std::string& note) {
  const std::vector<Compress>& among = candidates.among;
  const int workers = context.communicator.size();
  if (among.size() == 1) return among.front();
  for (const Compress each : among)
    if (context.observed.starts_with(observed_choice(each, options, workers))) {
      note = fmt::format("compress {}, as measured before", config::name_of_choice(each));
      return each;
    }
  if (workers == 1 || weights_in(context.model) == 0) return among.front();
  std::vector<sync::ExchangeWay> ways;
  for (const Compress each : among)
    ways.push_back(exchange_way(each, options, candidates.hosts, context));
  const auto measured = sync::fastest_exchange(context.communicator, context.optimizer,
                                               weights_in(context.model), ways);
  std::string prices;
  for (std::size_t i = 0; i < ways.size(); ++i)
    prices +=
        fmt::format("{}{} {:.3g} ms", i == 0 ? "" : ", ", ways[i].name, measured.seconds[i] * 1e3);
  note = fmt::format("compress {}: an exchange of 4 MB at most takes {}", ways[measured.best].name,
                     prices);
  if (context.communicator.rank() == 0) log().info("{}", note);
  return among[measured.best];
}

MadeReplica make(const AllReduce& options, const ReplicaContext& context) {
  MadeReplica made;
  check_agreed_on(options, context);
  const Candidates possible = candidates(options, context);
  made.note = possible.note;
  if (!made.note.empty() && context.communicator.rank() == 0) log().info("{}", made.note);
  const Compress compress = chosen(options, possible, context, made.note);
  AllReduceOptions gradients;
  gradients.bucket_bytes = static_cast<std::size_t>(options.bucket_mb * (1 << 20));
  gradients.first_bucket_bytes = std::min(gradients.first_bucket_bytes, gradients.bucket_bytes);
  gradients.buffers = options.buffers;
  gradients.non_finite = options.non_finite;
  gradients.shard = options.shard;
  const sync::ExchangeWay way = exchange_way(compress, options, possible.hosts, context);
  gradients.code = way.code;
  gradients.feedback = way.feedback;
  gradients.compressor = way.compressor;
  // asup train clips by clip_grad_norm() where it can.
  gradients.clip_norm = takes_momentum(compress, options, context) ? clip_norm_of(options, context)
                                                                   : options.clip_norm;
  gradients.parts = context.parts;
  gradients.regroup = context.regroup;
  gradients.observed = without_choice(context.observed);
  if (options.compress.is_auto())
    gradients.chosen = observed_choice(compress, options, context.communicator.size());
  made.replica =
      make_all_reduce_replica(context.communicator, context.model, context.optimizer, gradients);
  return made;
}

void check(const AllReduce& options) {
  using enum Compress;
  const CompressSetting& compress = options.compress;
  const std::string name = compress.to_text();
  const bool may_be_sparse = compress.may_be(topk) || compress.may_be(dgc);
  const bool may_be_low_rank = compress.may_be(powersgd);
  require(compress != none || options.compress_feedback != Feedback::on,
          "compress-feedback is for what is lost by compress, which is none");
  require((!compress.may_be(onebit) && !may_be_sparse && !may_be_low_rank) ||
              options.compress_feedback != Feedback::off,
          "compress {} does not train without what it keeps: leave out compress-feedback off",
          name);
  require(!compress.among.empty() &&
              (!compress.is_auto() || compress == CompressSetting::automatic(compress.among)),
          "compress is one, or of several that begin with none and bf16, as "
          "CompressSetting::automatic() makes them");
  require(!options.compressor || compress == none,
          "a compressor of one's own is instead of compress {}", name);
  const AllReduce usual;
  require(may_be_sparse || options.compress_density == usual.compress_density,
          "compress-density is for compress topk and dgc, not {}", name);
  require(may_be_sparse || options.compress_warmup == usual.compress_warmup,
          "compress-warmup is for compress topk and dgc, not {}", name);
  require(may_be_sparse || options.compress_per == usual.compress_per,
          "compress-per is for compress topk and dgc, not {}", name);
  require(
      options.clip_norm == 0 ||
          (options.clip_norm > 0 && (compress.may_be(dgc) || compress.may_be(onebit))),
      "AllReduce's clip_norm, which is {}, is above 0, and for gradients that are clipped before "
      "they leave, by compress dgc and onebit: others are clipped by clip_grad_norm()",
      options.clip_norm);
  require(
      options.shard == Shard::none || !compress.may_be(dgc),
      "compress dgc keeps each worker's own momentum of all parameters, of which shard {} is to "
      "keep a part: leave one of them out, or use compress topk",
      config::name_of_choice(options.shard));
  require(!sync::cuts_gradients(options.shard) || compress == none,
          "shard {} sums gradients as they are, and compress is {}: leave one of them out, or use "
          "shard optimizer",
          config::name_of_choice(options.shard), name);
  require(!sync::cuts_gradients(options.shard) || !options.compressor,
          "shard {} sums gradients as they are: leave the compressor out, or use shard optimizer",
          config::name_of_choice(options.shard));
  require(may_be_low_rank || options.compress_rank == usual.compress_rank,
          "compress-rank is for compress powersgd, not {}", name);
}

// Of parts nothing is kept but models and optimizers: no choice that each would measure for itself,
// and nothing of gradients that were compressed. Norms of shards are of one group.
bool takes_parts(const AllReduce& options) {
  const bool has_gradients = options.shard == Shard::none || options.shard == Shard::optimizer;
  if (!has_gradients || options.compressor || options.compress.is_auto()) return false;
  const Compress compress = options.compress.among.front();
  const bool is_code = compress == Compress::none || code_of(compress) != kernels::Code::none;
  return is_code && !has_feedback(compress, options.compress_feedback);
}

// Parts that a lost worker had are lost with it; what hosts keep together is laid out for them.
bool retakes_steps(const AllReduce& options) {
  const bool by_host = std::ranges::any_of(options.compress.among, is_sparse) &&
                       options.compress_per == CompressPer::host;
  return options.shard == Shard::none && !by_host;
}

// A compressor has to take the same gradients twice.
bool exchanges_again(const AllReduce& options) {
  return retakes_steps(options) && !options.compressor &&
         !options.compress.may_be(Compress::powersgd);
}

void check_model(const AllReduce& options, torch::nn::Module&, torch::optim::Optimizer& optimizer) {
  if (options.compress.may_be(Compress::dgc))
    (void)sync::momentum_to_take(optimizer, "compress dgc");
  if (options.shard != Shard::none) sync::require_shardable(optimizer);
}

}  // namespace

const Way& way_of(const AllReduce&) {
  static const Way way(WayOf<AllReduce>{
      .name = "allreduce",
      .group = "All-reduce",
      .summary = "synchronous SGD: gradients of every step are averaged over all workers",
      .example = "--sync allreduce --algorithm ring",
      .settings =
          {{"bucket-mb",
            field<&AllReduce::bucket_mb>(),
            "gradients travel in buckets of about so many megabytes",
            {0, 4096, true, false}},
           {"buffers",
            field<&AllReduce::buffers>(),
            "BatchNorm statistics: each worker's own, rank 0's, or the average",
            {},
            {},
            config::Scope::fixed},
           {"shard", field<&AllReduce::shard>(),
            "what each worker keeps a part of only: the optimizer's state, that and the "
            "gradients, or these and the parameters; docs/sharding.md"},
           {"compress", field<&AllReduce::compress>(),
            "gradients of weights travel in fewer bytes: half, a quarter, an eighth, a "
            "32nd, only their largest numbers, or as matrices of low rank; auto: the faster "
            "of none and bf16, or the fastest of these and others, measured at the start; "
            "docs/compression.md"},
           {"compress-feedback", field<&AllReduce::compress_feedback>(),
            "what compress loses is added to the next step's gradients; auto: of int4 and "
            "onebit"},
           {"compress-density",
            field<&AllReduce::compress_density>(),
            "compress topk and dgc: the share of numbers that travels",
            {0, 0.5, true, false}},
           {"compress-warmup", field<&AllReduce::compress_warmup>(),
            "and steps, or the share of the run, in which it falls to that from a quarter"},
           {"compress-per", field<&AllReduce::compress_per>(),
            "and whose numbers: of what the workers of a host have together, or each worker's"},
           {"compress-rank",
            field<&AllReduce::compress_rank>(),
            "compress powersgd: the rank of the matrices",
            {1, 64}},
           non_finite_setting<AllReduce>()},
      .capabilities =
          [](const AllReduce& options) {
            return Capabilities{.retakes_steps = retakes_steps(options),
                                .exchanges_again = exchanges_again(options),
                                .computes_together = options.shard == Shard::parameters,
                                .skips_non_finite = options.non_finite != NonFinite::apply,
                                .takes_parts = takes_parts(options)};
          },
      .check = check,
      .check_model = check_model,
      .make = make});
  return way;
}

}  // namespace asup
