// What a run chose by measurement or from its surroundings, and must choose again to repeat its
// bits: kept in the run folder, in checkpoints and, for later runs of the same job, in a small
// cache. Values and whole files; used from one thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "asup/base/files.h"
#include "asup/train/config.h"

namespace asup::train {

struct TunedChoices {
  std::string convolution_path;
  std::int64_t threads = 0;           // of a worker
  std::string observed;               // Replica::observed()
  std::vector<std::int64_t> parts{};  // of a batch, by worker, where it is balanced; empty: even
  std::string rates;                  // that algorithms are chosen by, as text; empty: by rule
};

nlohmann::ordered_json to_json(const TunedChoices& choices);
// Throws nlohmann's exceptions for JSON of another form.
TunedChoices choices_from(const nlohmann::ordered_json& json);

// Remembered convolution paths. Where the cache cannot be read or written, nothing is remembered.
class ConvolutionCache {
 public:
  static ConvolutionCache of_user() { return ConvolutionCache(user_cache_folder()); }

  explicit ConvolutionCache(std::string folder) : folder_(std::move(folder)) {}

  std::optional<std::string> find(const std::string& key) const;
  void remember(const std::string& key, const std::string& path) const;

 private:
  nlohmann::ordered_json read() const;
  std::string file() const { return folder_ + "/convolution-paths.json"; }

  std::string folder_;  // empty: none
};

// All that the fastest path depends on: processor, hosts, torch, model, images, samples and threads
// of a worker.
std::string convolution_key(const TrainConfig& config, const std::string& hosts,
                            const std::string& torch_version, const std::string& input_shape,
                            std::int64_t threads);

}  // namespace asup::train
