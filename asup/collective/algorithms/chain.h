// The pipelined chain: each rank passes on one chunk while it receives the next.
//
// J. Pješivac-Grbović, T. Angskun, G. Bosilca, G. E. Fagg, E. Gabriel, J. Dongarra: Performance
// analysis of MPI collective operations. Cluster Computing 10, 2007, doi:10.1007/s10586-007-0012-0
// (there "pipeline").
//
// Broadcast: with c chunks of about spec.slice elements, c + n - 2 messages from the first chunk's
// start to the last one's arrival; every rank but the last sends count elements, which no algorithm
// betters. Best where c is well above n. Two lanes, so that one's bytes travel while the other's
// round ends.
//
// Reduce: the same towards the root, each rank adding its own to what passes. Scratch: two chunks a
// lane, one of which is sent while the other fills. Pure functions; safe from any thread.
#pragma once

#include "asup/collective/plan/plan.h"

namespace asup::collective {

Plan chain_broadcast(int rank, const Spec& spec);
Plan chain_reduce(int rank, const Spec& spec);

}  // namespace asup::collective
