// The rows behind settings.h.
#include "asup/config/field_or.h"
#include "asup/distribute/ways.h"
#include "asup/parallel/schedule/schedule.h"
#include "asup/train/settings.h"

namespace asup::train {
namespace {

using C = TrainConfig;
using config::field;
using config::field_or;
using config::kAuto;
using config::kCount;
using config::kCountOrZero;
using config::kNone;
using config::kWhole;
using config::Scope;
using config::Setting;
using config::Value;

constexpr std::string_view kModel = "Model", kData = "Data", kImages = "Images", kLength = "Length",
                           kOptimizer = "Optimizer", kWorkers = "Workers", kServers = "Servers",
                           kLinks = "Links", kFolder = "Run folder", kPipeline = "Pipeline",
                           kTensor = "Tensor parallelism";
constexpr bool kCommon = true;  // in the short help

std::string text_of_then(const void* config) {
  const auto& then = static_cast<const C*>(config)->then;
  return then ? then->name() : kNone;
}

std::vector<std::string_view> names_of_schedules() {
  std::vector<std::string_view> names;
  for (const auto& schedule : parallel::pipeline_schedules()) names.push_back(schedule.name);
  return names;
}

const Way& way_from(const Value& value, const std::vector<std::string>& names,
                    std::string_view where) {
  const std::vector<std::string_view> choices(names.begin(), names.end());
  return *find_way(config::text_from(value, choices, where));
}

// The strategy's options are filled in when all that was said is known.
config::Field sync_field() {
  return {"WAY", [](const void* config) { return static_cast<const C*>(config)->strategy.name(); },
          [](const void* config) {
            return config::toml_text(static_cast<const C*>(config)->strategy.name());
          },
          [](const Setting&, void* config, const Value& value, std::string_view where) {
            static_cast<C*>(config)->strategy = Strategy(way_from(value, names_of_ways(), where));
          }};
}

config::Field then_field() {
  return {"WAY|none", text_of_then,
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
      {"model", field<&C::model>(), "what to train; `asup train --list` shows all", {}, {}, Scope::fixed, kModel, kCommon},
      {"width", field_or<&C::width, kAuto>(), "mlp, lstm: units of a layer, cnn: channels of the first layer, gpt: of the residual stream; auto: the model's usual", {1, 65536}, {}, Scope::fixed, kModel},
      {"depth", field_or<&C::depth, kAuto>(), "mlp: hidden layers, gpt: blocks, lstm: layers; auto: the model's usual", {1, 1000}, {}, Scope::fixed, kModel},
      {"heads", field_or<&C::heads, kAuto>(), "gpt: heads of attention, which divide width; auto: one for each 64 of it", {1, 1024}, {}, Scope::fixed, kModel},
      {"dropout", field<&C::dropout>(), "gpt, lstm: share of activations that training leaves out at random", {0, 1, false, true}, {}, Scope::fixed, kModel},
      {"stem", field<&C::stem>(), "how a ResNet begins: for ImageNet's sizes, or for small images", {}, {"auto", "imagenet", "small"}, Scope::fixed, kModel},
      {"init", field<&C::init>(), "begin with the weights of this run or safetensors file; a head for another number of classes begins fresh", {}, {}, Scope::run, kModel, kCommon},
      {"data", field<&C::data>(), "name of a data set, text:PATH, or a folder: images, MNIST, CIFAR-10", {}, {}, Scope::fixed, kData, kCommon},
      {"classes", field<&C::classes>(), "classes of a folder in MNIST format, whose files do not say", {1, 65536}, {}, Scope::fixed, kData},
      {"validation", field<&C::validation>(), "share of the training samples, chosen by the seed, that is set aside for the tests between; the test set is for the end alone", {0, 0.5}, {}, Scope::fixed, kData},
      {"sampler", field<&C::sampler>(), "order of the samples, anew each epoch: shuffled, or stratified, so that every batch has of each class about what the whole data set has", {}, {"shuffled", "stratified"}, Scope::fixed, kData},
      {"synthetic-samples", field<&C::synthetic_samples>(), "training images of `--data synthetic`", kCount, {}, Scope::fixed, kData},
      {"synthetic-test-samples", field<&C::synthetic_test_samples>(), "its test images", kCount, {}, Scope::fixed, kData},
      {"synthetic-shape", field<&C::synthetic_shape>(), "its images' channels x height x width", {}, {}, Scope::fixed, kData},
      {"synthetic-classes", field<&C::synthetic_classes>(), "its classes", {1, 65536}, {}, Scope::fixed, kData},
      {"synthetic-noise", field<&C::synthetic_noise>(), "standard deviation of its noise; its patterns' own is 1", {0, 1e6}, {}, Scope::fixed, kData},
      {"context", field<&C::context>(), "text: tokens of a sample, from which the model says the next ones", {2, 1 << 20}, {}, Scope::fixed, kData},
      {"tokenizer", field<&C::tokenizer>(), "text: bytes, a SentencePiece model's file, or sentencepiece:N to train one of N tokens", {}, {}, Scope::fixed, kData},
      {"text-test", field<&C::text_test>(), "text: the share at its end that is for tests; a folder with train.txt and test.txt has its own", {0, 1, true, true}, {}, Scope::fixed, kData},
      {"temperature", field<&C::temperature>(), "text: of what the trained model writes for the report; below 1, likelier tokens are favoured", {0, 100, true, false}, {}, Scope::run, kData},
      {"top-k", field<&C::top_k>(), "text: it chooses among so many of the likeliest tokens", kCount, {}, Scope::run, kData},

      {"image-size", field_or<&C::image_size, kAuto>(), "image files become squares of so many pixels; auto: as they are, where all are of one size", {8, 4096}, {}, Scope::fixed, kImages},
      {"normalise", field<&C::normalise>(), "mean and deviation that pixels are taken by; auto: the data set's, measured on some of its training images where nobody knows them", {}, {}, Scope::fixed, kImages},
      {"data-threads", field_or<&C::data_threads, kAuto>(), "threads of a worker that decode image files; auto: its share of the host's cores", {1, 1024}, {}, Scope::run, kImages},
      {"augment-crop", field<&C::augment_crop>(), "training images, from files, are random parts of at least this share of the picture's area; 0: the middle", {0, 1}, {}, Scope::fixed, kImages},
      {"augment-shift", field<&C::augment_shift>(), "training images are shifted at random by up to so many pixels", {0, 1024}, {}, Scope::fixed, kImages},
      {"augment-fill", field<&C::augment_fill>(), "what a shift brings in: the edge again, or black", {}, {"edge", "black"}, Scope::fixed, kImages},
      {"augment-flip", field<&C::augment_flip>(), "training images are mirrored half of the time", {}, {}, Scope::fixed, kImages},
      {"augment-jitter", field<&C::augment_jitter>(), "random changes of training images' brightness, contrast and saturation, by factors of 1 ± so much, and of their hue, in turns", {}, {}, Scope::fixed, kImages},
      {"augment-cutout", field<&C::augment_cutout>(), "a square of so many pixels is blanked out in each training image", {0, 4096}, {}, Scope::fixed, kImages},
      {"augment-mixup", field<&C::augment_mixup>(), "each training sample is mixed with another, by shares from Beta(X, X); 0: not", {0, 100}, {}, Scope::fixed, kImages},
      {"test-mirrored", field<&C::test_mirrored>(), "tests take the mean of the scores of an image and of its mirror image", {}, {}, Scope::fixed, kImages},

      {"batch", field<&C::batch>(), "global batch: samples of one step, on all workers together", kCount, {}, Scope::fixed, kLength, kCommon},
      {"epochs", field_or<&C::epochs, kAuto>(), "passes over the data; auto: as many as steps need, or else 5", kCount, {}, Scope::run, kLength, kCommon},
      {"steps", field_or<&C::steps, kAuto>(), "steps in all; auto: as many as epochs need", kCount, {}, Scope::run, kLength, kCommon},
      {"stop-at", field_or<&C::stop_at, config::kEnd>(), "stop after this step, with a checkpoint to resume from; end: of the run", kCount, {}, Scope::call, kLength},
      {"patience", field_or<&C::patience, kNone>(), "the run ends when so many tests between have not been better than the best one: of images by the accuracy, of text by the loss; none: never", kCount, {}, Scope::run, kLength},
      {"accumulate", field<&C::accumulate>(), "a worker's part of a batch is worked on in so many portions, to save memory", {1, 65536}, {}, Scope::fixed, kLength},
      {"batch-schedule", field<&C::batch_schedule>(), "batches that grow: 4@50%,4@75% has updates of four batches, as one, from half of the run on, and of sixteen from three quarters on, where a schedule would have the rate fall; for sync allreduce", {}, {}, Scope::run, kLength},
      {"remainder", field<&C::remainder>(), "samples at an epoch's end that fill no batch: a shorter last batch, leave them out, or fill it up", {}, {"keep", "drop", "pad"}, Scope::fixed, kLength},

      {"optimizer", field<&C::optimizer>(), "how gradients change weights", {}, {"sgd", "adam", "adamw", "rmsprop", "lars", "lamb", "asup"}, Scope::fixed, kOptimizer, kCommon},
      {"lr", field_or<&C::lr, kAuto>(), "learning rate; auto: 0.05 for sgd, 1 for lars, 0.01 for lamb, 0.0003 for asup, 0.001 for the others", {0, 1000, true, false}, {}, Scope::run, kOptimizer, kCommon},
      {"lr-scale", field<&C::lr_scale>(), "the learning rate is that of a batch of base-batch, and grows with the batch, or with its root", {}, {"none", "linear", "sqrt"}, Scope::run, kOptimizer},
      {"base-batch", field<&C::base_batch>(), "lr-scale linear and sqrt: the batch that lr is for", kCount, {}, Scope::run, kOptimizer},
      {"momentum", field<&C::momentum>(), "of sgd, rmsprop, lars and asup", {0, 1, false, true}, {}, Scope::run, kOptimizer},
      {"nesterov", field<&C::nesterov>(), "Nesterov's momentum, for sgd", {}, {}, Scope::run, kOptimizer},
      {"weight-decay", field<&C::weight_decay>(), "pull of every weight towards 0", {0, 10}, {}, Scope::run, kOptimizer},
      {"clip-norm", field_or<&C::clip_norm, config::kNone>(), "the gradients of a step are scaled down to this norm, of all of them together; of the average over workers, or of each worker's own where models are what they exchange; with compress dgc, and onebit with SGD's momentum, of each tensor by itself", {0, 1e9, true, false}, {}, Scope::run, kOptimizer},
      {"label-smoothing", field<&C::label_smoothing>(), "share of each training target that is spread evenly over all classes; tests have the plain loss", {0, 1, false, true}, {}, Scope::fixed, kOptimizer},
      {"ema", field<&C::ema>(), "tests and the trained model have the exponential moving average of the weights with this decay, like 0.999; 0: the weights themselves", {0, 1, false, true}, {}, Scope::fixed, kOptimizer},
      {"schedule", field<&C::schedule>(), "course of the learning rate", {}, {"constant", "cosine", "step", "power"}, Scope::run, kOptimizer, kCommon},
      {"warmup", field<&C::warmup>(), "steps in which the learning rate rises from near 0 at first", kCountOrZero, {}, Scope::run, kOptimizer, kCommon},
      {"decay-every", field_or<&C::decay_every, kAuto>(), "schedule step: epochs after which the rate is multiplied by decay-factor; auto: a third of the run", kCount, {}, Scope::run, kOptimizer},
      {"decay-factor", field<&C::decay_factor>(), "schedule step: the factor", {0, 1, true, false}, {}, Scope::run, kOptimizer},
      {"eta-min", field<&C::eta_min>(), "schedule power: the rate in epoch e, from 0, is lr * sqrt((e + 1) / eta-min) ^ -power", {0, 1e9, true, false}, {}, Scope::run, kOptimizer},
      {"power", field<&C::power>(), "schedule power: the exponent", {0, 100}, {}, Scope::run, kOptimizer},
      {"seed", field<&C::seed>(), "of first weights, order of samples, augmentation, dropout, partners", kWhole, {}, Scope::fixed, kOptimizer, kCommon},

      {"workers", field<&C::workers>(), "processes that train together", {1, 4096}, {}, Scope::run, kWorkers, kCommon},
      {"hosts", field<&C::hosts>(), "hosts to start them on over ssh, a,b,c; empty: this one", {}, {}, Scope::run, kWorkers, kCommon},
      {"threads", field_or<&C::threads, kAuto>(), "threads of a worker; auto: its share of the host's cores, beside a GPU 4 at most", {1, 1024}, {}, Scope::run, kWorkers},
      {"device", field<&C::device>(), "where a worker computes: cpu, cuda, cuda:N or auto; workers of a host share its GPUs, and auto is cuda where there is one", {}, {}, Scope::run, kWorkers, kCommon},
      {"tf32", field<&C::tf32>(), "GPUs multiply f32 with 10 bits of mantissa: faster, less exact", {}, {}, Scope::run, kWorkers},
      {"precision", field<&C::precision>(), "what forward and backward compute in; weights, their gradients and the optimizer stay in f32. auto: bf16 where it is faster, measured at the start", {}, {"fp32", "bf16", "fp16", "auto"}, Scope::fixed, kWorkers},
      {"loss-scale", field<&C::loss_scale>(), "precision fp16: what the loss is multiplied by at first; halved where gradients overflow, doubled after 2000 steps without", {1, 1e30}, {}, Scope::run, kWorkers},
      {"conv-path", field<&C::conv_path>(), "implementation of convolutions; auto: the fastest, measured at the start", {}, {"auto", "onednn", "native", "onednn-forward"}, Scope::run, kWorkers},
      {"memory-format", field<&C::memory_format>(), "how images and weights of convolutions lie in memory; auto: on CPUs the faster, measured with conv-path, where that is auto too, on GPUs channels-last with tf32 or 16 bits", {}, {"auto", "contiguous", "channels-last"}, Scope::fixed, kWorkers},
      {"offload", field<&C::offload>(), "what lies on a disk in place of memory: the optimizer's state, activations until their backward, or all of these; docs/sharding.md", {}, {"none", "optimizer", "activations", "all"}, Scope::run, kWorkers},
      {"offload-folder", field<&C::offload_folder>(), "each host's folder for it, on a disk; what lies there has no name, and goes with the worker", {}, {}, Scope::run, kWorkers},
      {"sync", sync_field(), "how workers stay in step; `asup train --help WAY` shows the settings of a way", {}, {}, Scope::run, kWorkers, kCommon},
      {"then", then_field(), "a second way, which the run changes to; a setting of both ways has one value for both", {}, {}, Scope::run, kWorkers},
      {"at", field<&C::at>(), "when the run changes to `then`: after a step, after a share of the run, like 80%, or when the loss stops falling: stall", {}, {}, Scope::run, kWorkers},
      {"on-loss", field<&C::on_loss>(), "when a worker is lost; end: the run ends; continue: the others go on without it; auto: continue where the way does so by itself", {}, {"auto", "end", "continue"}, Scope::run, kWorkers, kCommon},
      {"restarts", field<&C::restarts>(), "how often a run that fails is started again from its last checkpoint", kCountOrZero, {}, Scope::call, kWorkers},
      {"balance", field<&C::balance>(), "a worker's part of each batch is in proportion to its measured speed, so that nobody waits for a slow one; for ways that exchange gradients in lockstep", {}, {}, Scope::run, kWorkers},
      {"sync-bn", field<&C::sync_bn>(), "BatchNorm takes its statistics from the samples of all workers together; for ways that exchange gradients in lockstep", {}, {}, Scope::run, kWorkers},

      {"pipeline", field<&C::pipeline>(), "workers that one model's layers are spread over: batches go through them in micro-batches; workers / pipeline such groups share batches, in step (sync allreduce) or, through servers, each at its own pace (sync server, asup); docs/model_parallel.md", {1, 4096}, {}, Scope::run, kPipeline},
      {"pipeline-schedule", field<&C::pipeline_schedule>(), "which micro-batch a worker computes when: `asup plan pipeline` draws it", {}, names_of_schedules(), Scope::run, kPipeline},
      {"pipeline-chunks", field_or<&C::pipeline_chunks, kAuto>(), "pipeline-schedule interleaved: stages of each worker; auto: two", {1, 64}, {}, Scope::run, kPipeline},
      {"pipeline-cut", field<&C::pipeline_cut>(), "layers of each stage, like 4,5,3; even: as many for each; auto: so that stages take as long as each other, measured at the start", {}, {}, Scope::run, kPipeline},
      {"microbatches", field_or<&C::microbatches, kAuto>(), "that a group's part of a batch is cut into; auto: as many as divide it, up to four for each worker of the group", {1, 65536}, {}, Scope::run, kPipeline},
      {"recompute", field<&C::recompute>(), "activations are computed again before backward instead of kept: less memory, about a third more computation", {}, {}, Scope::run, kPipeline},
      {"worker-memory", field<&C::worker_memory>(), "pipeline-cut auto: what each worker has for weights, gradients, the optimizer's state and activations, like 4G; stages are cut so that they fit; none: no limit", {}, {}, Scope::run, kPipeline},
      {"rebalance", field<&C::rebalance>(), "pipeline-cut auto: at checkpoints, stages are cut again where workers have become slower or faster, twice in a row, and the slowest stage would be a tenth faster", {}, {}, Scope::run, kPipeline},

      {"tensor", field<&C::tensor>(), "workers that compute one model together, each with a part of every large layer, on the same samples; workers / tensor such groups share batches; for mlp and gpt; docs/tensor_parallel.md", {1, 4096}, {}, Scope::run, kTensor},

      {"servers", field_or<&C::servers, kAuto>(), "processes beside the workers that keep the parameters; auto: one for ways with servers", {0, 4096}, {}, Scope::run, kServers, kCommon},

      {"algorithm", field<&C::algorithm>(), "of collectives; auto: the best for the links", {}, {}, Scope::run, kLinks},
      {"links", field<&C::links>(), "auto: shared memory between workers of one host, TCP between hosts; mpi: under mpirun", {}, {"auto", "shm", "tcp", "mpi"}, Scope::run, kLinks},
      {"tls", field<&C::tls>(), "encrypt what workers and servers send each other: auto: what leaves a host; links over MPI cannot be", {}, {"auto", "on", "off"}, Scope::run, kLinks},
      {"interface", field<&C::interface>(), "network interface or address that workers listen on; empty: the route to the coordinator", {}, {}, Scope::run, kLinks},
      {"timeout", field<&C::timeout>(), "seconds after which a worker that does not answer ends the job", {0, 1e6, true, false}, {}, Scope::run, kLinks},

      {"out", field<&C::out>(), "run folder; empty: runs/MODEL-DATA-TIME; an earlier run there is moved to OUT.previous-N", {}, {}, Scope::call, kFolder, kCommon},
      {"resume", field<&C::resume>(), "continue the run in this folder from its last checkpoint", {}, {}, Scope::call, kFolder, kCommon},
      {"checkpoint-every", field<&C::checkpoint_every>(), "steps between two checkpoints", {}, {}, Scope::run, kFolder, kCommon},
      {"keep-checkpoints", field<&C::keep_checkpoints>(), "how many of the last checkpoints stay", {1, 1e6}, {}, Scope::run, kFolder},
      {"keep-best", field<&C::keep_best>(), "a checkpoint is made and stays where the best test between was, too: checkpoints/best", {}, {}, Scope::run, kFolder},
      {"log-every", field<&C::log_every>(), "steps between two rows of metrics.jsonl", kCount, {}, Scope::run, kFolder},
      {"eval-every", field<&C::eval_every>(), "steps between two tests; never: at the end alone", {}, {}, Scope::run, kFolder, kCommon},
      {"progress", field<&C::progress>(), "auto: a live display on a terminal, lines elsewhere", {}, {"auto", "plain", "none"}, Scope::run, kFolder},
      {"tensorboard", field<&C::tensorboard>(), "curves and pictures of the run for TensorBoard, in the run folder", {}, {}, Scope::run, kFolder},
      {"live", field<&C::live>(), "serve a page to watch the run in a browser, on this host alone; or at ADDRESS:PORT", {}, {}, Scope::call, kFolder, kCommon},
      {"timeline", field<&C::timeline>(), "record what each worker does and when: timeline.json.gz, and a picture of a step in the report; torch: with torch's operators", {}, {}, Scope::call, kFolder},
      {"timeline-steps", field<&C::timeline_steps>(), "the steps that it records", {}, {}, Scope::call, kFolder},
      // clang-format on
  };
  return rows;
}

}  // namespace

std::span<const Setting> settings() { return table(); }

}  // namespace asup::train
