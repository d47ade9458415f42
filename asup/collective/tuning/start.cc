#include "asup/collective/tuning/start.h"

#include <array>

#include "asup/base/error.h"
#include "asup/collective/tuning/agree.h"
#include "asup/collective/tuning/measure.h"

namespace asup::collective::tuning {
namespace {

constexpr std::size_t kFewRanks = 4;

bool usual_will_do(const Surroundings& surroundings) {
  return surroundings.all_by_memory() && surroundings.hosts.size() <= kFewRanks;
}

// Rank 0's.
Origin broadcast(Communicator& communicator, Origin mine) {
  std::array<std::int32_t, 1> origin{static_cast<std::int32_t>(mine)};
  communicator.broadcast(buffer_of(std::span(origin))).or_throw();
  return static_cast<Origin>(origin[0]);
}

}  // namespace

std::string_view in_words(Origin origin) {
  switch (origin) {
    case Origin::remembered:
      return "as measured before";
    case Origin::usual:
      return "as usual for such links";
    case Origin::measured:
      return "measured now";
  }
  return "?";
}

StartRates rates_at_start(Communicator& communicator, const Surroundings& surroundings,
                          const RatesCache& cache) {
  Rates rates = usual_rates(surroundings.near_link, surroundings.cores);
  if (communicator.size() == 1) return {rates, Origin::usual};
  const bool first = communicator.rank() == 0;
  Origin origin = Origin::usual;
  if (first) {
    const auto known = cache.find(surroundings.key());
    if (known) rates = *known;
    origin = known                         ? Origin::remembered
             : usual_will_do(surroundings) ? Origin::usual
                                           : Origin::measured;
  }
  origin = broadcast(communicator, origin);
  if (origin != Origin::measured) return {agree(communicator, rates), origin};
  rates = measure(communicator, surroundings);
  if (first) cache.remember(surroundings.key(), rates);
  return {rates, origin};
}

}  // namespace asup::collective::tuning
