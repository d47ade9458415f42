// Sees when the loss does not fall any more. A value; used from one thread.
//
// The loss is averaged over spans of a twentieth of the run each. It has stalled when a span's mean
// is not at least one percent below the lowest mean of the spans before.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

namespace asup::train {

class Stall {
 public:
  // The mean loss over `samples` samples, in steps up to `step`, of a run of `steps` steps.
  void add(std::int64_t step, std::int64_t steps, double loss, std::int64_t samples);
  // Whether it has, at any time. The same on all ranks, where the losses are.
  bool stalled() const { return stalled_; }

  // For checkpoints. from_json() throws nlohmann's exceptions for JSON of another form.
  nlohmann::ordered_json to_json() const;
  static Stall from_json(const nlohmann::ordered_json& json);

 private:
  std::int64_t begin_ = 0;  // of the span: steps
  double loss_ = 0;         // in it, summed over samples
  std::int64_t samples_ = 0;
  std::optional<double> lowest_;  // mean of a span before
  bool stalled_ = false;
};

}  // namespace asup::train
