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

// The names of those that are a code: "bf16, … or onebit".
std::string names_of_codes();

// The code that it is; none where it is more than a code.
kernels::Code code_of(Compress compress);

namespace sync {

// All names, with this between them, and what may be said in their place.
template <char kBetween, bool kHasSpaces>
class CompressNames {
  static constexpr std::string_view kAuto =
      kHasSpaces ? "or auto, for the faster of none and bf16, or auto:int8,dgc, for the fastest of "
                   "these too"
                 : "auto[:NAME,...]";
  static constexpr std::size_t kSize = [] {
    std::size_t size = kAuto.size();
    for (const auto& named : names_of(Compress{})) size += named.name.size() + 1 + kHasSpaces;
    return size;
  }();
  static constexpr auto kLetters = [] {
    std::array<char, kSize> letters{};
    auto* at = letters.data();
    for (const auto& named : names_of(Compress{})) {
      at = std::copy(named.name.begin(), named.name.end(), at);
      *at++ = kBetween;
      if (kHasSpaces) *at++ = ' ';
    }
    std::copy(kAuto.begin(), kAuto.end(), at);
    return letters;
  }();

 public:
  static constexpr std::string_view kText{kLetters.data(), kSize};
};

}  // namespace sync

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

  static constexpr std::string_view kForm = sync::CompressNames<'|', false>::kText;
  static constexpr std::string_view kWanted = sync::CompressNames<',', true>::kText;
  static std::optional<CompressSetting> from_text(std::string_view text);
  std::string to_text() const;
  bool operator==(const CompressSetting&) const = default;
};

}  // namespace asup
