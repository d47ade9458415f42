// asup version, asup --version: what a report of a problem should begin with.
#include "asup/base/version.h"

#include <ATen/Version.h>
#include <fmt/format.h>
#include <sys/utsname.h>
#include <torch/version.h>

#include "asup/cli/command.h"
#include "asup/cli/usage.h"
#include "asup/kernels/instruction_set.h"
#include "asup/net/transport/mpi/join.h"

namespace asup::cli {

std::string version_text() {
  utsname system{};
  uname(&system);
  return fmt::format(
      "asup {}\n"
      "torch {} (uses {})\n"
      "kernels use {}\n"
      "MPI: {}\n"
      "built with {} {}\n"
      "{} {} {}",
      kVersion, TORCH_VERSION, at::get_cpu_capability(), kernels::instruction_set(),
      net::mpi_library(),
#ifdef __clang__
      "clang",
#else
      "g++",
#endif
      __VERSION__, system.sysname, system.release, system.machine);
}

Command add_version_command(CLI::App& app) {
  CLI::App* version = app.add_subcommand("version", "Print versions, as --version does");
  set_usage(*version, "Usage: asup version");
  return {version,
          [] {
            fmt::print("{}\n", version_text());
            return 0;
          },
          {},
          {{"asup version", "what a report of a problem should begin with"}}};
}

}  // namespace asup::cli
