// What was measured of a model and of ranks, as a file in JSON:
//
//   {"layers": [{"name": "block 0", "forward": 0.004, "backward_input": 0.004,
//                "backward_weight": 0.004, "parameters": 12e6, "activations": 3e6, "output": 1e6}],
//    "ranks": [{"speed": 1, "memory": 8e9}], "links": [{"latency": 5e-5, "bandwidth": 1e9}],
//    "messages_beside": true}
//
// Seconds and bytes, as in CutProblem; what is left out is 0, or no limit, and `backward` the sum
// of its parts. Functions only.
#pragma once

#include <string>

#include "asup/parallel/cut/stage_cut.h"

namespace asup::parallel {

// Throws BadInput with the path and what is wrong.
CutProblem read_cut_problem(const std::string& path);

}  // namespace asup::parallel
