// What the memory traffic of a benchmark alone costs here, by the references bench/limit.cc and
// bench/server_limit.cc: the limits that `asup bench` holds its figures against.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace asup::bench {

// Passes them from the command to the ranks it starts; set beforehand, they are not measured.
inline constexpr const char* kLimitsVariable = "ASUP_BENCH_LIMITS";

// Runs the reference, a program of bench/, where it was built beside this one; "" where it was not.
// Bytes to microseconds: "1024=0.5 4096=0.8".
std::string measure_limits(const std::string& reference, int ranks,
                           const std::vector<std::size_t>& sizes, const std::string& buffers,
                           bool quick);

// What does not read so is left out.
std::map<std::size_t, double> limits_from(const std::optional<std::string>& text);

}  // namespace asup::bench
