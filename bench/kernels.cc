// How fast the kernels are against memcpy, in the same run.
//
//   bench_kernels [--quick] [--json FILE] [--all-isa] [Google Benchmark's own flags]
//
// `bytes` is the size of one buffer. GB/s counts what the program reads and writes: 2 buffers for a
// copy, 3 for dst += b, and so on; `ratio` is that rate over the rate at which memcpy reads and
// writes as many bytes, or for codes and sparse gradients a plain loop over as many streams
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
#include "asup/kernels/code.h"
#include "asup/kernels/copy.h"
#include "asup/kernels/instruction_set.h"
#include "asup/kernels/isa/table.h"
#include "asup/kernels/reduce.h"
#include "asup/kernels/update.h"

namespace asup::kernels {
namespace {

constexpr std::size_t kMostSources = 8;

// Buffers of ones: every result is known.
class Buffers {
 public:
  Buffers(Dtype dtype, std::size_t count, std::size_t buffers) : dtype_(dtype) {
    const std::vector<float> ones(count, 1.0f);
    for (std::size_t i = 0; i < buffers; ++i) {
      memory_.emplace_back(count * size_of(dtype));
      cast(Dtype::f32, ones.data(), dtype, memory_.back().data(), count);
      pointers_.push_back(memory_.back().data());
    }
  }

  void* operator[](std::size_t i) { return memory_[i].data(); }
  const std::vector<const void*>& pointers() const { return pointers_; }

  void expect(std::size_t buffer, float value) const {
    std::vector<float> values(memory_[buffer].size() / size_of(dtype_));
    cast(dtype_, memory_[buffer].data(), Dtype::f32, values.data(), values.size());
    const auto wrong = std::ranges::find_if(values, [&](float x) { return x != value; });
    check(wrong == values.end(), "bench: wrong result {} where {} was expected",
          wrong == values.end() ? value : *wrong, value);
  }

 private:
  Dtype dtype_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<const void*> pointers_;
};

struct Case {
  std::string op, isa;
  std::size_t bytes;    // of one buffer: of the wider one where a cast's differ
  std::size_t traffic;  // bytes read and written
  std::string against = "memcpy";
  std::vector<double> seconds = {};
};

class Cases {
 public:
  void add(Case item, std::function<void(benchmark::State&)> run) {
    const std::string name = fmt::format("{}/{}/{}", item.op, item.isa, item.bytes);
    cases_.push_back(std::move(item));
    index_[name] = cases_.size() - 1;
    benchmark::RegisterBenchmark(name.c_str(), std::move(run));
  }

  void record(const std::string& name, double seconds) {
    cases_[index_.at(name)].seconds.push_back(seconds);
  }

  nlohmann::json rows() const {
    nlohmann::json rows = nlohmann::json::array();
    std::map<std::pair<std::string, std::size_t>, double> yardsticks;  // by name and traffic
    for (const Case& item : cases_)
      if (!item.seconds.empty())
        yardsticks[{item.op, item.traffic}] = std::ranges::min(item.seconds);
    for (const Case& item : cases_) {
      if (item.seconds.empty()) continue;
      const double shortest = std::ranges::min(item.seconds);
      nlohmann::json row = {{"op", item.op},
                            {"isa", item.isa},
                            {"bytes", item.bytes},
                            {"p50_us", median(item) * 1e6},
                            {"min_us", shortest * 1e6},
                            {"gb_per_s", static_cast<double>(item.traffic) / shortest * 1e-9}};
      const auto yardstick = yardsticks.find({item.against, item.traffic});
      if (yardstick != yardsticks.end()) row["ratio"] = yardstick->second / shortest;
      rows.push_back(std::move(row));
    }
    return rows;
  }

 private:
  static double median(const Case& item) {
    std::vector<double> seconds = item.seconds;
    std::ranges::nth_element(seconds, seconds.begin() + static_cast<long>(seconds.size() / 2));
    return seconds[seconds.size() / 2];
  }

  std::vector<Case> cases_;
  std::map<std::string, std::size_t> index_;
};

template <typename Body>
void time_it(benchmark::State& state, Body body) {
  for (auto _ : state) {
    body();
    benchmark::ClobberMemory();
  }
}

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

constexpr Code kCodes[] = {Code::bf16, Code::f16, Code::int8, Code::int4, Code::onebit};
constexpr std::size_t kSummedCodes = 3;

// How much a code's cases read and write.
struct Codes {
  Codes(Code which, std::size_t bytes)
      : code(which), count(bytes / sizeof(float)), block(coded_bytes(which, kCodeBlock)) {
    const std::size_t coded = coded_bytes(which, count);
    encode_traffic = 3 * bytes + coded;
    decode_traffic = bytes + coded;
    sum_traffic = 3 * bytes + kSummedCodes * coded;
  }

  Code code;
  std::size_t count, block;  // numbers; bytes of a block's code
  std::size_t encode_traffic, decode_traffic, sum_traffic;
};

// In vectors, whatever the compiler would make of a loop over floats.
// needs: a count that whole vectors have
void mean_of_two(float* to, const float* a, const float* b, std::size_t count) {
  using Floats = float __attribute__((vector_size(64)));
  for (std::size_t i = 0; i < count; i += sizeof(Floats) / sizeof(float)) {
    Floats x, y;
    std::memcpy(&x, a + i, sizeof x);
    std::memcpy(&y, b + i, sizeof y);
    x = (x + y) * 0.5f;
    std::memcpy(to + i, &x, sizeof x);
  }
}

// Loops that touch what those of codes do, and compute next to nothing: what no code can exceed.
// A block's code is copied from or to memory that lies in the first cache.
void add_plain_codes(Cases& cases, const Codes& codes, std::size_t bytes) {
  const auto name = [&](const char* op) {
    return fmt::format("plain {} {}", op, name_of(codes.code));
  };
  const auto over_blocks = [codes](auto visit) {
    for (std::size_t i = 0, at = 0; i < codes.count; i += kCodeBlock, at += codes.block)
      visit(i, at);
  };
  cases.add({name("encode"), "-", bytes, codes.encode_traffic}, [=](benchmark::State& state) {
    std::vector<float> from(codes.count, 1.0f), lost(codes.count, 1.0f);
    std::vector<std::byte> code(coded_bytes(codes.code, codes.count));
    time_it(state, [&] {
      over_blocks([&](std::size_t i, std::size_t at) {
        mean_of_two(&lost[i], &from[i], &lost[i], kCodeBlock);
        std::memcpy(&code[at], &lost[i], codes.block);
      });
    });
  });
  cases.add({name("decode"), "-", bytes, codes.decode_traffic}, [=](benchmark::State& state) {
    std::vector<float> to(codes.count);
    std::vector<std::byte> code(coded_bytes(codes.code, codes.count));
    float tile[kCodeBlock] = {};
    time_it(state, [&] {
      over_blocks([&](std::size_t i, std::size_t at) {
        std::memcpy(tile, &code[at], codes.block);
        std::memcpy(&to[i], tile, sizeof tile);
      });
    });
  });
  cases.add({name("sum"), "-", bytes, codes.sum_traffic}, [=](benchmark::State& state) {
    std::vector<float> to(codes.count), own(codes.count, 1.0f), carried(codes.count, 1.0f);
    const std::vector<std::vector<std::byte>> code(
        kSummedCodes, std::vector<std::byte>(coded_bytes(codes.code, codes.count)));
    float tile[kCodeBlock] = {};
    time_it(state, [&] {
      over_blocks([&](std::size_t i, std::size_t at) {
        for (const auto& each : code) {
          std::memcpy(tile, &each[at], codes.block);
          benchmark::DoNotOptimize(tile);
        }
        mean_of_two(&to[i], &own[i], &carried[i], kCodeBlock);
      });
    });
  });
}

void expect_near(const std::vector<float>& values, float wanted) {
  for (const float value : values)
    check(std::abs(value - wanted) < 1e-5f, "bench: wrong result {} where {} was expected", value,
          wanted);
}

void add_codes(Cases& cases, const Table& table, const Codes& codes, std::size_t bytes) {
  const std::size_t count = codes.count, coded = coded_bytes(codes.code, count);
  const auto add = [&](const char* op, std::size_t traffic, auto run) {
    const std::string name = fmt::format("{} {}", op, name_of(codes.code));
    cases.add({name, table.name, bytes, traffic, "plain " + name}, run);
  };
  // With feedback, in place.
  add("encode", codes.encode_traffic, [=, &table](benchmark::State& state) {
    std::vector<float> from(count, 1.0f), lost(count, 1.0f), sum(count);
    std::vector<std::byte> code(coded);
    const Encoding how{.carried = lost.data(), .lost = lost.data()};
    const auto run = [&] {
      table.encode(codes.code, code.data(), from.data(), count, how, nullptr);
    };
    run();
    const std::byte* const all[] = {code.data()};
    table.sum_codes(codes.code, sum.data(), lost.data(), nullptr, all, 1, count, 1);
    expect_near(sum, 2);
    time_it(state, run);
  });
  const auto code_of_ones = [=, &table] {
    const std::vector<float> ones(count, 1.0f);
    std::vector<std::byte> code(coded);
    table.encode(codes.code, code.data(), ones.data(), count, {}, nullptr);
    return code;
  };
  add("decode", codes.decode_traffic, [=, &table](benchmark::State& state) {
    const std::vector<std::byte> code = code_of_ones();
    std::vector<float> to(count);
    const auto run = [&] { table.decode(codes.code, to.data(), code.data(), count); };
    run();
    expect_near(to, 1);
    time_it(state, run);
  });
  add("sum", codes.sum_traffic, [=, &table](benchmark::State& state) {
    const std::vector<std::vector<std::byte>> code(kSummedCodes, code_of_ones());
    const std::byte* const all[kSummedCodes] = {code[0].data(), code[1].data(), code[2].data()};
    std::vector<float> to(count), own(count, 1.0f), carried(count, 1.0f);
    const auto run = [&] {
      table.sum_codes(codes.code, to.data(), own.data(), carried.data(), all, kSummedCodes, count,
                      0.2f);
    };
    run();
    expect_near(to, 1);
    time_it(state, run);
  });
}

// Sparse gradients, one in 1,000 of which is found: a gradient that becomes zeros, a momentum and a
// sum that are read here and written there.
struct Accumulated {
  explicit Accumulated(std::size_t count)
      : gradient(count), u(count, 0.5f), v(count, 0.5f), u_after(count), v_after(count) {
    for (std::size_t i = 0; i < count; i += 1000) v[i] = 4;
  }
  std::vector<float> gradient, u, v, u_after, v_after;
};

void add_plain_sparse(Cases& cases, std::size_t bytes) {
  cases.add({"plain sparse", "-", bytes, 6 * bytes}, [=](benchmark::State& state) {
    constexpr std::size_t kTile = 1024;
    const std::size_t count = bytes / sizeof(float);
    Accumulated all(count);
    time_it(state, [&] {
      for (std::size_t i = 0; i < count; i += kTile) {
        mean_of_two(&all.u_after[i], &all.u[i], &all.gradient[i], kTile);
        mean_of_two(&all.v_after[i], &all.v[i], &all.u_after[i], kTile);
        std::memset(&all.gradient[i], 0, kTile * sizeof(float));
      }
    });
  });
}

void add_sparse(Cases& cases, const Table& table, std::size_t bytes) {
  cases.add({"sparse", table.name, bytes, 6 * bytes, "plain sparse"},
            [=, &table](benchmark::State& state) {
              const std::size_t count = bytes / sizeof(float);
              Accumulated all(count);
              std::vector<std::uint32_t> found(count / 500 + 8);
              const auto run = [&] {
                return table.accumulate(
                    {0.9f, 1, 1, 0}, all.gradient.data(), {all.u.data(), all.u_after.data()},
                    {all.v.data(), all.v_after.data()}, count, 3, found.data(), found.size());
              };
              check(run() == (count + 999) / 1000, "bench: {} found of {}", run(), count);
              time_it(state, [&] { (void)run(); });
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
    for (const Table* table : all_isa ? tables : tables.last(1)) add_sparse(cases, *table, bytes);
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
