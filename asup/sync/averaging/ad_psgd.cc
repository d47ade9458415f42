#include "asup/sync/averaging/ad_psgd.h"

#include <algorithm>

#include "asup/gossip/graph.h"
#include "asup/net/member_group.h"
#include "asup/sync/averaging/local_update_replica.h"

namespace asup {
namespace {

using config::field;

void check_options(const AdPsgd& options) {
  check_timed_rounds(options.rounds);
  require(
      options.exchange_dtype == ExchangeDtype::f32 || options.exchange_dtype == ExchangeDtype::bf16,
      "exchange-dtype = {} is for differences from what a partner knows already. Pairs of "
      "adpsgd are another pair each time: each worker would have to keep a copy of the model "
      "for each of its partners. Take bf16, in which models travel whole, or sync = gossip",
      config::name_of_choice(options.exchange_dtype));
}

Capabilities capabilities_of(const AdPsgd& options) {
  Capabilities capabilities{.exchanges = Exchange::models,
                            .lockstep = false,
                            .survives_loss = true,
                            .names_workers = options.graph.find('-') != options.graph.npos,
                            .skips_non_finite = options.non_finite != NonFinite::apply,
                            .least_workers = 2};
  describe_rounds(options.rounds, capabilities);
  return capabilities;
}

void check_workers(const AdPsgd& options, int workers) { gossip::graph_of(options.graph, workers); }

MadeReplica make(const AdPsgd& options, const ReplicaContext& context) {
  return sync::as_made(
      make_adpsgd_replica(context.communicator, net::workers_of(context.job), context.model,
                          context.optimizer, pair_options(options, context.timeout, context.seed)),
      options.non_finite);
}

}  // namespace

AdPsgdOptions pair_options(const AdPsgd& options, Seconds timeout, std::uint64_t seed) {
  AdPsgdOptions pairs;
  pairs.every = options.every;
  pairs.in_bf16 = options.exchange_dtype == ExchangeDtype::bf16;
  pairs.graph = options.graph;
  pairs.seed = seed;
  pairs.patience = std::min(pairs.patience, timeout);
  return pairs;
}

const Way& way_of(const AdPsgd&) {
  static const Way way(WayOf<AdPsgd>{
      .name = "adpsgd",
      .group = "Gossip",
      .summary = "AD-PSGD: workers go at their own pace, and average models in pairs",
      .example = "--sync adpsgd --every 8 --graph random",
      .settings = {{"every", field<&AdPsgd::every>(),
                    "a worker asks for an exchange so many steps after the last one",
                    config::kCount},
                   {"graph", field<&AdPsgd::graph>(),
                    "who is a partner: both neighbours on a ring, all (random), those 1, 2, 4, … "
                    "places away "
                    "(exponential), or edges, 0-1,1-2,2-0"},
                   {"exchange-dtype", field<&AdPsgd::exchange_dtype>(),
                    "what models travel as: f32, or bf16, with half of the bytes"},
                   non_finite_setting<AdPsgd>()},
      .nested = {{"", "", settings_of_timed_rounds()}},
      .sections = [](AdPsgd& options) -> std::vector<config::Section> {
        return {{settings_of_timed_rounds(), &options.rounds}};
      },
      .capabilities = capabilities_of,
      .check = check_options,
      .check_workers = check_workers,
      .make = make});
  return way;
}

}  // namespace asup
