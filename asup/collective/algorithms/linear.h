// Linear: the root talks to every other rank, all at once.
//
// E. Chan, M. Heimlich, A. Purkayastha, R. van de Geijn: Collective communication: theory,
// practice, and experience. Concurrency and Computation: Practice and Experience 19(13), 2007,
// doi:10.1002/cpe.1206 (there, the lower bounds that this meets in bytes).
//
//              rounds    messages of the root    elements that move    scratch
//   gather     1         n - 1                   count - its block     none
//   scatter    1         n - 1                   count - its block     none
//
// Each block goes straight to where it belongs; no algorithm moves less. The root handles n - 1
// messages, so that binomial is better for small blocks among many. Pure functions; safe from any
// thread.
#pragma once

#include "asup/collective/plan/plan.h"

namespace asup::collective {

Plan linear_gather(int rank, const Spec& spec);
Plan linear_scatter(int rank, const Spec& spec);

}  // namespace asup::collective
