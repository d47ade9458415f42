// One message from one rank to another: the caller's side of a send, and of a recv, as plans.
//
// One round; the sender sends its input, count elements, the receiver receives into its output.
// spec.root is the peer. Pure functions; safe from any thread.
#pragma once

#include "asup/collective/plan/plan.h"

namespace asup::collective {

Plan send_message(int rank, const Spec& spec);
Plan recv_message(int rank, const Spec& spec);

}  // namespace asup::collective
