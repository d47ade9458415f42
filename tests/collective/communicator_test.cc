// The communicator over every kind of link: results against a double-precision reference.
#include "asup/collective/communicator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>

#include "asup/collective/mesh/mesh_communicator.h"
#include "tests/collective/communication.h"

namespace asup::collective {
namespace {

class Communication : public testing::CommunicationTest {};

TEST_P(Communication, AllReducesEveryLength) {
  run_ranks([&](Job& job) {
    auto communicator = make_communicator(job);
    for (const std::size_t count : {0ul, 1ul, 2ul, 3ul, 7ul, 64ul, 1000ul, 65537ul, 1000003ul}) {
      auto data = numbers<float>(*communicator, count);
      for (std::size_t i = 0; i < count; ++i)
        data.values[i] = static_cast<float>(element(job.rank(), i));
      communicator->all_reduce(data.buffer()).or_throw();
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(data.values[i], reduced(ReduceOp::sum, job.size(), i))
            << "at " << i << " of " << count;
    }
  });
}

TEST_P(Communication, ReducesByEveryOperator) {
  run_ranks([&](Job& job) {
    auto communicator = make_communicator(job);
    for (const ReduceOp op :
         {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max, ReduceOp::product}) {
      auto data = numbers<double>(*communicator, 1001);
      for (std::size_t i = 0; i < data.values.size(); ++i) data.values[i] = element(job.rank(), i);
      communicator->all_reduce(data.buffer(), op).or_throw();
      for (std::size_t i = 0; i < data.values.size(); ++i)
        ASSERT_DOUBLE_EQ(data.values[i], reduced(op, job.size(), i)) << name_of(op) << " at " << i;
    }
  });
}

TEST_P(Communication, AllRanksEndWithTheSameBits) {
  std::vector<std::vector<float>> results(static_cast<std::size_t>(ranks()));
  run_ranks([&](Job& job) {
    auto communicator = make_communicator(job);
    auto data = numbers<float>(*communicator, 10007);
    std::mt19937 random(static_cast<unsigned>(job.rank()));
    std::normal_distribution<float> normal;
    for (float& value : data.values) value = normal(random);
    communicator->all_reduce(data.buffer(), ReduceOp::average).or_throw();
    results[static_cast<std::size_t>(job.rank())].assign(data.values.begin(), data.values.end());
  });
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
}

// The input is this rank's block of the output, by every algorithm.
TEST_P(Communication, GathersInPlace) {
  run_ranks([&](Job& job) {
    auto communicator = make_communicator(job);
    for (const Algorithm& algorithm : algorithms()) {
      if (algorithm.collective != Collective::all_gather) continue;
      if (algorithm.needs_shared && (!GetParam().shared || job.size() == 1)) continue;
      Call call;
      call.collective = Collective::all_gather;
      call.algorithm = algorithm.name;
      std::size_t total = 0, before = 0;
      for (int r = 0; r < job.size(); ++r) {
        call.counts.push_back(r == 1 ? 0 : 40'000 + 17 * static_cast<std::size_t>(r));
        if (r < job.rank()) before += call.counts.back();
        total += call.counts.back();
      }
      auto whole = numbers<float>(*communicator, total);
      const std::size_t mine = call.counts[static_cast<std::size_t>(job.rank())];
      std::fill(whole.values.begin(), whole.values.end(), -1.0f);
      for (std::size_t i = before; i < before + mine; ++i) whole.values[i] = static_cast<float>(i);
      call.output = whole.buffer();
      call.input = call.output;
      call.input.data = whole.values.data() + before;
      call.input.count = mine;
      communicator->run(call).or_throw();
      for (std::size_t i = 0; i < total; ++i)
        ASSERT_EQ(whole.values[i], static_cast<float>(i)) << algorithm.name << " at " << i;
    }
  });
}

TEST_P(Communication, GathersAndScattersUnevenBlocks) {
  run_ranks([&](Job& job) {
    auto communicator = make_communicator(job);
    std::vector<std::size_t> counts;
    std::size_t total = 0, before = 0;
    for (int r = 0; r < job.size(); ++r) {
      counts.push_back(static_cast<std::size_t>(r) * 5 % 3 * 100 + static_cast<std::size_t>(r));
      if (r < job.rank()) before += counts.back();
      total += counts.back();
    }
    const std::size_t mine = counts[static_cast<std::size_t>(job.rank())];

    auto whole = numbers<std::int32_t>(*communicator, total);
    auto block = numbers<std::int32_t>(*communicator, mine);
    for (std::size_t i = 0; i < total; ++i)
      whole.values[i] = static_cast<std::int32_t>(element(job.rank(), i));
    communicator->reduce_scatter(whole.buffer(), block.buffer(), ReduceOp::sum, counts).or_throw();
    for (std::size_t i = 0; i < mine; ++i)
      ASSERT_EQ(block.values[i], reduced(ReduceOp::sum, job.size(), before + i));

    std::fill(whole.values.begin(), whole.values.end(), -1);
    communicator->all_gather(block.buffer(), whole.buffer(), counts).or_throw();
    for (std::size_t i = 0; i < total; ++i)
      ASSERT_EQ(whole.values[i], reduced(ReduceOp::sum, job.size(), i));
  });
}

TEST_P(Communication, BroadcastsFromEveryRoot) {
  run_ranks([&](Job& job) {
    auto communicator = make_communicator(job);
    for (const std::size_t count : {1ul, 300'000ul})
      for (int root = 0; root < job.size(); ++root) {
        auto data = numbers<std::int64_t>(*communicator, count);
        for (std::size_t i = 0; i < count; ++i)
          data.values[i] = static_cast<std::int64_t>(element(job.rank(), i));
        communicator->broadcast(data.buffer(), root).or_throw();
        for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(data.values[i], element(root, i));
      }
  });
}

TEST_P(Communication, ReducesToEveryRootAndLeavesTheOthersAlone) {
  run_ranks([&](Job& job) {
    auto communicator = make_communicator(job);
    for (int root = 0; root < job.size(); ++root) {
      auto data = numbers<double>(*communicator, 1001);
      for (std::size_t i = 0; i < data.values.size(); ++i) data.values[i] = element(job.rank(), i);
      communicator->reduce(data.buffer(), root, ReduceOp::average).or_throw();
      for (std::size_t i = 0; i < data.values.size(); ++i)
        ASSERT_DOUBLE_EQ(data.values[i], job.rank() == root
                                             ? reduced(ReduceOp::average, job.size(), i)
                                             : element(job.rank(), i));
    }
  });
}

TEST_P(Communication, GathersToARootAndScattersFromIt) {
  run_ranks([&](Job& job) {
    auto communicator = make_communicator(job);
    const auto n = static_cast<std::size_t>(job.size());
    const int root = job.size() - 1;
    const bool is_root = job.rank() == root;
    auto block = numbers<std::int32_t>(*communicator, 10);
    auto whole = numbers<std::int32_t>(*communicator, is_root ? 10 * n : 0);
    std::fill(block.values.begin(), block.values.end(), job.rank());
    communicator->gather(block.buffer(), whole.buffer(), root).or_throw();
    for (std::size_t i = 0; i < whole.values.size(); ++i) {
      ASSERT_EQ(whole.values[i], static_cast<std::int32_t>(i / 10));
      whole.values[i] += 100;
    }
    communicator->scatter(is_root ? whole.buffer() : Buffer{}, block.buffer(), root).or_throw();
    for (const std::int32_t value : block.values) ASSERT_EQ(value, job.rank() + 100);
  });
}

TEST_P(Communication, ExchangesBlocksOfOneSizeAndOfAny) {
  run_ranks([&](Job& job) {
    auto communicator = make_communicator(job);
    const auto n = static_cast<std::size_t>(job.size());
    auto leaving = numbers<std::int32_t>(*communicator, 3 * n);
    auto arriving = numbers<std::int32_t>(*communicator, 3 * n);
    for (std::size_t i = 0; i < 3 * n; ++i)
      leaving.values[i] = static_cast<std::int32_t>(i / 3) + 100 * job.rank();
    communicator->all_to_all(leaving.buffer(), arriving.buffer()).or_throw();
    for (std::size_t i = 0; i < 3 * n; ++i)
      ASSERT_EQ(arriving.values[i], job.rank() + 100 * static_cast<std::int32_t>(i / 3));

    // Rank s sends s + 2r elements to rank r.
    std::vector<std::size_t> to, from;
    std::size_t all_to = 0, all_from = 0;
    const auto rank = static_cast<std::size_t>(job.rank());
    for (std::size_t r = 0; r < n; ++r) {
      all_to += to.emplace_back(rank + 2 * r);
      all_from += from.emplace_back(r + 2 * rank);
    }
    auto out = numbers<std::int32_t>(*communicator, all_to);
    auto in = numbers<std::int32_t>(*communicator, all_from);
    std::fill(out.values.begin(), out.values.end(), job.rank());
    communicator->all_to_all_v(out.buffer(), to, in.buffer(), from).or_throw();
    std::size_t at = 0;
    for (std::size_t r = 0; r < n; ++r)
      for (std::size_t i = 0; i < from[r]; ++i)
        ASSERT_EQ(in.values[at++], static_cast<std::int32_t>(r));
  });
}

TEST_P(Communication, NoRankPassesABarrierBeforeAllHaveCome) {
  std::atomic<int> arrived{0};
  run_ranks([&](Job& job) {
    auto communicator = make_communicator(job);
    for (int round = 1; round <= 20; ++round) {
      ++arrived;
      communicator->barrier().or_throw();
      EXPECT_GE(arrived.load(), round * job.size());
    }
  });
}

TEST_P(Communication, StartedCallsKeepTheirOrder) {
  run_ranks([&](Job& job) {
    auto communicator = make_communicator(job);
    constexpr std::size_t kCalls = 30;
    auto data = numbers<float>(*communicator, kCalls * 1000);
    for (std::size_t i = 0; i < data.values.size(); ++i)
      data.values[i] = static_cast<float>(element(job.rank(), i));
    std::vector<Work> works;
    for (std::size_t call = 0; call < kCalls; ++call)
      works.push_back(
          communicator->start_all_reduce(buffer_of(data.values.subspan(call * 1000, 1000))));
    std::vector<float> last{1};
    communicator->all_reduce(buffer_of(std::span(last))).or_throw();
    EXPECT_EQ(last[0], job.size());
    for (Work& work : works) {
      EXPECT_TRUE(work.done());
      work.wait().or_throw();
    }
    for (std::size_t i = 0; i < data.values.size(); ++i)
      ASSERT_EQ(data.values[i], reduced(ReduceOp::sum, job.size(), i));
  });
}

TEST_P(Communication, ReducesManyBuffersTogether) {
  run_ranks([&](Job& job) {
    auto communicator = make_communicator(job);
    const std::vector<std::size_t> sizes = {3, 0, 1000, 1, 65537};
    auto data = numbers<float>(*communicator, 66541);
    std::vector<Buffer> parts;  // in another order than they lie in
    for (std::size_t part = sizes.size(), begin = 0; part-- > 0; begin += sizes[part])
      parts.push_back(buffer_of(data.values.subspan(begin, sizes[part])));
    for (int round = 0; round < 2; ++round) {
      for (std::size_t i = 0; i < data.values.size(); ++i)
        data.values[i] = static_cast<float>(element(job.rank(), i));
      std::vector<float> beside{1};
      Work first = communicator->start_all_reduce_together(parts, ReduceOp::average);
      Work second = communicator->start_all_reduce_together({buffer_of(std::span(beside))});
      second.wait().or_throw();
      EXPECT_TRUE(first.done());
      EXPECT_EQ(beside[0], job.size());
      for (std::size_t i = 0; i < data.values.size(); ++i)
        ASSERT_FLOAT_EQ(data.values[i], reduced(ReduceOp::average, job.size(), i)) << i;
    }
    communicator->all_reduce_together({}).or_throw();
  });
}

TEST_P(Communication, SendsBothWaysAtOnce) {
  if (ranks() < 2) return;
  run_ranks([&](Job& job) {
    auto communicator = make_communicator(job);
    const int right = (job.rank() + 1) % job.size();
    const int left = (job.rank() + job.size() - 1) % job.size();
    std::vector<float> out(2'000'000, static_cast<float>(job.rank())), in(out.size());
    Work receiving = communicator->start_recv(buffer_of(std::span(in)), left);
    Work sending = communicator->start_send(buffer_of(std::span(out)), right);
    receiving.wait().or_throw();
    sending.wait().or_throw();
    for (const float value : in) ASSERT_EQ(value, static_cast<float>(left));
  });
}

TEST_P(Communication, SplitsIntoGroupsThatWorkApart) {
  run_ranks([&](Job& job) {
    auto communicator = make_communicator(job);
    auto half = communicator->split(job.rank() % 2, -job.rank());
    const int members = (job.size() + 1 - job.rank() % 2) / 2;
    ASSERT_EQ(half->size(), members);
    EXPECT_EQ(half->rank(), members - 1 - job.rank() / 2);  // the keys turn the order round
    std::vector<std::int64_t> sum{job.rank()};
    half->all_reduce(buffer_of(std::span(sum))).or_throw();
    std::int64_t expected = 0;
    for (int r = job.rank() % 2; r < job.size(); r += 2) expected += r;
    EXPECT_EQ(sum[0], expected);
    EXPECT_EQ(communicator->split(-1, 0), nullptr);
  });
}

// A gradient that the user keeps is a piece of it.
TEST_P(Communication, MemoryOutlivesItsJob) {
  std::vector<std::unique_ptr<SharedMemory>> kept(static_cast<std::size_t>(ranks()));
  run_ranks([&](Job& job) {
    auto communicator = make_communicator(job);
    auto& memory = kept[static_cast<std::size_t>(job.rank())];
    memory = communicator->allocate(4096);
    memory->bytes()[7] = std::byte{42};
    communicator->barrier().or_throw();
  });
  for (auto& memory : kept) {
    EXPECT_EQ(memory->bytes()[7], std::byte{42});
    memory.reset();
  }
}

INSTANTIATE_TEST_SUITE_P(Links, Communication, ::testing::ValuesIn(testing::every_connection()),
                         testing::name_of_connection);

}  // namespace
}  // namespace asup::collective
