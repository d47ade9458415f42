#include "asup/train/stall.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace asup::train {
namespace {

constexpr std::int64_t kSpans = 20;    // in a run
constexpr double kImprovement = 0.99;  // of the lowest so far

}  // namespace

void Stall::add(std::int64_t step, std::int64_t steps, double loss, std::int64_t samples) {
  loss_ += loss * static_cast<double>(samples);
  samples_ += samples;
  if (step - begin_ < std::max<std::int64_t>(1, steps / kSpans) || samples_ == 0) return;
  const double mean = loss_ / static_cast<double>(samples_);
  stalled_ = stalled_ || (lowest_ && !(mean < kImprovement * *lowest_));
  lowest_ = std::min(mean, lowest_.value_or(mean));
  begin_ = step;
  loss_ = 0;
  samples_ = 0;
}

nlohmann::ordered_json Stall::to_json() const {
  nlohmann::ordered_json json{
      {"begin", begin_}, {"loss", loss_}, {"samples", samples_}, {"stalled", stalled_}};
  if (lowest_) json["lowest"] = *lowest_;
  return json;
}

Stall Stall::from_json(const nlohmann::ordered_json& json) {
  Stall stall;
  json.at("begin").get_to(stall.begin_);
  json.at("loss").get_to(stall.loss_);
  json.at("samples").get_to(stall.samples_);
  json.at("stalled").get_to(stall.stalled_);
  if (json.contains("lowest")) stall.lowest_ = json.at("lowest").get<double>();
  return stall;
}

}  // namespace asup::train
