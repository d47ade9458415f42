// Figures of all workers as one: losses, counts of right answers, whatever a program adds up.
// Collective, for the thread that trains.
#pragma once

#include <map>
#include <string>

#include "asup/distribute/distribute.h"

namespace asup {

// The sum over workers of each figure, the same on all of them. All give the same names, or
// JobFailed names the first that differs. A mean over samples is the quotient of two sums:
//
//   auto sum = asup::reduce_metrics(*replica, {{"loss", loss_sum}, {"right", right}, {"count",
//   n}}); double accuracy = sum["right"] / sum["count"];
std::map<std::string, double> reduce_metrics(DistributedReplica& replica,
                                             const std::map<std::string, double>& sums);

}  // namespace asup
