// The rows behind settings.h.
#include <fmt/ranges.h>

#include "asup/distribute/ways.h"
#include "asup/train/settings.h"

namespace asup::train {
namespace {

using C = TrainConfig;
using config::field;
using config::kCount;
using config::kCountOrZero;
using config::kWhole;
using config::Scope;
using config::Setting;
using config::Value;

constexpr std::string_view kModel = "Model and data", kLength = "Length", kOptimizer = "Optimizer",
                           kWorkers = "Workers", kFolder = "Run folder", kNone = "none";

std::string text_of_then(const void* config) {
  const auto& then = static_cast<const C*>(config)->then;
  return then ? then->name() : std::string(kNone);
}

const Way& way_from(const Value& value, const std::vector<std::string>& names,
                    std::string_view where) {
  const std::vector<std::string_view> choices(names.begin(), names.end());
  return *find_way(config::text_from(value, choices, where));
}

// The strategy's options are filled in when all that was said is known.
config::Field sync_field() {
  return {fmt::format("{}", fmt::join(names_of_ways(), "|")),
          [](const void* config) { return static_cast<const C*>(config)->strategy.name(); },
          [](const void* config) {
            return config::toml_text(static_cast<const C*>(config)->strategy.name());
          },
          [](const Setting&, void* config, const Value& value, std::string_view where) {
            static_cast<C*>(config)->strategy = Strategy(way_from(value, names_of_ways(), where));
          }};
}

config::Field then_field() {
  return {fmt::format("none|{}", fmt::join(names_of_ways(), "|")), text_of_then,
          [](const void* config) { return config::toml_text(text_of_then(config)); },
          [](const Setting&, void* config, const Value& value, std::string_view where) {
            auto& then = static_cast<C*>(config)->then;
            then.reset();
            if (config::text_of(value) == kNone) return;
            then.emplace(way_from(value, names_of_ways(), where));
          }};
}

const std::vector<Setting>& table() {
  static const std::vector<Setting> rows{
      // clang-format off
      {"model", field<&C::model>(), "what to train; `asup train --list` shows all", {}, {}, Scope::fixed, kModel},
      {"width", field<&C::width>(), "mlp: units of a hidden layer, cnn: channels of the first layer; 0: the model's usual", {0, 65536}, {}, Scope::fixed, kModel},
      {"depth", field<&C::depth>(), "mlp: hidden layers; 0: the model's usual", {0, 1000}, {}, Scope::fixed, kModel},
      {"stem", field<&C::stem>(), "how a ResNet begins: for ImageNet's sizes, or for small images", {}, {"auto", "imagenet", "small"}, Scope::fixed, kModel},
      {"data", field<&C::data>(), "name of a data set, or a folder in MNIST or CIFAR-10 binary format", {}, {}, Scope::fixed, kModel},
      {"classes", field<&C::classes>(), "classes of a folder in MNIST format, whose files do not say", {1, 65536}, {}, Scope::fixed, kModel},
      {"augment-shift", field<&C::augment_shift>(), "training images are shifted at random by up to so many pixels", {0, 1024}, {}, Scope::fixed, kModel},
      {"augment-flip", field<&C::augment_flip>(), "training images are mirrored half of the time", {}, {}, Scope::fixed, kModel},
      {"synthetic-samples", field<&C::synthetic_samples>(), "training images of `--data synthetic`", kCount, {}, Scope::fixed, kModel},
      {"synthetic-test-samples", field<&C::synthetic_test_samples>(), "its test images", kCount, {}, Scope::fixed, kModel},
      {"synthetic-shape", field<&C::synthetic_shape>(), "its images' channels x height x width", {}, {}, Scope::fixed, kModel},
      {"synthetic-classes", field<&C::synthetic_classes>(), "its classes", {1, 65536}, {}, Scope::fixed, kModel},
      {"synthetic-noise", field<&C::synthetic_noise>(), "standard deviation of its noise; its patterns' own is 1", {0, 1e6}, {}, Scope::fixed, kModel},

      {"batch", field<&C::batch>(), "global batch: samples of one step, on all workers together", kCount, {}, Scope::fixed, kLength},
      {"epochs", field<&C::epochs>(), "passes over the data; 0: as many as --steps needs, or else 5", kCountOrZero, {}, Scope::run, kLength},
      {"steps", field<&C::steps>(), "steps in all; 0: as many as --epochs needs", kCountOrZero, {}, Scope::run, kLength},
      {"stop-at", field<&C::stop_at>(), "stop after this step, with a checkpoint to resume from; 0: at the end", kCountOrZero, {}, Scope::call, kLength},
      {"accumulate", field<&C::accumulate>(), "a worker's part of a batch is worked on in so many portions, to save memory", {1, 65536}, {}, Scope::fixed, kLength},
      {"remainder", field<&C::remainder>(), "samples at an epoch's end that fill no batch: a shorter last batch, leave them out, or fill it up", {}, {"keep", "drop", "pad"}, Scope::fixed, kLength},

      {"optimizer", field<&C::optimizer>(), "how gradients change weights", {}, {"sgd", "adam", "adamw", "rmsprop", "lars", "asup"}, Scope::fixed, kOptimizer},
      {"lr", field<&C::lr>(), "learning rate; 0: 0.05 for sgd, 1 for lars, 0.0003 for asup, 0.001 for the others", {0, 1000}, {}, Scope::run, kOptimizer},
      {"momentum", field<&C::momentum>(), "of sgd, rmsprop, lars and asup", {0, 1, false, true}, {}, Scope::run, kOptimizer},
      {"nesterov", field<&C::nesterov>(), "Nesterov's momentum, for sgd", {}, {}, Scope::run, kOptimizer},
      {"weight-decay", field<&C::weight_decay>(), "pull of every weight towards 0", {0, 10}, {}, Scope::run, kOptimizer},
      {"schedule", field<&C::schedule>(), "course of the learning rate after the warm-up", {}, {"constant", "cosine", "step", "power"}, Scope::run, kOptimizer},
      {"warmup", field<&C::warmup>(), "steps in which the learning rate rises from near 0", kCountOrZero, {}, Scope::run, kOptimizer},
      {"decay-every", field<&C::decay_every>(), "schedule step: epochs after which the rate is multiplied by decay-factor; 0: a third of the run", kCountOrZero, {}, Scope::run, kOptimizer},
      {"decay-factor", field<&C::decay_factor>(), "schedule step: the factor", {0, 1, true, false}, {}, Scope::run, kOptimizer},
      {"eta-min", field<&C::eta_min>(), "schedule power: the rate in epoch e, from 0, is lr * sqrt((e + 1) / eta-min) ^ -power", {0, 1e9, true, false}, {}, Scope::run, kOptimizer},
      {"power", field<&C::power>(), "schedule power: the exponent", {0, 100}, {}, Scope::run, kOptimizer},
      {"seed", field<&C::seed>(), "of first weights, order of samples, augmentation and dropout", kWhole, {}, Scope::fixed, kOptimizer},

      {"workers", field<&C::workers>(), "processes that train together", {1, 4096}, {}, Scope::run, kWorkers},
      {"servers", field<&C::servers>(), "processes beside the workers that keep the parameters, for ways that have servers; 0: one where they are needed", {0, 4096}, {}, Scope::run, kWorkers},
      {"hosts", field<&C::hosts>(), "hosts to start them on over ssh, a,b,c; empty: this one", {}, {}, Scope::run, kWorkers},
      {"threads", field<&C::threads>(), "threads of a worker; 0: its share of the host's cores", {0, 1024}, {}, Scope::run, kWorkers},
      {"sync", sync_field(), "how workers stay in step; `asup train --help WAY` explains a way and its settings", {}, {}, Scope::run, kWorkers},
      {"then", then_field(), "another way, which the run changes to on its way; a setting that both ways have counts for both", {}, {}, Scope::run, kWorkers},
      {"at", field<&C::at>(), "when the run changes to `then`: after so many steps, after such a share of the run, like 80%, or when the loss does not fall any more: stall", {}, {}, Scope::run, kWorkers},
      {"on-loss", field<&C::on_loss>(), "when a worker is lost: end the run, or continue without it (allreduce: from the last checkpoint); auto: continue where the way does so by itself", {}, {"auto", "end", "continue"}, Scope::run, kWorkers},
      {"balance", field<&C::balance>(), "a worker's part of each batch is in proportion to its measured speed, so that nobody waits for a slow one; for ways that exchange gradients in lockstep", {}, {}, Scope::run, kWorkers},
      {"algorithm", field<&C::algorithm>(), "of collectives; auto: the best for the links", {}, {}, Scope::run, kWorkers},
      {"links", field<&C::links>(), "auto: shared memory between workers of one host, TCP between hosts; mpi: under mpirun", {}, {"auto", "shm", "tcp", "mpi"}, Scope::run, kWorkers},
      {"interface", field<&C::interface>(), "network interface or address that workers listen on; empty: the route to the coordinator", {}, {}, Scope::run, kWorkers},
      {"timeout", field<&C::timeout>(), "seconds after which a worker that does not answer ends the job", {0, 1e6, true, false}, {}, Scope::run, kWorkers},
      {"conv-path", field<&C::conv_path>(), "implementation of convolutions; auto: the fastest, measured at the start", {}, {"auto", "onednn", "native", "onednn-forward"}, Scope::run, kWorkers},

      {"out", field<&C::out>(), "run folder; empty: runs/MODEL-DATA-TIME; an earlier run there is moved to OUT.previous", {}, {}, Scope::call, kFolder},
      {"resume", field<&C::resume>(), "continue the run in this folder from its last checkpoint", {}, {}, Scope::call, kFolder},
      {"checkpoint-every", field<&C::checkpoint_every>(), "so many steps, `epoch` or `never`", {}, {}, Scope::run, kFolder},
      {"keep-checkpoints", field<&C::keep_checkpoints>(), "how many of the last checkpoints stay", {1, 1e6}, {}, Scope::run, kFolder},
      {"log-every", field<&C::log_every>(), "steps between two rows of metrics.jsonl", kCount, {}, Scope::run, kFolder},
      {"eval-every", field<&C::eval_every>(), "test after so many steps, every `epoch`, or `never` before the end", {}, {}, Scope::run, kFolder},
      {"progress", field<&C::progress>(), "auto: a live display on a terminal, lines elsewhere", {}, {"auto", "plain", "none"}, Scope::run, kFolder},
      {"live", field<&C::live>(), "serve a page to watch the run in a browser, on this host alone; or at ADDRESS:PORT", {}, {}, Scope::call, kFolder},
      // clang-format on
  };
  return rows;
}

}  // namespace

std::span<const Setting> settings() { return table(); }

}  // namespace asup::train
