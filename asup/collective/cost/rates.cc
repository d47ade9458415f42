#include "asup/collective/cost/rates.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "asup/base/error.h"

namespace asup::collective {
namespace {

constexpr double kMost = 3600;  // seconds; more is no rate of anything

// 10 Gbit/s between hosts, with the system calls that TCP takes.
constexpr LinkRates kTcpFar{15e-6, 3e-6, 0.3e-9, 0.3e-9, 0.85e-9};
constexpr LinkRates kTcpNear{6e-6, 3e-6, 0.25e-9, 0.25e-9, 0};
constexpr LinkRates kMemory{0.25e-6, 0.15e-6, 0.12e-9, 0.12e-9, 0};

std::string link_in_words(std::string_view name, const LinkRates& link) {
  return fmt::format(
      "{}: latency {:.2f} us, {:.2f} us a message, {:.3f} ns a byte sent, {:.3f} received{}\n",
      name, link.latency * 1e6, link.message * 1e6, link.send_byte * 1e9, link.recv_byte * 1e9,
      link.wire_byte > 0 ? fmt::format(", {:.2f} Gbit/s", 8e-9 / link.wire_byte) : "");
}

std::string bytes_in_words(std::string_view name, const ByteRate& rate) {
  return fmt::format("{}: {:.3f} ns a byte in the caches, {:.3f} in memory\n", name,
                     rate.cached * 1e9, rate.memory * 1e9);
}

}  // namespace

std::vector<RateField> fields_of(Rates& rates) {
  return {
      {"near_latency", &rates.near.latency},
      {"near_message", &rates.near.message},
      {"near_send_byte", &rates.near.send_byte},
      {"near_recv_byte", &rates.near.recv_byte},
      {"near_wire_byte", &rates.near.wire_byte},
      {"far_latency", &rates.far.latency},
      {"far_message", &rates.far.message},
      {"far_send_byte", &rates.far.send_byte},
      {"far_recv_byte", &rates.far.recv_byte},
      {"far_wire_byte", &rates.far.wire_byte},
      {"copy_cached", &rates.copy.cached},
      {"copy_memory", &rates.copy.memory},
      {"reduce_cached", &rates.reduce.cached},
      {"reduce_memory", &rates.reduce.memory},
      {"change", &rates.change},
      {"call", &rates.call},
      {"cores", &rates.cores},
  };
}

Rates usual_rates(std::string_view near_link, int cores) {
  Rates rates;
  rates.near = near_link == "shm" || near_link == "inproc" ? kMemory : kTcpNear;
  rates.far = kTcpFar;
  rates.copy = {0.03e-9, 0.12e-9};
  rates.reduce = {0.05e-9, 0.18e-9};
  rates.change = 2e-6;
  rates.call = 0.3e-6;
  rates.cores = cores;
  return rates;
}

std::uint64_t hash_of(const Rates& rates) {
  Rates copy = rates;
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const RateField& field : fields_of(copy)) {
    const auto bits = std::bit_cast<std::uint64_t>(*field.value);
    for (int shift = 0; shift < 64; shift += 8) {
      hash ^= bits >> shift & 0xff;
      hash *= 1099511628211u;
    }
  }
  return hash;
}

void require_valid(const Rates& rates) {
  Rates copy = rates;
  for (const RateField& field : fields_of(copy)) {
    const bool is_count = field.name == "cores";
    const double least = is_count ? 1 : 0, most = is_count ? 1e6 : kMost;
    require(std::isfinite(*field.value) && *field.value >= least && *field.value <= most,
            "rates: {} cannot be {}", field.name, *field.value);
  }
}

std::string describe(const Rates& rates) {
  return link_in_words("same host", rates.near) + link_in_words("other host", rates.far) +
         bytes_in_words("copy", rates.copy) + bytes_in_words("reduce", rates.reduce) +
         fmt::format(
             "a call: {:.2f} us beside its plan; a host: {:.0f} cores, {:.2f} us until one "
             "works for another rank\n",
             rates.call * 1e6, rates.cores, rates.change * 1e6);
}

}  // namespace asup::collective
