// The communicator over every kind of link: results against a double-precision reference, and what
// happens when ranks disagree, are late or leave.
#include "asup/collective/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <mutex>
#include <random>
#include <thread>

#include "asup/collective/mesh_communicator.h"
#include "tests/support/ranks.h"

namespace asup {
namespace {

using net::LinkKind;
using ::testing::HasSubstr;
using testing::run_ranks;

struct Case {
  LinkKind links;
  int ranks;
  bool shared;
};

class Communication : public ::testing::TestWithParam<Case> {
 protected:
  LinkKind links() const { return GetParam().links; }
  int ranks() const { return GetParam().ranks; }

  // A buffer of `count` in shared or private memory, as the case says.
  template <typename T>
  struct Numbers {
    std::unique_ptr<SharedMemory> memory;
    std::vector<T> own;
    std::span<T> values;
    Buffer buffer() { return buffer_of(values); }
  };
  template <typename T>
  Numbers<T> numbers(Communicator& communicator, std::size_t count) {
    Numbers<T> numbers;
    if (GetParam().shared) {
      numbers.memory = communicator.allocate(count * sizeof(T));
      numbers.values = {reinterpret_cast<T*>(numbers.memory->bytes().data()), count};
    } else {
      numbers.own.resize(count);
      numbers.values = numbers.own;
    }
    return numbers;
  }
};

// What rank r holds at i: small integers, so that sums are exact whatever their order.
double element(int rank, std::size_t i) {
  return static_cast<double>((static_cast<std::size_t>(rank) * 7 + i * 3) % 11) + 1;
}

double reduced(ReduceOp op, int ranks, std::size_t i) {
  double value = element(0, i);
  for (int r = 1; r < ranks; ++r) {
    const double next = element(r, i);
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::average:
        value += next;
        break;
      case ReduceOp::min:
        value = std::min(value, next);
        break;
      case ReduceOp::max:
        value = std::max(value, next);
        break;
      case ReduceOp::product:
        value *= next;
        break;
    }
  }
  return op == ReduceOp::average ? value / ranks : value;
}

TEST_P(Communication, AllReducesEveryLength) {
  run_ranks(ranks(), links(), [&](Job& job) {
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
  run_ranks(ranks(), links(), [&](Job& job) {
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
  run_ranks(ranks(), links(), [&](Job& job) {
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

TEST_P(Communication, GathersAndScattersUnevenBlocks) {
  run_ranks(ranks(), links(), [&](Job& job) {
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
  run_ranks(ranks(), links(), [&](Job& job) {
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
  run_ranks(ranks(), links(), [&](Job& job) {
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
  run_ranks(ranks(), links(), [&](Job& job) {
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
  run_ranks(ranks(), links(), [&](Job& job) {
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

TEST_P(Communication, RefusesBlocksThatDoNotMatchOnAllRanks) {
  if (ranks() < 2) return;
  run_ranks(ranks(), links(), [&](Job& job) {
    auto communicator = make_communicator(job);
    const auto n = static_cast<std::size_t>(job.size());
    auto data = numbers<float>(*communicator, 10 * n);
    auto room = numbers<float>(*communicator, 10 * n);
    std::vector<std::size_t> to(n, 3), from(n, 3);
    if (job.rank() == 1) from[0] = 4;
    try {
      (void)communicator->all_to_all_v(data.buffer(), to, room.buffer(), from);
      FAIL() << "accepted";
    } catch (const BadInput& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 0 sends 3 elements to rank 1, which expects 4"));
    }
    communicator->barrier().or_throw();
  });
}

TEST_P(Communication, NoRankPassesABarrierBeforeAllHaveCome) {
  std::atomic<int> arrived{0};
  run_ranks(ranks(), links(), [&](Job& job) {
    auto communicator = make_communicator(job);
    for (int round = 1; round <= 20; ++round) {
      ++arrived;
      communicator->barrier().or_throw();
      EXPECT_GE(arrived.load(), round * job.size());
    }
  });
}

TEST_P(Communication, StartedCallsKeepTheirOrder) {
  run_ranks(ranks(), links(), [&](Job& job) {
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
  run_ranks(ranks(), links(), [&](Job& job) {
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

TEST_P(Communication, FindsOutThatRanksBundleOtherSizes) {
  if (ranks() < 2) return;
  run_ranks(ranks(), links(), [&](Job& job) {
    auto communicator = make_communicator(job);
    std::vector<float> values(10);
    const std::size_t first = job.rank() == 1 ? 4 : 5;
    const Outcome outcome = communicator->all_reduce_together(
        {buffer_of(std::span(values).first(first)), buffer_of(std::span(values).subspan(first))});
    EXPECT_EQ(outcome.kind(), Outcome::Kind::mismatch);
    EXPECT_THAT(outcome.message(), HasSubstr("2 buffers"));
  });
}

TEST_P(Communication, SendsBothWaysAtOnce) {
  if (ranks() < 2) return;
  run_ranks(ranks(), links(), [&](Job& job) {
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
  run_ranks(ranks(), links(), [&](Job& job) {
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

TEST_P(Communication, PrintsBothCallsWhenRanksDisagree) {
  if (ranks() < 2) return;
  std::mutex mutex;
  std::vector<std::string> messages;
  run_ranks(ranks(), links(), [&](Job& job) {
    auto communicator = make_communicator(job);
    auto data = numbers<float>(*communicator, job.rank() == 1 ? 12 : 10);
    const Outcome outcome = communicator->all_reduce(data.buffer());
    EXPECT_EQ(outcome.kind(), Outcome::Kind::mismatch) << outcome.message();
    EXPECT_EQ(communicator->barrier().kind(), Outcome::Kind::mismatch) << "and stays broken";
    const std::lock_guard lock(mutex);
    messages.push_back(outcome.message());
  });
  for (const std::string& message : messages) {
    EXPECT_THAT(message, HasSubstr("10 x f32"));
    EXPECT_THAT(message, HasSubstr("12 x f32"));
  }
}

TEST_P(Communication, NamesTheRankThatIsLate) {
  if (ranks() < 3) return;
  run_ranks(ranks(), links(), [&](Job& job) {
    CommunicatorOptions options;
    options.timeout = Seconds(0.2);
    auto communicator = make_communicator(job, options);
    auto data = numbers<float>(*communicator, 1000);
    if (job.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      EXPECT_FALSE(communicator->all_reduce(data.buffer()).ok());
      return;
    }
    const Outcome outcome = communicator->all_reduce(data.buffer());
    EXPECT_EQ(outcome.kind(), Outcome::Kind::late) << outcome.message();
    EXPECT_THAT(outcome.message(), HasSubstr("rank 1 (")) << "rank " << job.rank();
    EXPECT_THAT(outcome.message(), ::testing::Not(HasSubstr("rank 2 (")));
  });
}

TEST_P(Communication, NamesTheRankThatLeft) {
  if (ranks() < 2) return;
  run_ranks(ranks(), links(), [&](Job& job) {
    auto communicator = make_communicator(job);
    Outcome outcome = communicator->barrier();
    if (job.rank() == 0) return;
    auto data = numbers<float>(*communicator, 100);
    const auto start = Clock::now();
    // A rank that is still in the barrier may hear of it there.
    if (outcome.ok()) outcome = communicator->all_reduce(data.buffer());
    EXPECT_EQ(outcome.kind(), Outcome::Kind::lost) << outcome.message();
    EXPECT_THAT(outcome.ranks(), ::testing::ElementsAre(0));
    EXPECT_LT(seconds_since(start), 1.0);
  });
}

TEST_P(Communication, SurvivorsGoOnWithoutTheOneThatLeft) {
  if (ranks() < 2) return;
  run_ranks(ranks(), links(), [&](Job& job) {
    auto communicator = make_communicator(job);
    auto data = numbers<float>(*communicator, 5000);
    const Outcome first = communicator->all_reduce(data.buffer());
    if (job.rank() == ranks() / 2) return;
    if (first.ok()) {
      EXPECT_FALSE(communicator->all_reduce(data.buffer()).ok());
    }
    EXPECT_FALSE(communicator->barrier().ok()) << "broken until it is rebuilt";
    communicator->rebuild().or_throw();
    ASSERT_EQ(communicator->size(), ranks() - 1);
    EXPECT_EQ(communicator->rank(), job.rank() - (job.rank() > ranks() / 2 ? 1 : 0));
    for (const std::size_t count : {3ul, 5000ul}) {
      for (std::size_t i = 0; i < count; ++i)
        data.values[i] = static_cast<float>(element(communicator->rank(), i));
      Buffer part = data.buffer();
      part.count = count;
      communicator->all_reduce(part).or_throw();
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(data.values[i], reduced(ReduceOp::sum, communicator->size(), i)) << i;
    }
  });
}

TEST_P(Communication, ARebuildWithoutALossChangesNothing) {
  std::barrier all_have_ended_their_calls(ranks());
  run_ranks(ranks(), links(), [&](Job& job) {
    auto communicator = make_communicator(job);
    for (int round = 0; round < 3; ++round) {
      communicator->rebuild().or_throw();
      ASSERT_EQ(communicator->size(), ranks());
      std::vector<float> one{1};
      communicator->all_reduce(buffer_of(std::span(one))).or_throw();
      EXPECT_EQ(one[0], static_cast<float>(ranks()));
      all_have_ended_their_calls.arrive_and_wait();
    }
  });
}

TEST_P(Communication, ARebuildNamesThoseWhoDoNotCome) {
  if (ranks() < 2) return;
  run_ranks(ranks(), links(), [&](Job& job) {
    auto communicator = make_communicator(job);
    if (job.rank() != 1) {
      const Outcome outcome = communicator->rebuild(Seconds(0.3));
      EXPECT_EQ(outcome.kind(), Outcome::Kind::late) << outcome.message();
      EXPECT_THAT(outcome.message(), HasSubstr("rank 1 ("));
      EXPECT_FALSE(communicator->barrier().ok()) << "still broken";
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(400));
    }
    communicator->rebuild().or_throw();
    communicator->barrier().or_throw();
  });
}

// A gradient that the user keeps is a piece of it.
TEST_P(Communication, MemoryOutlivesItsJob) {
  std::vector<std::unique_ptr<SharedMemory>> kept(static_cast<std::size_t>(ranks()));
  run_ranks(ranks(), links(), [&](Job& job) {
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

TEST_P(Communication, RefusesNonsense) {
  run_ranks(ranks(), links(), [&](Job& job) {
    auto communicator = make_communicator(job);
    EXPECT_THROW((void)communicator->all_reduce({nullptr, 10, Dtype::f32}), BadInput);
    float value = 0;
    EXPECT_THROW((void)communicator->broadcast({&value, 1, Dtype::f32}, -1), BadInput);
    EXPECT_THROW((void)communicator->broadcast({&value, 1, Dtype::f32}, job.size()), BadInput);
    EXPECT_THROW((void)communicator->send({&value, 1, Dtype::f32}, job.rank()), BadInput);
    const Buffer one{&value, 1, Dtype::f32}, null{nullptr, 1, Dtype::f32};
    const auto n = static_cast<std::size_t>(job.size());
    for (const int root : {-1, job.size()}) {
      EXPECT_THROW((void)communicator->reduce(one, root), BadInput);
      EXPECT_THROW((void)communicator->gather(one, one, root), BadInput);
      EXPECT_THROW((void)communicator->scatter(one, one, root), BadInput);
    }
    EXPECT_THROW((void)communicator->reduce(null), BadInput);
    EXPECT_THROW((void)communicator->gather(null, one), BadInput);
    EXPECT_THROW((void)communicator->scatter(one, null), BadInput);
    EXPECT_THROW((void)communicator->all_to_all(null, one), BadInput);
    EXPECT_THROW((void)communicator->all_to_all_v(null, std::vector<std::size_t>(n, 0), null,
                                                  std::vector<std::size_t>(n, 2)),
                 BadInput);
    const std::size_t most = std::numeric_limits<std::size_t>::max();
    const Buffer vast{&value, most / 2 + 1, Dtype::f32};
    EXPECT_THROW((void)communicator->reduce(vast), BadInput);
    EXPECT_THROW((void)communicator->gather(vast, vast), BadInput);
    EXPECT_THROW((void)communicator->scatter(vast, vast), BadInput);
    EXPECT_THROW((void)communicator->all_to_all(vast, vast), BadInput);
    // Blocks: not one for each rank, more than the buffer, more than any memory.
    EXPECT_THROW((void)communicator->gather(one, one, 0, std::vector<std::size_t>(n + 1, 0)),
                 BadInput);
    EXPECT_THROW((void)communicator->scatter(one, one, 0, std::vector<std::size_t>(n, 2)),
                 BadInput);
    EXPECT_THROW((void)communicator->gather(one, one, 0, std::vector<std::size_t>(n, most)),
                 BadInput);
    EXPECT_THROW((void)communicator->all_to_all_v(one, std::vector<std::size_t>(n, most), one,
                                                  std::vector<std::size_t>(n, 0)),
                 BadInput);
    EXPECT_THROW((void)communicator->all_to_all_v(one, {}, one, {}), BadInput);
    double wide = 0;
    EXPECT_THROW((void)communicator->all_reduce_together({one, null}), BadInput);
    EXPECT_THROW((void)communicator->all_reduce_together({one, {&wide, 1, Dtype::f64}}), BadInput);
    EXPECT_THROW((void)communicator->all_reduce_together({one, vast}), BadInput);
    Call call;
    call.input = call.output = {&value, 1, Dtype::f32};
    call.parts = {one};
    EXPECT_THROW((void)communicator->run(call), BadInput) << "either a buffer or parts";
    call.parts.clear();
    CommunicatorOptions options;
    options.hosts.assign(n + 1, 0);
    EXPECT_THROW((void)make_communicator(job, options), BadInput);
    call.algorithm = "carrier_pigeon";
    EXPECT_THROW((void)communicator->run(call), BadInput);
    communicator->barrier().or_throw();
  });
}

std::vector<Case> cases() {
  std::vector<Case> cases;
  for (const LinkKind links : {LinkKind::inproc, LinkKind::shm, LinkKind::tcp})
    for (const int ranks : {1, 2, 4, 7})
      for (const bool shared : {false, true})
        if (!shared || links != LinkKind::tcp) cases.push_back({links, ranks, shared});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Links, Communication, ::testing::ValuesIn(cases()), [](const auto& info) {
  return testing::name_of(info.param.links) + "_" + std::to_string(info.param.ranks) +
         (info.param.shared ? "_shared" : "_private");
});

}  // namespace
}  // namespace asup
