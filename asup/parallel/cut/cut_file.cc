#include "asup/parallel/cut/cut_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/base/json.h"
#include "asup/base/suggest.h"

namespace asup::parallel {
namespace {

using Json = nlohmann::json;

// An object whose keys are known; each value is taken out by its type.
class Object {
 public:
  Object(const Json& json, std::string where, std::initializer_list<std::string> keys)
      : json_(json), where_(std::move(where)) {
    require(json.is_object(), "{} should be an object", where_);
    const std::vector<std::string> known = keys;
    for (const auto& [key, value] : json.items())
      require(std::find(known.begin(), known.end(), key) != known.end(),
              "{} has a key '{}'{}; there are: {}", where_, key, did_you_mean(key, known),
              fmt::join(known, ", "));
  }

  double number(const char* key, double otherwise) const {
    const auto found = json_.find(key);
    if (found == json_.end()) return otherwise;
    require(found->is_number(), "{}: {} should be a number", where_, key);
    return found->get<double>();
  }

  bool truth(const char* key, bool otherwise) const {
    const auto found = json_.find(key);
    if (found == json_.end()) return otherwise;
    require(found->is_boolean(), "{}: {} should be true or false", where_, key);
    return found->get<bool>();
  }

  // Calls take(object, "path: layers 3") for each of the list under `key`.
  template <typename Take>
  void each(const char* key, Take take) const {
    const auto found = json_.find(key);
    if (found == json_.end()) return;
    require(found->is_array(), "{}: {} should be a list", where_, key);
    for (std::size_t i = 0; i < found->size(); ++i)
      take((*found)[i], fmt::format("{}: {} {}", where_, key, i));
  }

  const std::string& where() const { return where_; }

 private:
  const Json& json_;
  const std::string where_;
};

LayerCost layer_of(const Json& json, const std::string& where) {
  const Object object(json, where,
                      {"name", "forward", "backward", "backward_input", "backward_weight",
                       "parameters", "activations", "output"});
  LayerCost layer;
  if (const auto name = json.find("name"); name != json.end()) {
    require(name->is_string(), "{}: name should be a text", where);
    layer.name = name->get<std::string>();
  }
  StageTimes& times = layer.times;
  times.forward = object.number("forward", 0);
  times.backward_input = object.number("backward_input", 0);
  times.backward_weight = object.number("backward_weight", 0);
  times.backward = object.number("backward", times.backward_input + times.backward_weight);
  layer.parameters = object.number("parameters", 0);
  layer.activations = object.number("activations", 0);
  layer.output = object.number("output", 0);
  return layer;
}

CutProblem problem_of(const Object& file) {
  CutProblem problem;
  file.each("layers", [&](const Json& json, const std::string& where) {
    problem.layers.push_back(layer_of(json, where));
  });
  require(!problem.layers.empty(), "{} has no layers; give each its times and sizes", file.where());
  file.each("ranks", [&](const Json& json, const std::string& where) {
    const Object rank(json, where, {"speed", "memory"});
    const RankCapacity usual;
    problem.ranks.push_back(
        {rank.number("speed", usual.speed), rank.number("memory", usual.memory)});
  });
  if (problem.ranks.empty()) problem.ranks.emplace_back();
  file.each("links", [&](const Json& json, const std::string& where) {
    const Object link(json, where, {"latency", "bandwidth"});
    const LinkRate usual;
    problem.links.push_back(
        {link.number("latency", usual.latency), link.number("bandwidth", usual.bandwidth)});
  });
  problem.messages_beside = file.truth("messages_beside", problem.messages_beside);
  problem.recompute = file.truth("recompute", problem.recompute);
  return problem;
}

}  // namespace

CutProblem read_cut_problem(const std::string& path) {
  const Json json = try_json<Json>(read_file(path));
  require(!json.is_discarded(), "{} is no JSON", path);
  return cut_problem_from(json, path);
}

CutProblem cut_problem_from(const Json& json, const std::string& where) {
  return problem_of(
      Object(json, where, {"layers", "ranks", "links", "messages_beside", "recompute"}));
}

nlohmann::ordered_json to_json(const CutProblem& problem) {
  using Ordered = nlohmann::ordered_json;
  Ordered json{{"layers", Ordered::array()}};
  for (const LayerCost& layer : problem.layers)
    json["layers"].push_back({{"name", layer.name},
                              {"forward", layer.times.forward},
                              {"backward", layer.times.backward},
                              {"backward_input", layer.times.backward_input},
                              {"backward_weight", layer.times.backward_weight},
                              {"parameters", layer.parameters},
                              {"activations", layer.activations},
                              {"output", layer.output}});
  for (const RankCapacity& rank : problem.ranks) {
    Ordered one{{"speed", rank.speed}};
    if (std::isfinite(rank.memory)) one["memory"] = rank.memory;
    json["ranks"].push_back(std::move(one));
  }
  for (const LinkRate& link : problem.links) {
    Ordered one{{"latency", link.latency}};
    if (std::isfinite(link.bandwidth)) one["bandwidth"] = link.bandwidth;
    json["links"].push_back(std::move(one));
  }
  json["messages_beside"] = problem.messages_beside;
  json["recompute"] = problem.recompute;
  return json;
}

}  // namespace asup::parallel
