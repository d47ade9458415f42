#include "asup/cli/bench_collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "asup/base/error.h"
#include "asup/collective/mesh_communicator.h"
#include "asup/launch/launch.h"
#include "asup/net/inproc/wire.h"

namespace asup::cli {
namespace {

using collective::Collective;

struct Operation {
  std::string_view name;
  Collective collective;
  double (*bus_factor)(int ranks);  // bytes a rank's link carries for each byte of the whole
};

constexpr Operation kOperations[] = {
    {"allreduce", Collective::all_reduce, [](int n) { return 2.0 * (n - 1) / n; }},
    {"reduce_scatter", Collective::reduce_scatter, [](int n) { return 1.0 * (n - 1) / n; }},
    {"allgather", Collective::all_gather, [](int n) { return 1.0 * (n - 1) / n; }},
    {"broadcast", Collective::broadcast, [](int) { return 1.0; }},
    {"barrier", Collective::barrier, [](int) { return 0.0; }},
};

const Operation& operation(const std::string& name) {
  std::string names;
  for (const Operation& op : kOperations) {
    if (op.name == name) return op;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", op.name);
  }
  throw BadInput(fmt::format("--op {}: there is {}", name, names));
}

struct Row {
  std::size_t bytes;
  double min_us, p50_us, p99_us, bus_gb_s;
};

// One size's buffers, in memory as the bench asks for.
class Subject {
 public:
  Subject(Communicator& communicator, const CollectiveBench& bench, const Operation& op,
          std::size_t bytes)
      : communicator_(communicator) {
    const auto n = static_cast<std::size_t>(communicator.size());
    const std::size_t block = std::max<std::size_t>(1, bytes / sizeof(float) / n);
    const std::size_t whole =
        op.collective == Collective::all_reduce || op.collective == Collective::broadcast
            ? bytes / sizeof(float)
            : block * n;
    call_.collective = op.collective;
    call_.algorithm = bench.algorithm;
    if (op.collective == Collective::barrier) return;
    const bool shared = bench.buffers == "shared";
    const Buffer full = buffer(shared, whole);
    switch (op.collective) {
      case Collective::reduce_scatter:
        call_.input = full;
        call_.output = buffer(shared, block);
        break;
      case Collective::all_gather:
        call_.input = buffer(shared, block);
        call_.output = full;
        break;
      default:
        call_.input = call_.output = full;
    }
  }

  void run() { communicator_.run(call_).or_throw(); }

  // Runs once on known values and compares every element of the result.
  void check_result() {
    if (call_.collective == Collective::barrier) return run();
    const int rank = communicator_.rank(), n = communicator_.size();
    fill(call_.input, rank);
    run();
    const auto* out = static_cast<const float*>(call_.output.data);
    const std::size_t block = call_.output.count / static_cast<std::size_t>(n);
    for (std::size_t i = 0; i < call_.output.count; ++i) {
      const float expected = expected_at(i, block);
      check(out[i] == expected, "{} of {} elements: element {} is {} and should be {}",
            name_of(call_.collective), call_.output.count, i, out[i], expected);
    }
    fill(call_.input, -1);  // zeros: repeated sums stay finite
  }

 private:
  static float value(int rank, std::size_t i) {
    return static_cast<float>(rank + 1) + static_cast<float>(i % 5);
  }
  static void fill(Buffer& buffer, int rank) {
    auto* values = static_cast<float*>(buffer.data);
    for (std::size_t i = 0; i < buffer.count; ++i) values[i] = rank < 0 ? 0 : value(rank, i);
  }
  float expected_at(std::size_t i, std::size_t block) const {
    const int n = communicator_.size();
    const auto sum = [&](std::size_t at) {
      return static_cast<float>(n * (n + 1) / 2) +
             static_cast<float>(n) * static_cast<float>(at % 5);
    };
    switch (call_.collective) {
      case Collective::all_reduce:
        return sum(i);
      case Collective::reduce_scatter:
        return sum(static_cast<std::size_t>(communicator_.rank()) * call_.output.count + i);
      case Collective::all_gather:
        return value(static_cast<int>(i / block), i % block);
      default:
        return value(0, i);
    }
  }
  Buffer buffer(bool shared, std::size_t count) {
    if (shared) {
      shared_.push_back(communicator_.allocate(count * sizeof(float)));
      return {shared_.back()->bytes().data(), count, Dtype::f32};
    }
    own_.emplace_back(count);
    return {own_.back().data(), count, Dtype::f32};
  }

  Communicator& communicator_;
  Call call_;
  std::vector<std::unique_ptr<SharedMemory>> shared_;
  std::vector<std::vector<float>> own_;
};

// Microseconds of each of so many runs that they fill the time; the same number on all ranks.
std::vector<double> time_runs(Communicator& communicator, Subject& subject, double seconds) {
  const auto timed = [&] {
    const auto start = Clock::now();
    subject.run();
    return seconds_since(start) * 1e6;
  };
  std::vector<double> warm;
  for (int i = 0; i < 5; ++i) warm.push_back(timed());
  std::vector<std::int64_t> runs{static_cast<std::int64_t>(std::clamp(
      seconds * 1e6 / std::max(0.1, *std::min_element(warm.begin(), warm.end())), 5.0, 20000.0))};
  communicator.broadcast(buffer_of(std::span(runs))).or_throw();
  std::vector<double> times;
  times.reserve(static_cast<std::size_t>(runs[0]));
  for (std::int64_t i = 0; i < runs[0]; ++i) times.push_back(timed());
  return times;
}

Row summarize(std::vector<double> times, std::size_t bytes, double bus_factor) {
  std::sort(times.begin(), times.end());
  const auto at = [&](double share) {
    return times[static_cast<std::size_t>(share * static_cast<double>(times.size() - 1))];
  };
  const double p50 = at(0.5);
  return {bytes, times.front(), p50, at(0.99),
          bus_factor * static_cast<double>(bytes) / (p50 * 1e-6) / 1e9};
}

std::string human(std::size_t bytes) {
  if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  if (bytes >= 1 << 10 && bytes % (1 << 10) == 0) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} B", bytes);
}

void write_json(const CollectiveBench& bench, const std::vector<Row>& rows) {
  auto list = nlohmann::json::array();
  for (const Row& row : rows)
    list.push_back({{"op", bench.op},
                    {"algorithm", bench.algorithm.empty() ? "auto" : bench.algorithm},
                    {"ranks", bench.ranks},
                    {"bytes", row.bytes},
                    {"link", bench.link},
                    {"buffers", bench.buffers},
                    {"peer", "asup"},
                    {"p50_us", row.p50_us},
                    {"min_us", row.min_us},
                    {"p99_us", row.p99_us},
                    {"bus_gb_s", row.bus_gb_s}});
  std::ofstream file(bench.json);
  file << list.dump(2) << "\n";
  require(file.good(), "cannot write {}", bench.json);
}

void take_part(Job& job, const CollectiveBench& bench) {
  const Operation& op = operation(bench.op);
  auto communicator = make_communicator(job);
  if (job.rank() == 0) {
    fmt::print("{} of f32 on {} ranks over {}, {} buffers, algorithm {}\n", bench.op, bench.ranks,
               bench.link, bench.buffers, bench.algorithm.empty() ? "auto" : bench.algorithm);
    fmt::print("{:>12} {:>12} {:>12} {:>12} {:>10}\n", "size", "min us", "p50 us", "p99 us",
               "bus GB/s");
  }
  std::vector<Row> rows;
  for (const std::size_t bytes : bench.sizes) {
    Subject subject(*communicator, bench, op, bytes);
    subject.check_result();
    rows.push_back(summarize(time_runs(*communicator, subject, bench.quick ? 0.2 : 1.0), bytes,
                             op.bus_factor(job.size())));
    const Row& row = rows.back();
    if (job.rank() == 0) {
      fmt::print("{:>12} {:>12.2f} {:>12.2f} {:>12.2f} {:>10.2f}\n", human(row.bytes), row.min_us,
                 row.p50_us, row.p99_us, row.bus_gb_s);
      std::fflush(stdout);
    }
    communicator->barrier().or_throw();
  }
  if (job.rank() == 0 && !bench.json.empty()) write_json(bench, rows);
}

int run_as_threads(const CollectiveBench& bench) {
  net::InprocHub hub;
  std::vector<std::thread> threads;
  std::vector<std::string> errors(static_cast<std::size_t>(bench.ranks));
  for (int rank = 0; rank < bench.ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        net::JoinOptions options;
        options.rank = rank;
        options.size = bench.ranks;
        options.links = net::LinkKind::inproc;
        options.hub = &hub;
        Job job = Job::join(options);
        take_part(job, bench);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  for (auto& thread : threads) thread.join();
  for (const std::string& error : errors)
    if (!error.empty()) throw Error(error);
  return 0;
}

// mpirun has started the ranks, so it says how many there are.
int run_under_mpirun(CollectiveBench bench) {
  Job job = Job::join(
      net::identity_from(net::with_variable(net::process_environment(), "ASUP_LINKS", bench.link)));
  bench.ranks = job.size();
  bench.buffers = "private";
  take_part(job, bench);
  return 0;
}

}  // namespace

std::vector<std::size_t> parse_sizes(const std::string& text) {
  std::vector<std::size_t> sizes;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    std::size_t number = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    const std::string_view unit(rest, static_cast<std::size_t>(word.data() + word.size() - rest));
    const int shift = unit.empty()  ? 0
                      : unit == "K" ? 10
                      : unit == "M" ? 20
                      : unit == "G" ? 30
                                    : -1;
    require(error == std::errc() && shift >= 0 && number >= 1 && number <= (1u << 20),
            "--sizes: '{}' is no size; write bytes as 512, 4K, 25M or 1G, separated by commas",
            word);
    require(number << shift >= sizeof(float), "--sizes: {} holds no element of 4 bytes", word);
    sizes.push_back(number << shift);
    begin = end + 1;
  }
  return sizes;
}

int run_collective_bench(const CollectiveBench& bench, const std::vector<std::string>& command) {
  operation(bench.op);
  require(bench.buffers == "shared" || bench.buffers == "private",
          "--buffers {}: there is shared and private", bench.buffers);
  require(
      bench.link == "shm" || bench.link == "tcp" || bench.link == "inproc" || bench.link == "mpi",
      "--link {}: there is shm, tcp, inproc and mpi", bench.link);
  require(bench.ranks >= 1 && bench.ranks <= 256, "--ranks {}: between 1 and 256", bench.ranks);
  if (!bench.algorithm.empty())
    collective::find_algorithm(operation(bench.op).collective, bench.algorithm);
  if (bench.link == "inproc") return run_as_threads(bench);
  if (bench.link == "mpi") return run_under_mpirun(bench);
  if (net::process_environment()("ASUP_RANK")) {
    Job job = Job::join();
    take_part(job, bench);
    return 0;
  }
  launch::LaunchOptions launch;
  launch.program = command;
  launch.ranks = bench.ranks;
  launch.links = bench.link;
  launch.inherit_rank_zero = true;
  launch.name = "asup bench";
  const launch::JobResult result = launch::run(launch);
  if (!result.message.empty()) fmt::print(stderr, "{}\n", result.message);
  return result.exit_status;
}

}  // namespace asup::cli
