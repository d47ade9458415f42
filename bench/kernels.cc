// How fast the kernels are against memcpy, in the same run.
//
//   bench_kernels [--quick] [--json FILE] [--all-isa] [Google Benchmark's own flags]
//
// `bytes` is the size of one buffer. GB/s counts what the program reads and writes: 2 buffers for a
// copy, 3 for dst += b, and so on; `ratio` is that rate over the rate at which memcpy reads and
// writes as many bytes, or for codes, sparse gradients and momenta a plain loop over as many
// streams
// ("plain"). Cases take turns, so that what else the machine does hits all of them.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "asup/base/error.h"
#include "asup/kernels/cast.h"
#include "asup/kernels/copy.h"
#include "asup/kernels/instruction_set.h"
#include "asup/kernels/isa/table.h"
#include "asup/kernels/reduce.h"
#include "asup/kernels/update.h"
#include "bench/kernel_cases.h"
#include "bench/kernel_codes.h"

namespace asup::kernels {
namespace {

void add_memcpy(Cases& cases, std::size_t traffic) {
  const std::size_t bytes = traffic / 2;
  cases.add({"memcpy", "libc", bytes, traffic}, [=](benchmark::State& state) {
    Buffers buffers(Dtype::u8, bytes, 2);
    time_it(state, [&] { std::memcpy(buffers[0], buffers[1], bytes); });
  });
}

void add_copy(Cases& cases, std::size_t bytes) {
  cases.add({"copy", "-", bytes, 2 * bytes}, [=](benchmark::State& state) {
    Buffers buffers(Dtype::u8, bytes, 2);
    std::memset(buffers[0], 0, bytes);
    copy(buffers[0], buffers[1], bytes);
    buffers.expect(0, 1.0f);
    time_it(state, [&] { copy(buffers[0], buffers[1], bytes); });
  });
}

// In place, as ranks reduce: the destination is the first source. The average of ones stays 1
// however often it runs.
void add_reduce(Cases& cases, const Table& table, Dtype dtype, std::size_t sources,
                std::size_t bytes) {
  const std::size_t count = bytes / size_of(dtype);
  cases.add({fmt::format("reduce{} {}", sources, name_of(dtype)), table.name, bytes,
             (sources + 1) * bytes},
            [=, &table](benchmark::State& state) {
              const int divisor = static_cast<int>(sources);
              Buffers buffers(dtype, count, sources);
              const auto run = [&] {
                table.reduce(dtype, ReduceOp::average, buffers[0], buffers.pointers().data(),
                             sources, count, is_floating(dtype) ? divisor : 1);
              };
              run();
              buffers.expect(0, is_floating(dtype) ? 1.0f : static_cast<float>(divisor));
              time_it(state, run);
            });
}

void add_cast(Cases& cases, const Table& table, Dtype from, Dtype to, std::size_t bytes) {
  const std::size_t count = bytes / std::max(size_of(from), size_of(to));
  cases.add({fmt::format("cast {}-{}", name_of(from), name_of(to)), table.name, bytes,
             count * (size_of(from) + size_of(to))},
            [=, &table](benchmark::State& state) {
              Buffers source(from, count, 1), destination(to, count, 1);
              std::memset(destination[0], 0, count * size_of(to));
              const auto run = [&] { table.cast(from, source[0], to, destination[0], count); };
              run();
              destination.expect(0, 1.0f);
              time_it(state, run);
            });
}

// Without memory of earlier steps, so that one step at a rate of 1/2 takes ones to 1/2. `sources`
// gradients, new parameters written to `copies` places more.
void add_update(Cases& cases, const Table& table, const std::string& op, const Rule& rule,
                std::size_t sources, std::size_t copies, std::size_t bytes) {
  const std::size_t count = bytes / sizeof(float), slots = state_slots(rule);
  const std::size_t traffic = (sources + 2 * (1 + slots) + copies) * bytes;
  cases.add({op, table.name, bytes, traffic}, [=, &table](benchmark::State& state) {
    Buffers buffers(Dtype::f32, count, 1 + slots + copies + sources);
    std::vector<float*> rows;
    for (std::size_t i = 0; i < 1 + slots + copies + sources; ++i)
      rows.push_back(static_cast<float*>(buffers[i]));
    std::vector<GradientSource> gradient;
    for (std::size_t i = 0; i < sources; ++i)
      gradient.push_back({rows[1 + slots + copies + i], 1.0f / static_cast<float>(sources)});
    const auto run = [&] {
      table.update(rule, {.lr = 0.5}, rows[0], rows.data() + 1, gradient.data(), sources,
                   rows.data() + 1 + slots, copies, count);
    };
    run();
    buffers.expect(0, 0.5f);
    for (std::size_t i = 0; i < copies; ++i) buffers.expect(1 + slots + i, 0.5f);
    time_it(state, run);
  });
}

void add_updates(Cases& cases, const Table& table, std::size_t bytes) {
  using Kind = Rule::Kind;
  const Rule momentum{.kind = Kind::momentum};
  const Rule adam{.kind = Kind::adam, .eps = 0, .beta1 = 0, .beta2 = 0};
  const Rule asup{.kind = Kind::asup, .alpha = 0, .eps = 0};
  add_update(cases, table, "sgd", {}, 1, 0, bytes);
  add_update(cases, table, "momentum", momentum, 1, 0, bytes);
  add_update(cases, table, "momentum 2to2", momentum, 2, 2, bytes);
  add_update(cases, table, "adam", adam, 1, 0, bytes);
  add_update(cases, table, "asup", asup, 1, 0, bytes);
}

void add_scans(Cases& cases, const Table& table, std::size_t bytes) {
  const std::size_t count = bytes / sizeof(float);
  cases.add({"not finite", table.name, bytes, bytes}, [=, &table](benchmark::State& state) {
    Buffers buffers(Dtype::f32, count, 1);
    std::size_t found = 0;
    time_it(state,
            [&] { found += table.count_not_finite(static_cast<const float*>(buffers[0]), count); });
    check(found == 0, "bench: {} ones are not finite", found);
  });
  cases.add({"squares", table.name, bytes, 2 * bytes}, [=, &table](benchmark::State& state) {
    Buffers buffers(Dtype::f32, count, 2);
    const GradientSource source{static_cast<const float*>(buffers[1])};
    SquareSums sums;
    time_it(state, [&] {
      table.sums_of_squares(static_cast<const float*>(buffers[0]), &source, 1, count, sums);
    });
    check(sums.parameters == static_cast<double>(count), "bench: the squares of {} ones are {}",
          count, sums.parameters);
  });
}

void add_all(Cases& cases, bool all_isa) {
  constexpr std::size_t kSizes[] = {std::size_t{16} << 10, std::size_t{1} << 20,
                                    std::size_t{32} << 20};
  const auto tables = supported_tables();
  for (const std::size_t bytes : kSizes) {
    // Of 1 buffer (a scan), 1.25 (cast to i8), 1.5 (to halves), 2 (copy), 1 more than the sources
    // of a sum, and of updates.
    for (const std::size_t quarters : {4, 5, 6, 8, 12, 20, 28, 32, 36})
      add_memcpy(cases, bytes * quarters / 4);
    add_copy(cases, bytes);
    for (const Table* table : all_isa ? tables : tables.last(1)) {
      for (const std::size_t sources : {std::size_t{2}, std::size_t{4}, kMostSources})
        for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16})
          add_reduce(cases, *table, dtype, sources, bytes);
      add_reduce(cases, *table, Dtype::f64, 2, bytes);
      add_reduce(cases, *table, Dtype::i64, 2, bytes);
      for (const Dtype half : {Dtype::bf16, Dtype::f16}) {
        add_cast(cases, *table, Dtype::f32, half, bytes);
        add_cast(cases, *table, half, Dtype::f32, bytes);
      }
      add_cast(cases, *table, Dtype::f64, Dtype::f32, bytes);
      add_cast(cases, *table, Dtype::f32, Dtype::i8, bytes);
      add_updates(cases, *table, bytes);
      add_scans(cases, *table, bytes);
    }
  }
  for (const std::size_t bytes :
       {std::size_t{16} << 10, std::size_t{1} << 20, std::size_t{64} << 20}) {
    for (const Code code : kCodes) {
      const Codes codes(code, bytes);
      add_plain_codes(cases, codes, bytes);
      for (const Table* table : all_isa ? tables : tables.last(1))
        add_codes(cases, *table, codes, bytes);
    }
    add_plain_sparse(cases, bytes);
    add_plain_momentum(cases, bytes);
    for (const Table* table : all_isa ? tables : tables.last(1)) {
      add_sparse(cases, *table, bytes);
      add_momentum(cases, *table, bytes);
    }
  }
}

// Keeps the times of every repetition; the table is printed at the end, when memcpy's are known.
class Recorder : public benchmark::BenchmarkReporter {
 public:
  explicit Recorder(Cases& cases) : cases_(cases) {}

  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type == Run::RT_Iteration)
        cases_.record(run.run_name.function_name,
                      run.real_accumulated_time / static_cast<double>(run.iterations));
    }
  }

 private:
  Cases& cases_;
};

void print(const nlohmann::json& rows) {
  fmt::print("kernels on {}\n{:<19} {:<8} {:>10} {:>12} {:>12} {:>8} {:>7}\n", instruction_set(),
             "op", "isa", "bytes", "p50_us", "min_us", "GB/s", "ratio");
  for (const auto& row : rows)
    fmt::print("{:<19} {:<8} {:>10} {:>12.2f} {:>12.2f} {:>8.1f} {:>7.2f}\n",
               row["op"].get<std::string>(), row["isa"].get<std::string>(),
               row["bytes"].get<std::size_t>(), row["p50_us"].get<double>(),
               row["min_us"].get<double>(), row["gb_per_s"].get<double>(), row.value("ratio", 0.0));
}

int run(int argc, char** argv) {
  bool quick = false, all_isa = false;
  std::string json;
  std::vector<char*> others = {argv[0]};
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--quick")
      quick = true;
    else if (argument == "--all-isa")
      all_isa = true;
    else if (argument == "--json" && i + 1 < argc)
      json = argv[++i];
    else
      others.push_back(argv[i]);
  }
  std::string repetitions = fmt::format("--benchmark_repetitions={}", quick ? 3 : 9);
  std::string minimum = fmt::format("--benchmark_min_time={}", quick ? 0.01 : 0.05);
  std::string interleave = "--benchmark_enable_random_interleaving=true";
  others.insert(others.begin() + 1, {repetitions.data(), minimum.data(), interleave.data()});

  Cases cases;
  add_all(cases, all_isa);
  int count = static_cast<int>(others.size());
  benchmark::Initialize(&count, others.data());
  if (benchmark::ReportUnrecognizedArguments(count, others.data())) return 2;
  Recorder recorder(cases);
  benchmark::RunSpecifiedBenchmarks(&recorder);

  const nlohmann::json rows = cases.rows();
  print(rows);
  if (json.empty()) return 0;
  std::ofstream file(json);
  file << rows.dump(2) << '\n';
  if (file.flush()) return 0;
  fmt::print(stderr, "bench_kernels: cannot write {}\n", json);
  return 1;
}

}  // namespace
}  // namespace asup::kernels

int main(int argc, char** argv) try {
  return asup::kernels::run(argc, argv);
} catch (const asup::Error& error) {
  fmt::print(stderr, "bench_kernels: {}\n", error.what());
  return 1;
}
