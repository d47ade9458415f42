#include "asup/distribute/variables.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "asup/base/error.h"
#include "asup/base/suggest.h"
#include "asup/config/given.h"
#include "asup/distribute/strategy.h"
#include "asup/net/membership/join_options.h"

namespace asup {
namespace {

// Read elsewhere: by the log, data sets and experiments; while asup is built and tested.
constexpr std::string_view kOthers[] = {
    "ASUP_LOG_LEVEL",    "ASUP_FASHION_MNIST", "ASUP_INJECTED_SLOWNESS",
    "ASUP_STEP_TIMES",   "ASUP_RESTART",       "ASUP_JOB_ID",
    "ASUP_COMMAND_LINE", "ASUP_TORCH",         "ASUP_PYTHON",
    "ASUP_CCACHE",       "ASUP_SKIP_PACKAGES", "ASUP_ALLOW_CUDA_WHEEL",
    "ASUP_GLOO",         "ASUP_PROGRAM",       "ASUP_EXAMPLES",
    "ASUP_PLUGINS",      "ASUP_CHROMIUM",      "ASUP_OUTPUTS",
    "ASUP_SOAK",         "ASUP_MPIRUN",        "ASUP_BENCH_LIMITS",
    "ASUP_MEMORY_CASE",  "ASUP_MEMORY_ROWS",   "ASUP_ALONE",
    "ASUP_TEST_COPIES"};

std::vector<std::string> known_variables() {
  std::vector<std::string> names = program_variables();
  for (const auto name : net::member_variables()) names.emplace_back(name);
  names.insert(names.end(), std::begin(kOthers), std::end(kOthers));
  return names;
}

}  // namespace

std::vector<std::string> strategy_variables() {
  std::vector<std::string> names{"ASUP_STRATEGY"};
  for (const auto& setting : names_of_strategy_settings())
    names.push_back(config::variable_of(setting));
  return names;
}

std::vector<std::string> program_variables() {
  std::vector<std::string> names = strategy_variables();
  names.emplace_back("ASUP_TIMELINE");
  return names;
}

std::vector<std::string> own_variables() {
  std::vector<std::string> names;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    const std::size_t equals = text.find('=');
    if (text.starts_with("ASUP_") && equals != text.npos && equals + 1 < text.size())
      names.emplace_back(text.substr(0, equals));
  }
  return names;
}

void refuse_unknown_variables(const std::vector<std::string>& names) {
  const std::vector<std::string> known = known_variables();
  for (const std::string& name : names)
    require(
        !name.starts_with("ASUP_") || std::find(known.begin(), known.end(), name) != known.end(),
        "{}: is no variable of asup, whose names begin with ASUP_: unset it, or rename it{}", name,
        did_you_mean(name, known));
}

}  // namespace asup
