// How fast the ranks of a group and the links between them are: what cost.h prices plans with.
// Measured by tuning/measure.h, or the built-in ones. Values only; safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace asup::collective {

// Messages between two ranks. In seconds.
struct LinkRates {
  double latency = 0;    // from the sender's processor to the receiver's
  double message = 0;    // of the processor at either end, for a message of any length
  double send_byte = 0;  // of the sender's processor
  double recv_byte = 0;  // of the receiver's processor
  double wire_byte = 0;  // of the network that all ranks of a host share, each way; 0: none
  bool operator==(const LinkRates&) const = default;
};

// Seconds a byte, while the operands stay in the caches and where they come from memory.
struct ByteRate {
  double cached = 0;
  double memory = 0;
  bool operator==(const ByteRate&) const = default;
};

struct Rates {
  LinkRates near;     // between ranks of one host
  LinkRates far;      // between ranks of different hosts
  ByteRate copy;      // a byte of a copy, from a peer's memory or into it too
  ByteRate reduce;    // a byte of the result of adding up two
  double change = 0;  // seconds until a core that worked for one rank works for another
  double call = 0;    // seconds of a call beside its plan
  double cores = 1;   // of a host
  bool operator==(const Rates&) const = default;
};

// Every number in it, by name: the order in which it travels and is written.
struct RateField {
  std::string_view name;
  double* value;
};
std::vector<RateField> fields_of(Rates& rates);

// What typical machines reach, for links of this kind ("shm", "inproc", "tcp", "mpi") inside a
// host. With these, the choice of an algorithm is the same everywhere, and good enough where it is
// not close.
Rates usual_rates(std::string_view near_link, int cores);

// Equal for equal bits, and for those alone but for one case in 2^64.
std::uint64_t hash_of(const Rates& rates);

// Throws BadInput that names a number which cannot be: negative, endless, no core at all.
void require_valid(const Rates& rates);

// One line for each number, in units that people read.
std::string describe(const Rates& rates);

}  // namespace asup::collective
