// Exchange: everyone sends its input to everyone, and each adds all of them up for itself.
//
// Recursive multiplying with n as the only factor: M. Ruefenacht, M. Bull, S. Booth: Generalisation
// of recursive doubling for AllReduce: now with simulation. Parallel Computing 69, 2017, pages
// 24-44.
//
// All-reduce: one round of messages, in which each rank sends (n - 1) × count elements. Nobody
// waits for what another has made of what it got, so that ranks which share a core need it once
// each; but there are n(n - 1) messages, so this is for few ranks and small counts. What is longer
// than a slice goes piece by piece. Scratch: n - 1 pieces.
//
// Each rank adds up in rank order, so that all get the same bits. Pure functions; safe from any
// thread.
#pragma once

#include "asup/collective/plan/plan.h"

namespace asup::collective {

Plan exchange_all_reduce(int rank, const Spec& spec);

}  // namespace asup::collective
