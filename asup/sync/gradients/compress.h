// What gradients of weights travel in, as a setting. Values only; safe from any thread.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "asup/config/value.h"
#include "asup/kernels/code.h"

namespace asup {

// As they are, in a code, only their largest numbers, or as matrices of low rank.
enum class Compress { none, bf16, fp16, int8, int4, onebit, topk, dgc, powersgd };

constexpr auto names_of(Compress) {
  using enum Compress;
  return std::to_array<config::Named<Compress>>({{"none", none},
                                                 {"bf16", bf16},
                                                 {"fp16", fp16},
                                                 {"int8", int8},
                                                 {"int4", int4},
                                                 {"onebit", onebit},
                                                 {"topk", topk},
                                                 {"dgc", dgc},
                                                 {"powersgd", powersgd}});
}

// The code that it is; none where it is more than a code.
kernels::Code code_of(Compress compress);

// Whether what is lost by that is added to the gradients of the next step.
enum class Feedback { automatic, on, off };

constexpr auto names_of(Feedback) {
  using enum Feedback;
  return std::to_array<config::Named<Feedback>>({{"auto", automatic}, {"on", on}, {"off", off}});
}

// Of this code: automatic is for int4 and onebit. False where it is none.
bool has_feedback(Compress compress, Feedback feedback);

// One of them, or of several the one that is fastest, as measured where training begins.
struct CompressSetting {
  std::vector<Compress> among{Compress::none};  // several: none and bf16 come first

  CompressSetting() = default;
  CompressSetting(Compress one) : among{one} {}  // NOLINT: it is one
  // none, bf16, and others that may cost accuracy.
  static CompressSetting automatic(const std::vector<Compress>& others = {});

  bool is_auto() const { return among.size() > 1; }
  bool may_be(Compress compress) const {
    return std::find(among.begin(), among.end(), compress) != among.end();
  }

  static constexpr std::string_view kForm =
      "none|bf16|fp16|int8|int4|onebit|topk|dgc|powersgd|auto[:NAME,...]";
  static constexpr std::string_view kWanted =
      "none, bf16, fp16, int8, int4, onebit, topk, dgc, powersgd, or auto, for the faster of none "
      "and "
      "bf16, or auto:int8,dgc, for the fastest of these too";
  static std::optional<CompressSetting> from_text(std::string_view text);
  std::string to_text() const;
  bool operator==(const CompressSetting&) const = default;
};

}  // namespace asup
