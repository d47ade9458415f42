// Everything that can be said about a training run. Values only; safe from any thread.
//
// settings.h describes each member once: as a flag of `asup train`, as a TOML key, and with its
// range; the settings of a strategy are in the file of its way. What no value, or an empty text,
// stands for is said there too, and resolved by resolve().
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "asup/base/timeline.h"
#include "asup/config/memory_size.h"
#include "asup/distribute/strategy.h"
#include "asup/train/image_settings.h"

namespace asup::train {

// How often something is done.
struct Every {
  enum class Kind : std::uint8_t { never, epoch, steps };
  Kind kind = Kind::epoch;
  std::int64_t steps = 0;  // for Kind::steps

  static constexpr std::string_view kForm = "N|epoch|never";
  static constexpr std::string_view kWanted =
      "'epoch', 'never' or a number of steps (allowed: 1 … 1000000000)";
  static std::optional<Every> from_text(std::string_view text);
  std::string to_text() const;
  bool operator==(const Every&) const = default;
};

// Where a page to watch the run is served.
struct LivePage {
  bool on = false;
  std::string host = "127.0.0.1";  // an address of this host
  std::uint16_t port = 0;          // 0: any that is free

  static constexpr std::string_view kForm = "[PORT]";  // in brackets: it may be left out
  static constexpr std::string_view kWanted =
      "a port (1 … 65535), an address and a port like 0.0.0.0:8080, 'on' or 'off'";
  static std::optional<LivePage> from_text(std::string_view text);
  std::string to_text() const;
  bool operator==(const LivePage&) const = default;
};

// What a run's timeline records.
struct TimelineSetting {
  bool on = false;
  bool operators = false;  // torch's too

  static constexpr std::string_view kForm = "[torch]";
  static constexpr std::string_view kWanted = "'on', 'off', or 'torch' for torch's operators too";
  static std::optional<TimelineSetting> from_text(std::string_view text);
  std::string to_text() const;
  bool operator==(const TimelineSetting&) const = default;
};

// Which steps it records.
struct TimelineSteps {
  StepRange range{};

  static constexpr std::string_view kForm = "A-B|all";
  static constexpr std::string_view kWanted =
      "'all', or the first step and the last, like 100-120 (counted from 1)";
  static std::optional<TimelineSteps> from_text(std::string_view text);
  std::string to_text() const;
  bool operator==(const TimelineSteps&) const = default;
};

struct TrainConfig {
  // What is trained, on what.
  std::string model = "cnn";
  std::optional<std::int64_t> width{};  // no value, here and below: auto
  std::optional<std::int64_t> depth{};
  std::string stem = "auto";
  std::string init;
  std::string data = "fashion-mnist";
  std::int64_t classes = 10;
  std::optional<std::int64_t> image_size{};
  PixelNormalisation normalise{};
  std::optional<std::int64_t> data_threads{};
  std::int64_t augment_shift = 0;
  std::string augment_fill = "edge";
  bool augment_flip = false;
  double augment_crop = 0;
  ColourJitter augment_jitter{};
  std::int64_t augment_cutout = 0;
  double augment_mixup = 0;
  bool test_mirrored = false;
  double validation = 0;
  std::string sampler = "shuffled";
  std::int64_t synthetic_samples = 8192;
  std::int64_t synthetic_test_samples = 1024;
  std::string synthetic_shape = "1x28x28";
  std::int64_t synthetic_classes = 10;
  double synthetic_noise = 1.0;
  // Of text.
  std::optional<std::int64_t> heads{};
  double dropout = 0;
  std::int64_t context = 128;
  double text_test = 0.1;
  std::string tokenizer = "bytes";
  double temperature = 0.8;
  std::int64_t top_k = 40;

  // How long, and in what portions.
  std::int64_t batch = 128;
  std::optional<std::int64_t> epochs{};
  std::optional<std::int64_t> steps{};
  std::optional<std::int64_t> stop_at{};   // no value: at the end
  std::optional<std::int64_t> patience{};  // no value: none
  std::int64_t accumulate = 1;
  std::string batch_schedule = "none";
  std::string remainder = "keep";

  // How weights change.
  std::string optimizer = "sgd";
  std::optional<double> lr{};
  std::string lr_scale = "none";
  std::int64_t base_batch = 128;
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0;
  std::optional<double> clip_norm{};
  double label_smoothing = 0;
  double ema = 0;
  std::string schedule = "constant";
  std::int64_t warmup = 0;
  std::optional<std::int64_t> decay_every{};
  double decay_factor = 0.1;
  double eta_min = 1;
  double power = 1;
  std::int64_t seed = 0;

  // Who works on it, and how they stay in step.
  std::int64_t workers = 2;
  std::optional<std::int64_t> servers{};
  std::string hosts;
  std::optional<std::int64_t> threads{};
  std::string device = "auto";
  bool tf32 = false;
  std::string precision = "fp32";
  double loss_scale = 65536;
  Strategy strategy{};             // that the run begins with
  std::optional<Strategy> then{};  // that it changes to
  std::string at = "80%";          // when: a step, a share of the run, or stall
  std::string on_loss = "auto";
  std::int64_t restarts = 0;
  bool balance = false;
  bool sync_bn = false;
  // Of a model that is spread over workers: by parts of its layers, and by layers.
  std::int64_t tensor = 1;    // workers that compute one together
  std::int64_t pipeline = 1;  // workers that one is spread over
  std::string pipeline_schedule = "1f1b";
  std::optional<std::int64_t> pipeline_chunks{};
  std::optional<std::int64_t> microbatches{};
  std::string pipeline_cut = "auto";
  bool recompute = false;
  MemorySize worker_memory{};
  bool rebalance = false;
  std::string algorithm = "auto";
  std::string links = "auto";
  std::string tls = "auto";
  std::string interface;
  double timeout = 300;
  std::string conv_path = "auto";
  std::string memory_format = "auto";
  std::string offload = "none";
  std::string offload_folder = "/var/tmp";

  // What is left behind.
  std::string out;
  std::string resume;
  Every checkpoint_every{Every::Kind::epoch};
  std::int64_t keep_checkpoints = 2;
  bool keep_best = false;
  std::int64_t log_every = 10;
  Every eval_every{Every::Kind::epoch};
  std::string progress = "auto";
  bool tensorboard = true;
  LivePage live{};
  TimelineSetting timeline{};
  TimelineSteps timeline_steps{};
};

}  // namespace asup::train
