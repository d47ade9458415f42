#include "asup/sync/averaging/gossip.h"

#include "asup/sync/averaging/local_update_replica.h"

namespace asup {
namespace {

using config::field;

Capabilities capabilities_of(const Gossip& options) {
  return {.exchanges = Exchange::models,
          .survives_loss = true,
          .skips_non_finite = options.non_finite != NonFinite::apply,
          .least_workers = 2};
}

MadeReplica make(const Gossip& options, const ReplicaContext& context) {
  return sync::as_made(make_gossip_replica(context.communicator, context.model, context.optimizer,
                                           {.every = options.every,
                                            .graph = options.graph,
                                            .jitter = Seconds(options.jitter_ms / 1000),
                                            .code = code_of(options.exchange_dtype)}),
                       options.non_finite);
}

}  // namespace

const Way& way_of(const Gossip&) {
  static const Way way(WayOf<Gossip>{
      .name = "gossip",
      .group = "Gossip",
      .summary = "D-PSGD: workers step alone, and average models with their neighbours",
      .example = "--sync gossip --graph exponential",
      .settings =
          {{"every", field<&Gossip::every>(), "steps between two exchanges of models",
            config::kCount},
           {"graph",
            field<&Gossip::graph>(),
            "models are averaged with both neighbours on a ring, or with one worker 1, 2, 4, … "
            "places on, by turns (exponential)",
            {},
            {"ring", "exponential"}},
           {"exchange-dtype", field<&Gossip::exchange_dtype>(),
            "what models travel as: but for f32, what they differ by from what neighbours know of "
            "them, which takes copies of the model"},
           {"jitter-ms",
            field<&Gossip::jitter_ms>(),
            "an exchange is put off by up to so many milliseconds, at random, so that workers do "
            "not all send at once",
            {0, 1e4}},
           non_finite_setting<Gossip>()},
      .capabilities = capabilities_of,
      .make = make});
  return way;
}

}  // namespace asup
