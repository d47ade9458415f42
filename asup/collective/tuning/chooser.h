// Picks the algorithm of a call by price. The choice is a pure function of the Spec, the element's
// size, where the ranks are, and the Rates, all of which are equal on all ranks: so all pick the
// same. (Were they not, the first message would say so: its envelope names the algorithm.)
//
// Calls are put into classes by size: up to a power of two, each priced as if it were that large,
// of even blocks, from root 0. A class is priced once and kept. Prices are no better than the
// moment in which the rates were measured: what choose.h picks by rule stands until another is
// cheaper by a quarter or more. Used by one thread at a time.
#pragma once

#include <map>
#include <string_view>
#include <tuple>
#include <vector>

#include "asup/collective/cost/cost.h"

namespace asup::collective::tuning {

struct Priced {
  const Algorithm* algorithm;
  Picoseconds price;
};

class Chooser {
 public:
  // `hosts` by rank of the calls to come.
  Chooser(const Rates& rates, std::vector<int> hosts);

  // The pick, or the one that `name` asks for; throws as collective::choose() does.
  const Algorithm& choose(const Spec& spec, std::size_t element, std::string_view name = {});

  // All that can serve the call, the cheapest first; of equal prices, the table's first.
  const std::vector<Priced>& order(const Spec& spec, std::size_t element);

  const Rates& rates() const { return rates_; }

 private:
  struct Known {
    std::vector<Priced> order;
    const Algorithm* pick = nullptr;
  };
  const Known& known(const Spec& spec, std::size_t element);

  using Class = std::tuple<Collective, int, bool, bool, bool, std::size_t>;

  const Rates rates_;
  const std::vector<int> hosts_;
  std::map<Class, Known> known_;
};

// As order(), priced anew for exactly this call.
std::vector<Priced> price_all(const Spec& spec, const Rates& rates, std::size_t element,
                              std::span<const int> hosts);

}  // namespace asup::collective::tuning
