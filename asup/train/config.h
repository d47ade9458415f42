// Everything that can be said about a training run. Values only; safe from any thread.
//
// settings.h describes each member once: as a flag of `asup train`, as a TOML key, and with its
// range. What a 0 or an empty text stands for is said there too, and resolved by resolve().
#pragma once

#include <cstdint>
#include <string>

namespace asup::train {

// How often something is done.
struct Every {
  enum class Kind : std::uint8_t { never, epoch, steps };
  Kind kind = Kind::epoch;
  std::int64_t steps = 0;  // for Kind::steps

  bool operator==(const Every&) const = default;
};

struct TrainConfig {
  // What is trained, on what.
  std::string model = "cnn";
  std::int64_t width = 0;
  std::int64_t depth = 0;
  std::string stem = "auto";
  std::string data = "fashion-mnist";
  std::int64_t classes = 10;
  std::int64_t augment_shift = 0;
  bool augment_flip = false;
  std::int64_t synthetic_samples = 8192;
  std::int64_t synthetic_test_samples = 1024;
  std::string synthetic_shape = "1x28x28";
  std::int64_t synthetic_classes = 10;
  double synthetic_noise = 1.0;

  // How long, and in what portions.
  std::int64_t batch = 128;
  std::int64_t epochs = 0;
  std::int64_t steps = 0;
  std::int64_t stop_at = 0;
  std::int64_t accumulate = 1;
  std::string remainder = "keep";

  // How weights change.
  std::string optimizer = "sgd";
  double lr = 0;
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0;
  std::string schedule = "constant";
  std::int64_t warmup = 0;
  std::int64_t decay_every = 0;
  double decay_factor = 0.1;
  double eta_min = 1;
  double power = 1;
  std::int64_t seed = 0;

  // Who works on it, and how they stay in step.
  std::int64_t workers = 2;
  std::int64_t servers = 0;
  std::string hosts;
  std::int64_t threads = 0;
  std::string sync = "allreduce";
  std::string then = "none";
  std::string at = "80%";
  std::string pace = "auto";
  std::int64_t staleness = 0;
  std::int64_t backup = 0;
  std::string merge = "none";
  double elasticity = 0;
  double compensation = 0;
  bool stale_lr = false;
  std::string non_finite = "skip";
  bool freeze_pace = false;
  std::string local_parameters;
  std::string evaluate_with = "average";
  std::string every = "usual";
  std::string local_after = "0";
  std::string merge_state = "average";
  std::string graph = "ring";
  double outer_lr = 0.7;
  double outer_momentum = 0.9;
  std::int64_t outer_overlap = 0;
  std::int64_t fragments = 1;
  std::string exchange_dtype = "f32";
  double jitter_ms = 0;
  double round_seconds = 0;
  std::string merge_deadline = "usual";
  std::string on_loss = "auto";
  bool balance = false;
  std::string buffers = "local";
  double bucket_mb = 25;
  std::string algorithm = "auto";
  std::string links = "auto";
  std::string interface;
  double timeout = 300;
  std::string conv_path = "auto";

  // What is left behind.
  std::string out;
  std::string resume;
  Every checkpoint_every{Every::Kind::epoch};
  std::int64_t keep_checkpoints = 2;
  std::int64_t log_every = 10;
  Every eval_every{Every::Kind::epoch};
  std::string progress = "auto";
};

}  // namespace asup::train
