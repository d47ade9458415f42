#include "asup/precision/precision.h"

#include <fmt/ranges.h>

#include <vector>

#include "asup/base/error.h"
#include "asup/base/suggest.h"

namespace asup {
namespace {

constexpr Precision kAll[] = {Precision::fp32, Precision::bf16, Precision::fp16};

}  // namespace

std::string_view name_of(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return "fp32";
    case Precision::bf16:
      return "bf16";
    case Precision::fp16:
      return "fp16";
  }
  return "?";
}

Precision precision_from(const std::string& name) {
  std::vector<std::string> known;
  for (const Precision precision : kAll) {
    if (name == name_of(precision)) return precision;
    known.emplace_back(name_of(precision));
  }
  throw BadInput(fmt::format("there is no precision '{}', only {}{}", name, fmt::join(known, ", "),
                             did_you_mean(name, known)));
}

torch::ScalarType scalar_type_of(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return torch::kFloat;
    case Precision::bf16:
      return torch::kBFloat16;
    case Precision::fp16:
      return torch::kHalf;
  }
  return torch::kFloat;
}

}  // namespace asup
