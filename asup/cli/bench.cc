// asup bench: measures what this machine gets out of asup. Each benchmark checks its results first.
#include <memory>

#include "asup/cli/bench_collective.h"
#include "asup/cli/command.h"

namespace asup::cli {

Command add_bench_command(CLI::App& app, const std::vector<std::string>& arguments) {
  CLI::App* bench = app.add_subcommand("bench", "Measure collectives on this machine");
  bench->require_subcommand(1);
  CLI::App* collective = bench->add_subcommand(
      "collective", "Time a collective between processes of this host, results checked first");
  auto options = std::make_shared<CollectiveBench>();
  auto sizes = std::make_shared<std::string>("1K,16K,256K,4M,25M,100M");
  collective->add_option("--op", options->op,
                         "allreduce (default), reduce_scatter, allgather, broadcast or barrier");
  collective->add_option("--ranks", options->ranks, "How many ranks (default: 2)");
  collective->add_option("--sizes", *sizes, "Bytes of the whole buffer: 1K,4M,100M");
  collective
      ->add_option("--algorithm", options->algorithms,
                   "Which algorithms: names with commas, or all (default: asup's choice)")
      ->delimiter(',');
  collective->add_option("--buffers", options->buffers,
                         "shared (default): memory that all ranks reach; private: ordinary memory");
  collective->add_option("--link", options->link,
                         "shm (default) or tcp between processes, inproc between threads; mpi: "
                         "under mpirun, whose -n counts instead of --ranks");
  collective->add_option("--together", options->together,
                         "Also an all-reduce of the same bytes in so many buffers: by one call for "
                         "all, and by a call for each");
  collective->add_option("--json", options->json, "Write the rows to this file too");
  collective->add_flag("--quick", options->quick, "A fifth of the time, for a first look");
  return {bench, [options, sizes, arguments] {
            options->sizes = parse_sizes(*sizes);
            std::vector<std::string> command{"/proc/self/exe"};
            command.insert(command.end(), arguments.begin(), arguments.end());
            return run_collective_bench(*options, command);
          }};
}

}  // namespace asup::cli
