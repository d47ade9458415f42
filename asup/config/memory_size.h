// An amount of memory as people write it: 4096, 512M, 1.5G, with K, M, G and T for powers of 1024;
// or none: no limit. Pure; safe from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace asup {

struct MemorySize {
  std::optional<std::int64_t> bytes{};

  static constexpr std::string_view kForm = "SIZE|none";
  static constexpr std::string_view kWanted =
      "a size like 512M or 4G (K, M, G and T: powers of 1024), or none";
  static std::optional<MemorySize> from_text(std::string_view text);
  std::string to_text() const;
  bool operator==(const MemorySize&) const = default;
};

}  // namespace asup
