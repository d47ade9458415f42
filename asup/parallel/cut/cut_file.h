// What was measured of a model and of ranks, as a file in JSON:
//
//   {"layers": [{"name": "block 0", "forward": 0.004, "backward_input": 0.004,
//                "backward_weight": 0.004, "parameters": 12e6, "activations": 3e6, "output": 1e6}],
//    "ranks": [{"speed": 1, "memory": 8e9}], "links": [{"latency": 5e-5, "bandwidth": 1e9}],
//    "messages_beside": true, "recompute": false}
//
// Seconds and bytes, as in CutProblem; what is left out is 0, or no limit, and `backward` the sum
// of its parts. Functions only.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "asup/parallel/cut/stage_cut.h"

namespace asup::parallel {

// Throws BadInput with the path and what is wrong.
CutProblem read_cut_problem(const std::string& path);
// The same of what the file holds; `where` it is opens messages.
CutProblem cut_problem_from(const nlohmann::json& json, const std::string& where);
nlohmann::ordered_json to_json(const CutProblem& problem);

}  // namespace asup::parallel
