#include "asup/train/state/inputs.h"

#include <fmt/ranges.h>

#include <set>
#include <utility>

#include "asup/base/error.h"
#include "asup/checkpoint/reader.h"
#include "asup/checkpoint/trained.h"
#include "asup/data/mixup.h"
#include "asup/data/subset.h"
#include "asup/data/text/text_dataset.h"
#include "asup/data/text/tokenizer.h"
#include "asup/models/gpt.h"
#include "asup/train/batch_schedule.h"
#include "asup/train/checkpoint_info.h"
#include "asup/train/device.h"
#include "asup/train/offload.h"
#include "asup/train/pipeline_settings.h"
#include "asup/train/resolve.h"
#include "asup/train/schedule.h"
#include "asup/train/state/check_inputs.h"
#include "asup/train/state/make_optimizer.h"
#include "asup/train/weights.h"

namespace asup::train {
namespace {

data::DatasetOptions data_options(const TrainConfig& config) {
  data::DatasetOptions options;
  options.seed = static_cast<std::uint64_t>(config.seed);
  options.classes = static_cast<int>(config.classes);
  options.augment.shift = static_cast<int>(config.augment_shift);
  options.augment.black = config.augment_fill == "black";
  options.augment.flip = config.augment_flip;
  options.augment.crop = config.augment_crop;
  const auto& most = config.augment_jitter.most;
  options.augment.jitter = {most[0], most[1], most[2], most[3]};
  options.augment.cutout = static_cast<int>(config.augment_cutout);
  options.augment.mixup = config.augment_mixup;
  options.image_size = static_cast<int>(config.image_size.value_or(0));
  options.threads = static_cast<int>(config.data_threads.value_or(0));
  if (const auto& by = config.normalise; !by.mean.empty())
    options.normalisation = data::Normalisation{by.mean, by.deviation};
  options.synthetic.train_size = config.synthetic_samples;
  options.synthetic.test_size = config.synthetic_test_samples;
  options.synthetic.shape = parse_shape(config.synthetic_shape);
  options.synthetic.classes = static_cast<int>(config.synthetic_classes);
  options.synthetic.noise = config.synthetic_noise;
  options.text.context = config.context;
  options.text.test_share = config.text_test;
  return options;
}

models::Stem stem_of(const std::string& name) {
  if (name == "imagenet") return models::Stem::imagenet;
  return name == "small" ? models::Stem::small : models::Stem::automatic;
}

models::ModelOptions model_options(const TrainConfig& config, const data::Dataset& dataset) {
  models::ModelOptions options;
  options.input_shape = dataset.input_shape();
  options.classes = dataset.classes();
  options.width = config.width.value_or(options.width);
  options.depth = config.depth.value_or(options.depth);
  options.stem = stem_of(config.stem);
  options.text = dataset.text() != nullptr;
  options.heads = config.heads.value_or(options.heads);
  options.dropout = config.dropout;
  return options;
}

// Names of the tensors whose shape depends on the number of classes.
std::set<std::string> head_of(const models::Model& model, const TrainConfig& config,
                              const data::Dataset& dataset) {
  models::ModelOptions options = model_options(config, dataset);
  ++options.classes;
  const auto others = models::make_model(config.model, options)->named_parameters();
  std::set<std::string> head;
  for (const auto& parameter : model.named_parameters()) {
    const torch::Tensor* other = others.find(parameter.key());
    if (other != nullptr && other->sizes() != parameter.value().sizes())
      head.insert(parameter.key());
  }
  return head;
}

// As many as auto stands for, too.
std::int64_t heads_of(const TrainConfig& config) {
  const std::int64_t said = config.heads.value_or(0);
  return config.model == "gpt"
             ? models::heads_of_gpt({.width = config.width.value_or(0), .heads = said})
             : said;
}

// Tokens and heads are not seen in the tensors' shapes.
void check_same_tokens(const Weights& weights, const TrainConfig& config, const data::Text& text) {
  require(tokenizer_of(weights.metadata, weights.path) == text.tokenizer->model(),
          "{}: was trained with another tokenizer than {}, whose tokens mean something else. Give "
          "the one that it was trained with: the run's tokenizer.model, or {}.",
          weights.path, config.tokenizer, data::kBytes);
  const auto theirs = config_of(weights);
  if (!theirs) return;
  require(heads_of(*theirs) == heads_of(config),
          "{}: has heads = {}, and this run {}. Use the same.", weights.path, heads_of(*theirs),
          heads_of(config));
}

// The checkpoint to resume from: the newest whole one of a run.
struct Resumed {
  explicit Resumed(const std::string& run)
      : folder(newest_whole_checkpoint(run).path),
        info(info_from(folder.index().run, folder.path())) {}
  checkpoint::Folder folder;
  CheckpointInfo info;
};

// As far as it is known before the run: what rank 0 is to train stands aside for bytes.
std::string tokenizer_known_before(const TrainConfig& config,
                                   const std::optional<Resumed>& resumed) {
  if (!data::is_text(config.data)) return "";
  if (resumed) return tokenizer_of(resumed->info.model, resumed->folder.path());
  return data::vocabulary_to_train(config.tokenizer) > 0 ? "" : tokenizer_model(config);
}

data::TwoParts parts_of(const data::Dataset& dataset, const TrainConfig& config) {
  require(dataset.size() > 1,
          "validation = {} cannot be set aside: {} has one training sample. Leave it out.",
          config.validation, config.data);
  require(dataset.text() == nullptr, "validation has no effect on text. Leave it out.");
  return data::set_aside(dataset.size(), config.validation,
                         static_cast<std::uint64_t>(config.seed));
}

// Those that are not set aside. A sample is mixed with another of these alone.
std::unique_ptr<data::Dataset> open_kept(const TrainConfig& config, data::DatasetOptions options) {
  const double mixup = std::exchange(options.augment.mixup, 0);
  auto dataset = data::open_dataset(config.data, data::Split::train, options);
  if (dataset->size() == 0) return dataset;
  data::TwoParts parts = parts_of(*dataset, config);
  dataset = data::make_subset(std::move(dataset), std::move(parts.kept));
  return mixup > 0 ? data::make_mixed(std::move(dataset), mixup, options.seed) : std::move(dataset);
}

data::Remainder remainder_of(const std::string& name) {
  if (name == "drop") return data::Remainder::drop;
  return name == "pad" ? data::Remainder::pad : data::Remainder::keep;
}

}  // namespace

std::unique_ptr<data::Dataset> open_data(const TrainConfig& config, data::Split split,
                                         const std::optional<data::Normalisation>& normalisation,
                                         const std::string& tokenizer) {
  data::DatasetOptions options = data_options(config);
  if (normalisation) options.normalisation = normalisation;
  options.text.tokenizer_model = tokenizer;
  const bool divides = split == data::Split::train && config.validation > 0;
  auto dataset =
      divides ? open_kept(config, options) : data::open_dataset(config.data, split, options);
  require(dataset->size() > 0, "data: {} has no {} samples", config.data,
          split == data::Split::train ? "training" : "test");
  require(!config.test_mirrored || dataset->input_shape().size() == 3,
          "test-mirrored: samples of {} are no images, which could be mirrored. Leave it out.",
          config.data);
  return dataset;
}

std::unique_ptr<data::Dataset> open_validation(
    const TrainConfig& config, const std::optional<data::Normalisation>& normalisation) {
  if (config.validation == 0) return nullptr;
  data::DatasetOptions options = data_options(config);
  if (normalisation) options.normalisation = normalisation;
  options.augment = {};
  auto dataset = data::open_dataset(config.data, data::Split::train, options);
  data::TwoParts parts = parts_of(*dataset, config);
  return data::make_subset(std::move(dataset), std::move(parts.set_aside));
}

std::string tokenizer_model(const TrainConfig& config) {
  if (!data::is_text(config.data)) return "";
  return data::tokenizer_model_for(config.data, config.tokenizer, config.text_test);
}

std::shared_ptr<models::Model> make_model(const TrainConfig& config, const data::Dataset& dataset,
                                          const models::MakeNorm& make_norm,
                                          const parallel::TensorGroup* tensor) {
  models::ModelOptions options = model_options(config, dataset);
  options.tensor = tensor;
  return models::make_model(config.model, options, make_norm);
}

std::string begin_with_weights(models::Model& model, const TrainConfig& config,
                               const data::Dataset& dataset) {
  const Weights weights = read_weights(config.init);
  if (const data::Text* text = dataset.text()) check_same_tokens(weights, config, *text);
  const auto classes = weights.metadata.find("classes");
  const bool same_head =
      classes != weights.metadata.end() && classes->second == fmt::format("{}", dataset.classes());
  const auto head = same_head ? std::set<std::string>() : head_of(model, config, dataset);
  const auto fresh = load_weights(model, weights, config, head);
  const std::string from = fmt::format("begins with the weights of {}", weights.path);
  if (fresh.empty()) return from;
  return fmt::format("{}; for {} classes, {} begin fresh", from, dataset.classes(),
                     fmt::join(fresh, " and "));
}

namespace {

// What `--sampler stratified` goes by.
std::vector<std::int64_t> labels_for(const TrainConfig& config, const data::Dataset& dataset) {
  if (config.sampler != "stratified") return {};
  require(!dataset.text(),
          "sampler = stratified spreads classes over batches, and samples of text have none: leave "
          "it out");
  std::vector<std::int64_t> labels = dataset.labels();
  require(!labels.empty(),
          "sampler = stratified must know the class of each sample, and {} does not tell: have it "
          "override labels(), or leave sampler out",
          dataset.name());
  return labels;
}

}  // namespace

std::unique_ptr<data::ShardedBatches> make_batches(const TrainConfig& config,
                                                   const data::Dataset& dataset, int group) {
  return std::make_unique<data::ShardedBatches>(
      dataset.size(), static_cast<std::uint64_t>(config.seed), group,
      static_cast<int>(groups_of(config)), static_cast<std::size_t>(config.batch),
      remainder_of(config.remainder), /*shuffle=*/true, labels_for(config, dataset));
}

void check_inputs(const TrainConfig& config) {
  if (config.hosts.empty()) {
    check_device(config.device);
    (void)Offload(config);  // throws where its folder is none to lie in
  }
  torch::set_num_threads(1);  // this process only looks; what follows may need it without threads
  std::optional<Resumed> resumed;
  if (!config.resume.empty()) resumed.emplace(config.resume);
  const std::string tokenizer = tokenizer_known_before(config, resumed);
  const auto dataset = open_data(config, data::Split::train, {}, tokenizer);
  open_data(config, data::Split::test, {}, tokenizer);
  const auto model = make_model(config, *dataset);
  if (has_pipeline(config)) check_pipeline_of(config, *model);
  if (has_tensor(config))
    models::require_parts(config.model, model_options(config, *dataset),
                          static_cast<int>(config.tensor));
  config.strategy.check_model(*model, *make_optimizer(config, *model));
  const auto batches = make_batches(config, *dataset, 0);
  const auto length = run_length(config, static_cast<std::int64_t>(batches->steps_per_epoch()));
  require(
      config.warmup <= length.steps,
      "warmup = {} is longer than the run, which has {} steps: the learning rate would never be "
      "lr. Lower warmup, or raise steps or epochs.",
      config.warmup, length.steps);
  (void)Updates(config, length);  // throws where batches are to grow outside of the run
  if (!config.init.empty() && !resumed) begin_with_weights(*model, config, *dataset);
  if (!resumed) return;
  check_can_resume(resumed->info, config, length.steps);
  checkpoint::check_is_of(resumed->folder.index(), *model);
}

std::string list_inputs() {
  std::string out = "models:\n";
  for (const auto& model : models::models()) {
    out += fmt::format("  {:<16}{}\n", model.name, model.description);
  }
  out += "data sets:\n";
  for (const auto& dataset : data::datasets()) {
    out += fmt::format("  {:<16}{}\n", dataset.name, dataset.description);
  }
  return out +
         "  FOLDER          in MNIST format, or CIFAR-10's binary one\n"
         "  imagefolder:DIR pictures in DIR/train/CLASS/ and DIR/val/CLASS/ (docs/images.md)\n"
         "  shards:DIR      tar archives of pictures, DIR/train-000000.tar and so on\n"
         "  text:PATH       UTF-8 text, for gpt and lstm: a file, or a folder of .txt files\n"
         "models and data sets of your own (docs/your_own_model.md):\n"
         "  LIBRARY.so      for --model, --data or both\n";
}

}  // namespace asup::train
