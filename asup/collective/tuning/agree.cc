#include "asup/collective/tuning/agree.h"

#include <fmt/format.h>

#include <vector>

#include "asup/base/version.h"
#include "asup/collective/execute/envelope.h"
#include "asup/collective/plan/plan.h"
#include "asup/net/membership/roles.h"

namespace asup::collective::tuning {
namespace {

// The bits, which a reduction or a decimal might change.
Rates broadcast(Communicator& communicator, const Rates& mine) {
  Rates rates = mine;
  std::vector<double> values;
  for (const RateField& field : fields_of(rates)) values.push_back(*field.value);
  communicator.broadcast(buffer_of(std::span(values))).or_throw();
  std::size_t i = 0;
  for (const RateField& field : fields_of(rates)) *field.value = values[i++];
  return rates;
}

}  // namespace

std::uint64_t fingerprint(const Rates& rates) {
  std::string table = kVersion;
  for (const Algorithm& algorithm : algorithms())
    table += fmt::format(" {}.{}", name_of(algorithm.collective), algorithm.name);
  return hash_of(rates) ^ (std::uint64_t{hash_of(table)} << 32);
}

Rates agree(Communicator& communicator, const Rates& mine) {
  if (communicator.size() == 1) return mine;
  const Rates rates = broadcast(communicator, mine);
  const auto size = static_cast<std::size_t>(communicator.size());
  std::vector<std::int64_t> own{static_cast<std::int64_t>(fingerprint(rates))}, all(size);
  communicator.all_gather(buffer_of(std::span(own)), buffer_of(std::span(all))).or_throw();
  std::vector<int> others;
  for (int rank = 0; rank < communicator.size(); ++rank)
    if (all[static_cast<std::size_t>(rank)] != all[0]) others.push_back(rank);
  check(others.empty(),
        "{} would choose other algorithms than rank 0: the same asup (here {}) must run on all "
        "hosts",
        others.empty() ? "" : net::name_ranks(others), kVersion);
  return rates;
}

}  // namespace asup::collective::tuning
