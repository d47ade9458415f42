#include "asup/ps/table/setup.h"

#include <algorithm>
#include <cmath>

#include "asup/base/error.h"
#include "asup/base/json.h"

namespace asup::ps::table {
namespace {

using nlohmann::json;
using RuleKind = kernels::Rule::Kind;

constexpr std::uint32_t kMostWidth = 16 * 1024;
constexpr std::uint64_t kMostFloats = std::uint64_t{1} << 44;

// The output function of SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number
// generators", OOPSLA 2014, doi:10.1145/2660193.2660195.
std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
constexpr std::uint64_t kStride = 0x9e3779b97f4a7c15u;

std::uint64_t number_of(std::string_view name) {
  std::uint64_t number = 0;
  for (const char letter : name)
    number = mixed(number + kStride + static_cast<unsigned char>(letter));
  return number;
}

bool may_be_in_a_name(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') || letter == '_' || letter == '-';
}

json to_json(const TableSetup& setup) {
  return {{"name", setup.name},
          {"rows", setup.rows},
          {"width", setup.width},
          {"init", setup.init},
          {"seed", setup.seed},
          {"rule", kernels::describe(setup.rule)},
          {"pace", setup.synchronous ? "bsp" : "asp"}};
}

}  // namespace

void require_sense(const TableSetup& setup) {
  require(!setup.name.empty() && std::ranges::all_of(setup.name, may_be_in_a_name),
          "'{}' is no name of a table: it is made of letters, digits, _ and -", setup.name);
  require(setup.rows >= 1, "table {} has no rows", setup.name);
  require(setup.width >= 1 && setup.width <= kMostWidth,
          "table {} has rows of {} numbers: they may have 1 to {}", setup.name, setup.width,
          kMostWidth);
  kernels::require_valid(setup.rule);
  const RuleKind kind = setup.rule.kind;
  require(kind == RuleKind::sgd || kind == RuleKind::adagrad || kind == RuleKind::adam,
          "table {}: rows are trained by SGD without momentum, Adagrad or Adam, not by {}",
          setup.name, kernels::name_of(kind));
  require(setup.rule.weight_decay == 0 && !setup.rule.amsgrad,
          "table {}: {} has no weight decay and no amsgrad for rows that are touched now and then",
          setup.name, kernels::name_of(kind));
  require(std::isfinite(setup.init) && setup.init >= 0,
          "table {}: rows cannot begin with numbers of ±{}", setup.name, setup.init);
  require(setup.rows <= kMostFloats / record_floats(setup),
          "table {}: {} rows of {} numbers are more than servers can address", setup.name,
          setup.rows, setup.width);
}

std::uint64_t record_floats(const TableSetup& setup) {
  return setup.width * (1 + kernels::state_slots(setup.rule));
}

void initial_row(const TableSetup& setup, std::uint64_t row, float* to) {
  std::uint64_t state = mixed(mixed(setup.seed ^ number_of(setup.name)) + row * kStride);
  const auto scale = static_cast<float>(setup.init);
  for (std::uint32_t column = 0; column < setup.width; ++column) {
    const std::uint64_t bits = mixed(state += kStride) >> 40;
    to[column] = (static_cast<float>(bits) * 0x1p-23f - 1.0f) * scale;
  }
}

std::string to_text(const TableSetup& setup) { return to_json(setup).dump(); }

TableSetup parse_setup(std::string_view text) try {
  const json from = parse_json(text);
  TableSetup setup;
  setup.name = from.at("name");
  setup.rows = whole_in<std::uint64_t>(from, "rows");
  setup.width = whole_in<std::uint32_t>(from, "width");
  setup.init = from.at("init");
  setup.seed = whole_in<std::uint64_t>(from, "seed");
  setup.rule = kernels::parse_rule(from.at("rule").get<std::string>());
  setup.synchronous = from.at("pace") == "bsp";
  return setup;
} catch (const json::exception& error) {
  throw BadInput(fmt::format("not a setup of an embedding table: {}", error.what()));
}

std::string difference(const TableSetup& there, const TableSetup& here) {
  const json a = to_json(there), b = to_json(here);
  for (const auto& [key, value] : a.items())
    if (b.at(key) != value)
      return fmt::format("table {} has {} {} there and {} here", here.name, key, value.dump(),
                         b.at(key).dump());
  return "";
}

}  // namespace asup::ps::table
