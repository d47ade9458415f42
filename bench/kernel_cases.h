// A kernel to be timed, its buffers, and what it must have computed (kernels.cc).
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "asup/base/error.h"
#include "asup/kernels/cast.h"
#include "asup/kernels/isa/table.h"

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

}  // namespace
}  // namespace asup::kernels
