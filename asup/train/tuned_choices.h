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
#include "asup/parallel/cut/stage_cut.h"
#include "asup/train/config.h"

namespace asup::train {

struct TunedChoices {
  std::string compute_path;           // by its name (models/compute_path.h)
  std::int64_t threads = 0;           // of a worker
  std::string observed;               // Replica::observed()
  std::vector<std::int64_t> parts{};  // of a batch, by worker, where it is balanced; empty: even
  std::string rates;                  // that algorithms are chosen by, as text; empty: by rule
  std::vector<int> stages{};          // layers of each, where they were measured; else empty
  std::optional<parallel::CutProblem> layers{};  // what was measured of them
};

nlohmann::ordered_json to_json(const TunedChoices& choices);
// Throws nlohmann's exceptions for JSON of another form.
TunedChoices choices_from(const nlohmann::ordered_json& json);

struct RememberedPath {
  std::string path;  // by its name
  std::string note;  // what was measured, for people
};

// Paths by which models were computed fastest. Where the cache cannot be read or written, nothing
// is remembered.
class ComputePathCache {
 public:
  static ComputePathCache of_user() { return ComputePathCache(user_cache_folder()); }

  explicit ComputePathCache(std::string folder) : folder_(std::move(folder)) {}

  std::optional<RememberedPath> find(const std::string& key) const;
  void remember(const std::string& key, const RememberedPath& path) const;

 private:
  nlohmann::ordered_json read() const;
  std::string file() const { return folder_ + "/compute-paths.json"; }

  std::string folder_;  // empty: none
};

// All that the fastest path depends on: processor, hosts, device, torch, model, images, samples and
// threads of a worker, and what was said of the path.
std::string compute_path_key(const TrainConfig& config, const std::string& hosts,
                             const std::string& device, const std::string& torch_version,
                             const std::string& input_shape, std::int64_t threads);

}  // namespace asup::train
