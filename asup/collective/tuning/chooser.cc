#include "asup/collective/tuning/chooser.h"

#include <algorithm>
#include <bit>

#include "asup/base/error.h"
#include "asup/collective/tuning/choose.h"

namespace asup::collective::tuning {
namespace {

// Calls of more bytes than this are chosen for as if they had so many: nothing changes beyond.
constexpr std::size_t kMostBytes = std::size_t{1} << 30;

// k where 2^k is the least that holds all the bytes; -1 for none.
int class_of(std::size_t bytes) {
  return bytes == 0 ? -1 : static_cast<int>(std::bit_width(std::min(bytes, kMostBytes) - 1));
}

// The cheapest, unless `by_rule` takes hardly longer.
const Algorithm* pick_of(const std::vector<Priced>& order, const Algorithm& by_rule) {
  const Picoseconds least = order.front().price;
  for (const Priced& priced : order)
    if (priced.algorithm == &by_rule && priced.price - least <= least / 3) return &by_rule;
  return order.front().algorithm;
}

}  // namespace

std::vector<Priced> price_all(const Spec& spec, const Rates& rates, std::size_t element,
                              std::span<const int> hosts) {
  std::vector<Priced> priced;
  for (const Algorithm& algorithm : algorithms())
    if (can_serve(algorithm, spec))
      priced.push_back({&algorithm, price(algorithm, spec, rates, element, hosts)});
  std::stable_sort(priced.begin(), priced.end(),
                   [](const Priced& a, const Priced& b) { return a.price < b.price; });
  return priced;
}

Chooser::Chooser(const Rates& rates, std::vector<int> hosts)
    : rates_(rates), hosts_(std::move(hosts)) {
  require_valid(rates_);
}

const Chooser::Known& Chooser::known(const Spec& spec, std::size_t element) {
  check(spec.ranks == static_cast<int>(hosts_.size()), "a call of {} ranks among {}", spec.ranks,
        hosts_.size());
  // An element may have more bytes than a call can count.
  const std::size_t bytes = spec.count > kMostBytes / element ? kMostBytes : spec.count * element;
  const int size = class_of(bytes);
  Known& known = known_[{spec.collective, size, spec.shared, spec.stage, spec.in_place, element}];
  if (known.order.empty()) {
    Spec typical = spec;
    typical.count = size < 0 ? 0 : std::max<std::size_t>((std::size_t{1} << size) / element, 1);
    typical.counts.clear();
    typical.root = 0;
    known.order = price_all(typical, rates_, element, hosts_);
    check(!known.order.empty(), "no algorithm for {}", name_of(spec.collective));
    known.pick = pick_of(known.order, collective::choose(typical));
  }
  return known;
}

const std::vector<Priced>& Chooser::order(const Spec& spec, std::size_t element) {
  return known(spec, element).order;
}

const Algorithm& Chooser::choose(const Spec& spec, std::size_t element, std::string_view name) {
  // Nothing to weigh: somebody has, or there is one way only.
  if (!name.empty() || spec.coded || spec.ranks == 1 || is_point_to_point(spec.collective))
    return collective::choose(spec, name);
  return *known(spec, element).pick;
}

}  // namespace asup::collective::tuning
