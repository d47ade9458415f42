// asup bench: measures what this machine gets out of asup. Each benchmark checks its results first.
#include <algorithm>
#include <functional>
#include <memory>

#include "asup/bench/collective.h"
#include "asup/bench/collective_names.h"
#include "asup/bench/compare/program_runner.h"
#include "asup/bench/embedding.h"
#include "asup/bench/images.h"
#include "asup/bench/memory.h"
#include "asup/bench/server.h"
#include "asup/bench/sizes.h"
#include "asup/cli/benchmarks.h"
#include "asup/cli/usage.h"

namespace asup::cli {
namespace {

using Words = std::vector<std::string>;

// `self` starts another member of it.
Command add_collective(CLI::App& bench, const Words& self) {
  CLI::App* collective =
      add_bench(bench, "collective",
                "Time a collective between processes of this host, results checked first");
  auto options = std::make_shared<bench::CollectiveBench>();
  auto op = std::make_shared<std::string>("allreduce");
  auto sizes = std::make_shared<std::string>("1K,16K,256K,4M,25M,100M");
  collective->add_option("--op", *op,
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
  return benchmark(
      collective,
      [options, op, sizes] {
        options->collective = bench::collective_of(*op);
        options->sizes = bench::parse_sizes(*sizes);
      },
      [options, self] { return bench::run_collective_bench(*options, self); },
      {{"asup bench collective --quick", "all-reduce between two ranks"},
       {"asup bench collective --ranks 4 --algorithm all --sizes 4M", "every algorithm"},
       {"asup bench collective --op allgather --link tcp", "another collective, over TCP"},
       {"mpirun -n 4 asup bench collective --link mpi", "over MPI"}});
}

Command add_server(CLI::App& bench, const Words& self) {
  CLI::App* server = add_bench(
      bench, "server", "Time push-pulls between workers and parameter servers of this host");
  auto options = std::make_shared<bench::ServerBench>();
  auto sizes = std::make_shared<std::string>("1K,256K,4M,25M,100M");
  server->add_option("--workers", options->workers, "How many workers (default: 2)");
  server->add_option("--servers", options->servers, "How many servers (default: 1)");
  server->add_option("--sizes", *sizes, "Bytes of the model: 1K,4M,100M");
  server->add_option("--link", options->link, "shm (default) or tcp");
  server->add_option("--pace", options->pace,
                     "asp (default): each worker by itself; bsp: all in step; ssp or adaptive");
  server->add_option("--json", options->json, "Write the rows to this file too");
  server->add_flag("--quick", options->quick, "A fifth of the time, for a first look");
  return benchmark(
      server, [options, sizes] { options->sizes = bench::parse_sizes(*sizes); },
      [options, self] { return bench::run_server_bench(*options, self); },
      {{"asup bench server --quick", "two workers and a server on this host"},
       {"asup bench server --workers 4 --servers 2 --pace bsp", "all workers in step"},
       {"asup bench server --link tcp --sizes 25M", "a model of 25 MiB, over TCP"}});
}

Command add_embedding(CLI::App& bench, const Words& self) {
  CLI::App* embedding = add_bench(
      bench, "embedding", "Time steps of an embedding table on servers, beside torch's own");
  auto options = std::make_shared<bench::EmbeddingBench>();
  options->batches = {1024, 16'384, 131'072};
  embedding->add_option("--workers", options->workers, "How many workers (default: 1)");
  embedding->add_option("--servers", options->servers, "How many servers (default: 1)");
  embedding->add_option("--rows", options->rows, "Of the table (default: 1000000)");
  embedding->add_option("--width", options->width, "Numbers of a row (default: 32)");
  embedding
      ->add_option("--ids", options->batches, "Of a step of a worker (default: 1024,16384,131072)")
      ->delimiter(',');
  embedding->add_option("--optimizer", options->optimizer, "adagrad (default), sgd or adam");
  embedding->add_option("--link", options->link, "shm (default) or tcp");
  embedding->add_option("--pace", options->pace,
                        "bsp (default): all in step; asp: each worker by itself");
  embedding->add_option("--json", options->json, "Write the rows to this file too");
  embedding->add_flag("--quick", options->quick, "A fifth of the time, for a first look");
  return benchmark(
      embedding, [options] { bench::check(*options); },
      [options, self] { return bench::run_embedding_bench(*options, self); },
      {{"asup bench embedding --quick", "a worker and a server on this host"},
       {"asup bench embedding --workers 2 --servers 2 --pace asp", "two of each, nobody waits"},
       {"asup bench embedding --rows 10000000 --ids 8192", "a larger table"}});
}

Command add_memory(CLI::App& bench, const Words& self) {
  CLI::App* memory = add_bench(
      bench, "memory", "Measure the memory of a worker and a server, beside what they should need");
  auto options = std::make_shared<bench::MemoryBench>();
  auto size = std::make_shared<std::string>("32M");
  memory->add_option("--workers", options->workers, "How many workers (default: 2)");
  memory->add_option("--size", *size, "Bytes of the model (default: 32M)");
  memory->add_flag("--only-shards", options->only_shards,
                   "Workers by all-reduce alone, with shards and without: no servers");
  memory->add_option("--json", options->json, "Write the rows to this file too");
  return benchmark(
      memory, [options, size] { options->bytes = bench::parse_sizes(*size).front(); },
      [options, self] { return bench::run_memory_bench(*options, self); },
      {{"asup bench memory", "two workers and a server, a model of 32 MiB"},
       {"asup bench memory --workers 4 --size 256M", "a larger one"}});
}

Command add_images(CLI::App& bench) {
  CLI::App* images = add_bench(
      bench, "images", "Time the loader of image files, beside decoding them and nothing else");
  auto options = std::make_shared<bench::ImagesBench>();
  images->add_option("--data", options->data,
                     "Folder with train/CLASS/….jpg, or of shards (default: pictures are made)");
  images->add_option("--keep", options->keep, "Folder to leave the pictures in that are made");
  images->add_option("--size", options->size, "Pixels of a side (default: 224)")
      ->check(between<int>(8, 4096));
  images
      ->add_option("--crop", options->crop,
                   "Least share of a picture's area that is taken (default: 0.08); 0: its middle")
      ->check(between<double>(0, 1));
  images->add_option("--threads", options->threads, "Of the last row (default: all cores)")
      ->check(between<int>(1, 1024));
  images->add_option("--json", options->json, "Write the rows to this file too");
  images->add_flag("--quick", options->quick, "A third of the time, for a first look");
  return benchmark(
      images, [] {}, [options] { return bench::run_images_bench(*options); },
      {{"asup bench images", "on pictures that it makes, 500 x 375 pixels each"},
       {"asup bench images --data DIR --size 160", "on the training images of a data set"}});
}

}  // namespace

// A benchmark is checked before it runs, too.
Command benchmark(CLI::App* command, std::function<void()> check, std::function<int()> run,
                  std::vector<Example> examples) {
  const auto checked = [check, run = std::move(run)] {
    check();
    try {
      return run();
    } catch (const bench::Interrupted& interrupted) {
      print_last_line("asup bench", interrupted.what());
      return interrupted.exit_status();
    }
  };
  return {command, checked, check, std::move(examples)};
}

CLI::App* add_bench(CLI::App& bench, const std::string& name, const std::string& what) {
  CLI::App* command = bench.add_subcommand(name, what);
  set_usage(*command, fmt::format("Usage: asup bench {} [flags]", name));
  return command;
}

Command add_bench_command(CLI::App& app, const std::vector<std::string>& arguments) {
  CLI::App* bench = app.add_subcommand("bench", "Measure what this machine gets out of asup");
  set_usage(*bench, "Usage: asup bench BENCHMARK [flags]");
  bench->require_subcommand(1);
  Words self{"/proc/self/exe"};
  self.insert(self.end(), arguments.begin(), arguments.end());
  const std::vector<Command> all = {
      add_collective(*bench, self), add_server(*bench, self), add_embedding(*bench, self),
      add_memory(*bench, self),     add_images(*bench),       add_stragglers(*bench),
      add_time_to_accuracy(*bench), add_large_batch(*bench),  add_faults(*bench)};
  for (const Command& one : all) one.app->group("Benchmarks");
  const auto chosen = [all] {
    return *std::find_if(all.begin(), all.end(),
                         [](const Command& one) { return one.app->parsed(); });
  };
  return {bench,
          [chosen] { return chosen().run(); },
          [chosen] { chosen().check(); },
          {{"asup bench collective --quick", "the time of an all-reduce"},
           {"asup bench collective --help", "the flags of one benchmark"}},
          all};
}

}  // namespace asup::cli
