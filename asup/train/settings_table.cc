// The rows behind settings.h.
#include "asup/train/settings.h"

namespace asup::train {
namespace {

using C = TrainConfig;

constexpr Range kWhole{0, 9.0e15};  // whole numbers that a double holds exactly
constexpr Range kCount{1, 1e9};
constexpr Range kCountOrZero{0, 1e9};

const std::vector<Setting>& table() {
  static const std::vector<Setting> rows{
      // clang-format off
      {"model", "Model and data", &C::model, "what to train; `asup train --list` shows all", {}, {}, Scope::fixed},
      {"width", "Model and data", &C::width, "mlp: units of a hidden layer, cnn: channels of the first layer; 0: the model's usual", {0, 65536}, {}, Scope::fixed},
      {"depth", "Model and data", &C::depth, "mlp: hidden layers; 0: the model's usual", {0, 1000}, {}, Scope::fixed},
      {"stem", "Model and data", &C::stem, "how a ResNet begins: for ImageNet's sizes, or for small images", {}, {"auto", "imagenet", "small"}, Scope::fixed},
      {"data", "Model and data", &C::data, "name of a data set, or a folder in MNIST or CIFAR-10 binary format", {}, {}, Scope::fixed},
      {"classes", "Model and data", &C::classes, "classes of a folder in MNIST format, whose files do not say", {1, 65536}, {}, Scope::fixed},
      {"augment-shift", "Model and data", &C::augment_shift, "training images are shifted at random by up to so many pixels", {0, 1024}, {}, Scope::fixed},
      {"augment-flip", "Model and data", &C::augment_flip, "training images are mirrored half of the time", {}, {}, Scope::fixed},
      {"synthetic-samples", "Model and data", &C::synthetic_samples, "training images of `--data synthetic`", kCount, {}, Scope::fixed},
      {"synthetic-test-samples", "Model and data", &C::synthetic_test_samples, "its test images", kCount, {}, Scope::fixed},
      {"synthetic-shape", "Model and data", &C::synthetic_shape, "its images' channels x height x width", {}, {}, Scope::fixed},
      {"synthetic-classes", "Model and data", &C::synthetic_classes, "its classes", {1, 65536}, {}, Scope::fixed},
      {"synthetic-noise", "Model and data", &C::synthetic_noise, "standard deviation of its noise; its patterns' own is 1", {0, 1e6}, {}, Scope::fixed},

      {"batch", "Length", &C::batch, "global batch: samples of one step, on all workers together", kCount, {}, Scope::fixed},
      {"epochs", "Length", &C::epochs, "passes over the data; 0: as many as --steps needs, or else 5", kCountOrZero},
      {"steps", "Length", &C::steps, "steps in all; 0: as many as --epochs needs", kCountOrZero},
      {"stop-at", "Length", &C::stop_at, "stop after this step, with a checkpoint to resume from; 0: at the end", kCountOrZero, {}, Scope::call},
      {"accumulate", "Length", &C::accumulate, "a worker's part of a batch is worked on in so many portions, to save memory", {1, 65536}, {}, Scope::fixed},
      {"remainder", "Length", &C::remainder, "samples at an epoch's end that fill no batch: a shorter last batch, leave them out, or fill it up", {}, {"keep", "drop", "pad"}, Scope::fixed},

      {"optimizer", "Optimizer", &C::optimizer, "how gradients change weights", {}, {"sgd", "adam", "adamw", "rmsprop", "lars", "asup"}, Scope::fixed},
      {"lr", "Optimizer", &C::lr, "learning rate; 0: 0.05 for sgd, 1 for lars, 0.0003 for asup, 0.001 for the others", {0, 1000}},
      {"momentum", "Optimizer", &C::momentum, "of sgd, rmsprop, lars and asup", {0, 1, false, true}},
      {"nesterov", "Optimizer", &C::nesterov, "Nesterov's momentum, for sgd"},
      {"weight-decay", "Optimizer", &C::weight_decay, "pull of every weight towards 0", {0, 10}},
      {"schedule", "Optimizer", &C::schedule, "course of the learning rate after the warm-up", {}, {"constant", "cosine", "step", "power"}},
      {"warmup", "Optimizer", &C::warmup, "steps in which the learning rate rises from near 0", kCountOrZero},
      {"decay-every", "Optimizer", &C::decay_every, "schedule step: epochs after which the rate is multiplied by decay-factor; 0: a third of the run", kCountOrZero},
      {"decay-factor", "Optimizer", &C::decay_factor, "schedule step: the factor", {0, 1, true, false}},
      {"eta-min", "Optimizer", &C::eta_min, "schedule power: the rate in epoch e, from 0, is lr * sqrt((e + 1) / eta-min) ^ -power", {0, 1e9, true, false}},
      {"power", "Optimizer", &C::power, "schedule power: the exponent", {0, 100}},
      {"seed", "Optimizer", &C::seed, "of first weights, order of samples, augmentation and dropout", kWhole, {}, Scope::fixed},

      {"workers", "Workers", &C::workers, "processes that train together", {1, 4096}},
      {"servers", "Workers", &C::servers, "processes beside the workers that keep the parameters, for sync server and asup; 0: one where they are needed", {0, 4096}},
      {"hosts", "Workers", &C::hosts, "hosts to start them on over ssh, a,b,c; empty: this one"},
      {"threads", "Workers", &C::threads, "threads of a worker; 0: its share of the host's cores", {0, 1024}},
      {"sync", "Workers", &C::sync, "how workers stay in step: by all-reduce, through servers, through servers at a pace that adapts (asup), or on their own, with models averaged now and then, by all (local), with an outer optimizer (diloco), among neighbours (gossip), or by pairs without waiting (adpsgd)", {}, {"allreduce", "server", "asup", "local", "diloco", "adpsgd", "gossip"}},
      {"then", "Workers", &C::then, "another way, which the run changes to on its way; a setting that both ways have counts for both", {}, {"none", "allreduce", "server", "asup", "local", "diloco", "adpsgd", "gossip"}},
      {"at", "Workers", &C::at, "then: when that is: after so many steps, after such a share of the run, like 80%, or when the loss does not fall any more: stall", kCount},
      {"pace", "Workers", &C::pace, "sync server: who waits for whom: bsp all for all, ssp for those more than staleness steps behind, asp nobody, adaptive as it goes; auto: bsp, and adaptive for sync asup", {}, {"auto", "bsp", "ssp", "asp", "adaptive"}},
      {"staleness", "Workers", &C::staleness, "pace ssp: steps that the fastest worker may be ahead of the slowest; 0: 4", {0, 1e6}},
      {"backup", "Workers", &C::backup, "pace bsp: workers that a step does not wait for; it takes the first of the others", {0, 4095}},
      {"merge", "Workers", &C::merge, "sync server: workers train by themselves and exchange parameters: easgd draws them and the servers' elastically together, mean averages them; none: gradients of every step are exchanged", {}, {"none", "easgd", "mean"}, Scope::fixed},
      {"elasticity", "Workers", &C::elasticity, "merge easgd: by how much of the way to the workers' mean an exchange with all of them moves the servers' parameters; 0: 0.9", {0, 1}},
      {"compensation", "Workers", &C::compensation, "sync server: lambda of delay compensation (DC-ASGD) for late gradients; 0: none", {0, 1000}},
      {"stale-lr", "Workers", &C::stale_lr, "sync server: a gradient that is late by n steps counts for 1/n"},
      {"non-finite", "Workers", &C::non_finite, "sync server: gradients with infinities or NaN are left out and counted, end the job, or are applied", {}, {"skip", "fatal", "apply"}},
      {"freeze-pace", "Workers", &C::freeze_pace, "an adaptive pace keeps its first choice, for experiments"},
      {"local-parameters", "Workers", &C::local_parameters, "sync server: parameters that each worker trains for itself, a,b: names, or what they begin with and a dot", {}, {}, Scope::fixed},
      {"evaluate-with", "Workers", &C::evaluate_with, "sync server: whose statistics and local parameters a test takes: the average, rank 0's, each worker's own", {}, {"average", "first", "own"}},
      {"every", "Workers", &C::every, "where workers step on their own, and of merge: steps between two exchanges of models; auto: as the loss and the learning rate allow (local); usual: 8 for local, 100 for diloco, 4 for merge, 1 for gossip and adpsgd", {1, 1e9}, {"usual", "auto"}},
      {"local-after", "Workers", &C::local_after, "sync local: models are averaged after every step at first, for so many steps or such a share of the run, like 30%", kCountOrZero},
      {"merge-state", "Workers", &C::merge_state, "sync local: the optimizer's state is averaged with the models, kept by each worker, or reset", {}, {"average", "keep", "reset"}},
      {"graph", "Workers", &C::graph, "sync gossip: models are averaged with both neighbours on a ring, or with one worker 1, 2, 4, … places on, by turns (exponential); sync adpsgd: with one of both neighbours, of all (random), of those 1, 2, 4, … places away (exponential), or of the partners that edges give, 0-1,1-2,2-0"},
      {"outer-lr", "Workers", &C::outer_lr, "sync diloco: learning rate of the outer optimizer", {0, 10, true, false}},
      {"outer-momentum", "Workers", &C::outer_momentum, "sync diloco: Nesterov's momentum of the outer optimizer", {0, 1, false, true}},
      {"outer-overlap", "Workers", &C::outer_overlap, "sync diloco: an exchange takes place beside so many steps; 0: workers wait for it", {0, 1e9}},
      {"fragments", "Workers", &C::fragments, "sync diloco: the model is exchanged in so many parts, one after the other, evenly between two exchanges of one", {1, 65536}},
      {"exchange-dtype", "Workers", &C::exchange_dtype, "sync diloco: what differences of models travel as", {}, {"f32", "bf16"}},
      {"jitter-ms", "Workers", &C::jitter_ms, "sync local, diloco, gossip: an exchange is put off by up to so many milliseconds, at random, so that workers in gossip, or jobs that share links, do not all send at once", {0, 1e4}},
      {"round-seconds", "Workers", &C::round_seconds, "sync local, adpsgd: each worker trains at its own pace, and after so many seconds all models are merged; 0: no such rounds", {0, 1e6}},
      {"merge-deadline", "Workers", &C::merge_deadline, "of round-seconds: so many seconds those who have come to a merge wait for late workers, and so many it may take; who misses it joins the next one; 0: as long as it takes; usual: two rounds"},
      {"on-loss", "Workers", &C::on_loss, "when a worker is lost: end the run, or continue without it, with allreduce from the last checkpoint; auto: end with allreduce, also as one of two ways, continue else", {}, {"auto", "end", "continue"}},
      {"balance", "Workers", &C::balance, "sync allreduce: a worker's part of each batch is in proportion to its measured speed, so that nobody waits for a slow one"},
      {"buffers", "Workers", &C::buffers, "BatchNorm statistics: each worker's own, rank 0's, or the average", {}, {"local", "broadcast", "average"}, Scope::fixed},
      {"bucket-mb", "Workers", &C::bucket_mb, "gradients travel in buckets of about so many megabytes", {0, 4096, true, false}},
      {"algorithm", "Workers", &C::algorithm, "of the all-reduce; auto: the best for the links"},
      {"links", "Workers", &C::links, "auto: shared memory between workers of one host, TCP between hosts; mpi: under mpirun", {}, {"auto", "shm", "tcp", "mpi"}},
      {"interface", "Workers", &C::interface, "network interface or address that workers listen on; empty: the route to the coordinator"},
      {"timeout", "Workers", &C::timeout, "seconds after which a worker that does not answer ends the job", {0, 1e6, true, false}},
      {"conv-path", "Workers", &C::conv_path, "implementation of convolutions; auto: the fastest, measured at the start", {}, {"auto", "onednn", "native", "onednn-forward"}},

      {"out", "RunState folder", &C::out, "run folder; empty: runs/MODEL-DATA-TIME; an earlier run there is moved to OUT.previous", {}, {}, Scope::call},
      {"resume", "RunState folder", &C::resume, "continue the run in this folder from its last checkpoint", {}, {}, Scope::call},
      {"checkpoint-every", "RunState folder", &C::checkpoint_every, "so many steps, `epoch` or `never`", kCount},
      {"keep-checkpoints", "RunState folder", &C::keep_checkpoints, "how many of the last checkpoints stay", {1, 1e6}},
      {"log-every", "RunState folder", &C::log_every, "steps between two rows of metrics.jsonl", kCount},
      {"eval-every", "RunState folder", &C::eval_every, "test after so many steps, every `epoch`, or `never` before the end", kCount},
      {"progress", "RunState folder", &C::progress, "auto: a live display on a terminal, lines elsewhere", {}, {"auto", "plain", "none"}},
      // clang-format on
  };
  return rows;
}

}  // namespace

std::span<const Setting> settings() { return table(); }

}  // namespace asup::train
