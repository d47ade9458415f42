#include "asup/distribute/metrics.h"

#include <fmt/ranges.h>

#include <vector>

#include "asup/collective/text_exchange.h"
#include "asup/sync/model/agreement.h"

namespace asup {

namespace {

std::map<std::string, double> sum(Communicator& communicator,
                                  const std::map<std::string, double>& sums) {
  std::vector<std::string> names;
  std::vector<double> values;
  for (const auto& [name, value] : sums) {
    names.push_back(name);
    values.push_back(value);
  }
  const std::string own = fmt::format("{}", fmt::join(names, ", "));
  const std::string first = broadcast_text(communicator, own);
  sync::agree(communicator, own == first
                                ? ""
                                : fmt::format("rank {} sums up the metrics {}, and rank 0 {}",
                                              communicator.rank(), own, first));
  communicator.all_reduce(buffer_of(std::span(values))).or_throw("summing up metrics");
  std::map<std::string, double> all = sums;
  std::size_t i = 0;
  for (auto& [name, value] : all) value = values[i++];
  return all;
}

}  // namespace

std::map<std::string, double> reduce_metrics(DistributedReplica& replica,
                                             const std::map<std::string, double>& sums) {
  std::map<std::string, double> all;
  replica.all_together([&] { all = sum(replica.control(), sums); });
  return all;
}

}  // namespace asup
