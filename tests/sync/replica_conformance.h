// What every Replica does, whichever way it keeps ranks in step. A replica joins with
//
//   INSTANTIATE_TEST_SUITE_P(AllReduce, ReplicaConformance, replica_cases(way), name_of_case);
#pragma once

#include "tests/sync/conformance/models.h"
#include "tests/sync/conformance/one_model.h"
#include "tests/sync/conformance/steps.h"
