#include "asup/sync/averaging/diloco.h"

#include "asup/base/error.h"
#include "asup/sync/averaging/local_update_replica.h"

namespace asup {
namespace {

using config::field;

void check_options(const DiLoCo& options) {
  require(options.fragments <= options.every,
          "fragments = {} cannot be exchanged one by one in every = {} steps. Lower fragments, or "
          "raise every.",
          options.fragments, options.every);
  require(options.outer_overlap < options.every,
          "outer-overlap = {} steps do not end before the next exchange, which begins after every "
          "= {} steps. Lower outer-overlap, or raise every.",
          options.outer_overlap, options.every);
  require(options.exchange_density == 0 || options.exchange_dtype == ExchangeDtype::f32,
          "with exchange-density differences travel in two bits each. Leave exchange-dtype out.");
}

Capabilities capabilities_of(const DiLoCo& options) {
  return {.exchanges = Exchange::models,
          .survives_loss = true,
          .skips_non_finite = options.non_finite != NonFinite::apply};
}

MadeReplica make(const DiLoCo& options, const ReplicaContext& context) {
  return sync::as_made(
      make_diloco_replica(
          context.communicator, context.model, context.optimizer,
          {.every = options.every,
           .outer_lr = options.outer_lr,
           .outer_momentum = options.outer_momentum,
           .overlap = options.outer_overlap,
           .fragments = options.fragments,
           .in_bf16 = options.exchange_dtype == ExchangeDtype::bf16,
           .code = options.exchange_dtype == ExchangeDtype::bf16 ? kernels::Code::none
                                                                 : code_of(options.exchange_dtype),
           .density = options.exchange_density,
           .jitter = Seconds(options.jitter_ms / 1000)}),
      options.non_finite);
}

}  // namespace

const Way& way_of(const DiLoCo&) {
  static const Way way(WayOf<DiLoCo>{
      .name = "diloco",
      .group = "Local and DiLoCo",
      .summary = "DiLoCo: workers step alone; an outer optimizer moves the common model",
      .example = "--sync diloco --every 50 --outer-lr 0.9 --optimizer adamw",
      .settings =
          {{"every", field<&DiLoCo::every>(), "steps between two exchanges of the model",
            config::kCount},
           {"outer-lr",
            field<&DiLoCo::outer_lr>(),
            "learning rate of the outer optimizer",
            {0, 10, true, false}},
           {"outer-momentum",
            field<&DiLoCo::outer_momentum>(),
            "Nesterov's momentum of the outer optimizer",
            {0, 1, false, true}},
           {"outer-overlap", field<&DiLoCo::outer_overlap>(),
            "an exchange takes place beside so many steps, and with 0 workers wait for it",
            config::kCountOrZero},
           {"fragments",
            field<&DiLoCo::fragments>(),
            "the model is exchanged in so many parts, one after the other, evenly between "
            "two exchanges of one",
            {1, 65536}},
           {"exchange-dtype", field<&DiLoCo::exchange_dtype>(),
            "what differences of models travel as; of int4, what is lost is kept for the next "
            "exchange"},
           {"exchange-density",
            field<&DiLoCo::exchange_density>(),
            "only this share of the differences travels, the largest, in two bits each; the "
            "others are kept for the next exchange (SparseLoCo). 0: all do",
            {0, 0.5, false, false}},
           {"jitter-ms",
            field<&DiLoCo::jitter_ms>(),
            "an exchange is put off by up to so many milliseconds, at random, so that jobs "
            "that share links do not all send at once",
            {0, 1e4}},
           non_finite_setting<DiLoCo>()},
      .capabilities = capabilities_of,
      .check = check_options,
      .make = make});
  return way;
}

}  // namespace asup
