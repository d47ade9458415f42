#include "asup/net/membership/late_reports.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace asup::net {

void LateReports::add(std::uint64_t id, Ids late) {
  reports_.erase(id);
  if (!late.empty()) reports_.emplace(id, std::move(late));
}

LateReports::Ids LateReports::due(const Ids& here, const std::vector<std::uint64_t>& agreed) const {
  std::map<Ids, Ids> said_by;
  for (const auto& [id, all] : reports_) {
    Ids late;  // that are still here
    std::ranges::set_intersection(all, here, std::inserter(late, late.end()));
    if (!late.empty() && !late.contains(id)) said_by[late].insert(id);
  }
  for (const auto& [late, by] : said_by) {
    const auto votes =
        std::ranges::count_if(agreed, [&](std::uint64_t id) { return by.contains(id); });
    Ids others;
    std::ranges::set_difference(here, late, std::inserter(others, others.end()));
    const bool by_all = !others.empty() && std::ranges::includes(by, others);
    if (by_all || 2 * votes > std::ssize(agreed)) return late;
  }
  return {};
}

}  // namespace asup::net
