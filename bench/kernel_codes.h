// Cases of codes, sparse gradients and momenta, beside plain loops over as many streams
// (kernels.cc).
#pragma once

#include "asup/kernels/code.h"
#include "bench/kernel_cases.h"

namespace asup::kernels {
namespace {

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

// What leaves in place of gradients: these become momenta, which are read here and written there.
void add_plain_momentum(Cases& cases, std::size_t bytes) {
  cases.add({"plain momentum sent", "-", bytes, 4 * bytes}, [=](benchmark::State& state) {
    constexpr std::size_t kTile = 1024;
    const std::size_t count = bytes / sizeof(float);
    std::vector<float> gradient(count), u(count, 0.5f), u_after(count);
    time_it(state, [&] {
      for (std::size_t i = 0; i < count; i += kTile) {
        mean_of_two(&u_after[i], &u[i], &gradient[i], kTile);
        std::memcpy(&gradient[i], &u_after[i], kTile * sizeof(float));
      }
    });
  });
}

void add_momentum(Cases& cases, const Table& table, std::size_t bytes) {
  cases.add({"momentum sent", table.name, bytes, 4 * bytes, "plain momentum sent"},
            [=, &table](benchmark::State& state) {
              const std::size_t count = bytes / sizeof(float);
              std::vector<float> gradient(count, 1.0f), u(count, 0.5f), u_after(count);
              const auto run = [&] {
                table.add_momentum(LeavingMomentum::plain, 0.5f, gradient.data(),
                                   {u.data(), u_after.data()}, count);
              };
              run();
              expect_near(gradient, 1.25f);
              expect_near(u_after, 1.25f);
              time_it(state, run);
            });
}

}  // namespace
}  // namespace asup::kernels
