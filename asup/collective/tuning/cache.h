// Rates that were measured before, on disk: a small JSON file for each set of hosts, written whole
// or not at all. What cannot be read, or is about something else, counts as not there. Used by rank
// 0 alone, from one thread.
#pragma once

#include <optional>
#include <string>

#include "asup/collective/cost/rates.h"

namespace asup::collective::tuning {

class RatesCache {
 public:
  // `folder` is made when something is remembered; empty: nothing is.
  explicit RatesCache(std::string folder) : folder_(std::move(folder)) {}
  static RatesCache of_user();

  std::optional<Rates> find(const std::string& key) const;
  // Where it cannot be written, that is logged and nothing else happens.
  void remember(const std::string& key, const Rates& rates) const;
  // The file of this key; "" without a folder.
  std::string file(const std::string& key) const;

 private:
  std::string folder_;
};

// Every digit survives. rates_from() throws BadInput that says what is wrong.
std::string to_text(const Rates& rates);
Rates rates_from(const std::string& text);

}  // namespace asup::collective::tuning
