#include "tests/collective/sample.h"

#include <cstring>

#include "asup/collective/execute/envelope.h"
#include "tests/collective/cases.h"
#include "tests/collective/numbers.h"
#include "tests/collective/reference.h"

namespace asup::collective::testing {
namespace {

std::size_t draw_count(int ranks, std::mt19937& random) {
  switch (random() % 6) {
    case 0:
      return random() % 2;
    case 1:
      return random() % static_cast<unsigned>(ranks);
    case 2:
      return 997;
    case 3:
      return 70'001;  // several lanes
    default:
      return random() % 5000;
  }
}

void draw_counts(Spec& spec, std::mt19937& random) {
  const std::size_t n = static_cast<std::size_t>(spec.ranks);
  spec.count = 0;
  for (std::size_t b = 0; b < (spec.collective == Collective::all_to_all ? n * n : n); ++b) {
    spec.counts.push_back(random() % 3 == 0 ? 0 : random() % 700);
    spec.count += spec.counts.back();
  }
}

// Element i of rank r's input: in [0.5, 1.5), so that products stay in range too.
float element(const Sample& sample, int rank, std::size_t i) {
  std::uint64_t x = (static_cast<std::uint64_t>(sample.seed) << 32) + i * 64 +
                    static_cast<std::uint64_t>(rank) + 1;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return 0.5f + static_cast<float>((x ^ (x >> 31)) >> 40) / static_cast<float>(1u << 24);
}

double reduced(const Sample& sample, std::size_t i) {
  return testing::reduced(sample.op, sample.spec.ranks,
                          [&](int rank) { return element(sample, rank, i); });
}

// The rank and place that hold element i of the whole, where each rank has a block of it.
double gathered(const Sample& sample, const std::vector<AreaRange>& blocks, std::size_t i) {
  int rank = 0;
  while (i >= blocks[rank].end) ++rank;
  return element(sample, rank, i - blocks[rank].begin);
}

std::vector<double> expected(const Sample& sample, int rank) {
  const Spec& spec = sample.spec;
  std::vector<double> values(spec.elements(Area::output, rank));
  if (spec.collective == Collective::all_to_all) {
    const std::vector<AreaRange> arriving = spec.arriving(rank);
    for (int sender = 0; sender < spec.ranks; ++sender) {
      const AreaRange theirs = spec.leaving(sender)[rank];
      for (std::size_t i = 0; i < theirs.size(); ++i)
        values[arriving[sender].begin + i] = element(sample, sender, theirs.begin + i);
    }
    return values;
  }
  const std::vector<AreaRange> blocks = spec.blocks(Area::output);
  for (std::size_t i = 0; i < values.size(); ++i) {
    switch (spec.collective) {
      case Collective::all_reduce:
      case Collective::reduce:
        values[i] = reduced(sample, i);
        break;
      case Collective::reduce_scatter:
        values[i] = reduced(sample, blocks[rank].begin + i);
        break;
      case Collective::all_gather:
      case Collective::gather:
        values[i] = gathered(sample, blocks, i);
        break;
      case Collective::scatter:
        values[i] = element(sample, spec.root, blocks[rank].begin + i);
        break;
      default:
        values[i] = element(sample, spec.root, i);
    }
  }
  return values;
}

std::uint32_t hash_of_bits(std::span<const float> values) {
  return hash_of(std::string_view(reinterpret_cast<const char*>(values.data()),
                                  values.size() * sizeof(float)));
}

void expect_same_bits(Communicator& communicator, std::span<const float> values) {
  std::vector<std::int64_t> mine = {hash_of_bits(values)};
  std::vector<std::int64_t> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(buffer_of(std::span(mine)), buffer_of(std::span(all))).or_throw();
  for (const std::int64_t hash : all) EXPECT_EQ(hash, mine[0]) << "the bits differ between ranks";
}

void expect_close(const std::vector<double>& wanted, std::span<const float> got) {
  ASSERT_EQ(wanted.size(), got.size());
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted[i], 2e-6 * wanted[i]);
}

}  // namespace

Sample draw_sample(const Algorithm& algorithm, int ranks, bool can_share, std::mt19937& random) {
  constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max,
                               ReduceOp::product};
  Sample sample = {&algorithm, spec_for(algorithm, ranks, draw_count(ranks, random)),
                   can_share && (algorithm.needs_shared || random() % 4 == 0),
                   kOps[random() % std::size(kOps)], static_cast<unsigned>(random())};
  Spec& spec = sample.spec;
  if (algorithm.collective == Collective::barrier) spec.count = 0;
  if (has_root(algorithm.collective)) spec.root = static_cast<int>(random() % ranks);
  spec.in_place = random() % 2 == 0;
  if (has_counts(algorithm.collective) && random() % 2 == 0) draw_counts(spec, random);
  const bool one_size =
      algorithm.collective == Collective::gather || algorithm.collective == Collective::scatter;
  if (one_size && spec.counts.empty()) spec.count -= spec.count % ranks;
  // Where a rank has no elements, nothing is shared.
  if (algorithm.needs_shared) {
    if (spec.counts.empty() && spec.count == 0) spec.count = static_cast<std::size_t>(ranks);
    for (std::size_t& count : spec.counts) count += 1;
    spec.count += spec.counts.size();
  }
  return sample;
}

std::string describe(const Sample& sample) {
  return fmt::format("{}, by {}, {} memory, {}", describe(sample.spec), sample.algorithm->name,
                     sample.shared ? "shared" : "private", name_of(sample.op));
}

void run_sample(Communicator& communicator, const Sample& sample) {
  SCOPED_TRACE(describe(sample));
  const Spec& spec = sample.spec;
  const int rank = communicator.rank();
  Numbers<float> input(communicator, spec.elements(Area::input, rank), sample.shared);
  Numbers<float> output(communicator, spec.elements(Area::output, rank), sample.shared);
  const std::span<float> in = input.values;
  const std::span<float> out = spec.aliased() ? in : output.values;
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = element(sample, rank, i);

  Call call;
  call.collective = spec.collective;
  call.algorithm = sample.algorithm->name;
  call.input = buffer_of(in);
  call.output = buffer_of(out);
  call.root = spec.root;
  call.counts = spec.counts;
  call.op = sample.op;
  communicator.run(call).or_throw();

  const std::vector<double> wanted = expected(sample, rank);
  if (!spec.aliased(rank)) {
    for (std::size_t i = 0; i < in.size(); ++i) ASSERT_EQ(in[i], element(sample, rank, i));
  }
  if (!wanted.empty()) expect_close(wanted, out);
  if (spec.collective == Collective::all_reduce) expect_same_bits(communicator, out);
}

void run_every_algorithm(Communicator& communicator, bool can_share) {
  constexpr int kSamples = 4;
  const int ranks = communicator.size();
  std::mt19937 random(static_cast<unsigned>(ranks));
  for (const Algorithm& algorithm : algorithms()) {
    if (is_point_to_point(algorithm.collective)) continue;
    if ((algorithm.needs_shared || algorithm.needs_stage) && (!can_share || ranks == 1)) continue;
    for (int i = 0; i < kSamples; ++i)
      run_sample(communicator, draw_sample(algorithm, ranks, can_share, random));
  }
}

}  // namespace asup::collective::testing
