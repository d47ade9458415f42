// The communicator over every kind of link when it is asked for nonsense, when ranks disagree, are
// late or leave; and how those who are left go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <cstring>
#include <latch>
#include <limits>
#include <mutex>
#include <thread>

#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/net/transport/mesh.h"
#include "tests/collective/communication.h"

namespace asup::collective {
namespace {

using ::testing::HasSubstr;

class CommunicationFaults : public testing::CommunicationTest {};

// Its memory is let go of where it ends, by whoever moves the mesh then.
TEST_P(CommunicationFaults, AWorkMayBeDroppedWhileItsCallRuns) {
  std::latch one_has_started(1);
  run_ranks([&](Job& job) {
    auto communicator = make_communicator(job);
    std::vector<float> small(20'000, 1.0F), large(200'000, 1.0F);
    const auto call_of = [](std::vector<float>& numbers) {
      Call call;
      call.input = call.output = buffer_of(std::span(numbers));
      return call;
    };
    if (job.rank() != 0) one_has_started.wait();
    (void)communicator->start(call_of(small));
    Work work = communicator->start(call_of(large));
    if (job.rank() == 0) one_has_started.count_down();
    work.wait().or_throw();
    EXPECT_EQ(large.back(), static_cast<float>(job.size()));
    communicator->barrier().or_throw();
  });
}

TEST_P(CommunicationFaults, RefusesNonsense) {
  run_ranks([&](Job& job) {
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

// The last rank goes on, to rank 0, with a message that it did not begin.
TEST_P(CommunicationFaults, NamesWhoBreaksTheProtocol) {
  if (ranks() < 3) return;
  std::barrier<> all(ranks());
  run_ranks([&](Job& job) {
    auto communicator = make_communicator(job);
    float value = 1;
    communicator->all_reduce({&value, 1, Dtype::f32}).or_throw();
    const int last = ranks() - 1;
    all.arrive_and_wait();
    if (job.rank() == last) {
      const net::FrameHeader frame{net::FrameHeader::Kind::more, net::kFrameVersion, 0, 32, 99, 32};
      std::vector<std::byte> bytes(2 * net::kUnit);
      std::memcpy(bytes.data(), &frame, sizeof frame);
      const net::MeshLock lock(job.mesh().loop());
      const net::ConstBytes piece(bytes);
      ASSERT_EQ(job.mesh().link(0).wire().write({&piece, 1}), bytes.size());
      job.mesh().wake_sleepers();
    } else {
      const Outcome outcome = communicator->all_reduce({&value, 1, Dtype::f32});
      EXPECT_EQ(outcome.kind(), Outcome::Kind::lost) << outcome.message();
      EXPECT_EQ(outcome.ranks(), std::vector{last}) << outcome.message();
      EXPECT_THAT(outcome.message(), HasSubstr(fmt::format("rank {} (", last)));
      EXPECT_THAT(outcome.message(), HasSubstr("goes on with a message that it did not begin"));
    }
    all.arrive_and_wait();
  });
}

TEST_P(CommunicationFaults, RefusesBlocksThatDoNotMatchOnAllRanks) {
  if (ranks() < 2) return;
  run_ranks([&](Job& job) {
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

TEST_P(CommunicationFaults, PrintsBothCallsWhenRanksDisagree) {
  if (ranks() < 2) return;
  std::mutex mutex;
  std::vector<std::string> messages;
  run_ranks([&](Job& job) {
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

TEST_P(CommunicationFaults, FindsOutThatRanksBundleOtherSizes) {
  if (ranks() < 2) return;
  run_ranks([&](Job& job) {
    auto communicator = make_communicator(job);
    std::vector<float> values(10);
    const std::size_t first = job.rank() == 1 ? 4 : 5;
    const Outcome outcome = communicator->all_reduce_together(
        {buffer_of(std::span(values).first(first)), buffer_of(std::span(values).subspan(first))});
    EXPECT_EQ(outcome.kind(), Outcome::Kind::mismatch) << outcome.message();
    EXPECT_THAT(outcome.message(), HasSubstr("2 buffers"));
  });
}

// Each waits for the message of the one before.
TEST_P(CommunicationFaults, NamesTheRankThatAChainWaitsFor) {
  if (ranks() < 3) return;
  std::barrier it_was_missed(ranks());
  run_ranks([&](Job& job) {
    auto communicator = make_communicator(job);
    auto data = numbers<float>(*communicator, 10);
    communicator->barrier().or_throw();
    if (job.rank() > 0) {
      Call call;
      call.collective = Collective::recv;
      call.input = call.output = data.buffer();
      call.root = job.rank() - 1;
      call.timeout = Seconds(0.3);
      const Outcome outcome = communicator->run(call);
      EXPECT_EQ(outcome.kind(), Outcome::Kind::late) << outcome.message();
      EXPECT_THAT(outcome.ranks(), ::testing::ElementsAre(0)) << outcome.message();
    }
    it_was_missed.arrive_and_wait();
  });
}

TEST_P(CommunicationFaults, NamesTheRankThatIsLate) {
  if (ranks() < 3) return;
  std::barrier it_was_missed(ranks());
  run_ranks([&](Job& job) {
    auto communicator = make_communicator(job);
    auto data = numbers<float>(*communicator, 1000);
    Call call;
    call.input = call.output = data.buffer();
    call.timeout = Seconds(3);  // also the time in which the others have to come
    communicator->barrier().or_throw();
    if (job.rank() == 1) {
      it_was_missed.arrive_and_wait();
      // What the others had brought may be whole, and their word that they gave up still on its
      // way.
      EXPECT_FALSE(communicator->run(call).ok() && communicator->barrier().ok());
      return;
    }
    const Outcome outcome = communicator->run(call);
    EXPECT_EQ(outcome.kind(), Outcome::Kind::late) << outcome.message();
    EXPECT_THAT(outcome.message(), HasSubstr("rank 1 (")) << "rank " << job.rank();
    EXPECT_THAT(outcome.message(), ::testing::Not(HasSubstr("rank 2 (")));
    it_was_missed.arrive_and_wait();
  });
}

Call watched(testing::Numbers<float>& data, Seconds silence) {
  Call call;
  call.input = call.output = data.buffer();
  call.timeout = Seconds(60);
  call.silence = silence;
  return call;
}

// Its thread computes; its links are moved, and answer.
TEST_P(CommunicationFaults, ARankThatIsBusyIsNotSilent) {
  if (ranks() != 4) return;
  run_ranks([&](Job& job) {
    auto communicator = make_communicator(job);
    auto data = numbers<float>(*communicator, 1000);
    if (job.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    communicator->run(watched(data, Seconds(2))).or_throw();
  });
}

TEST_P(CommunicationFaults, ASilentRankIsLateLongBeforeTheDeadline) {
  if (ranks() < 3) return;
  std::barrier it_was_missed(ranks());
  run_ranks([&](Job& job) {
    auto communicator = make_communicator(job);
    auto data = numbers<float>(*communicator, 1000);
    communicator->barrier().or_throw();
    if (job.rank() == 1) {
      const net::MeshLock lock(job.mesh().loop());  // nobody moves its links
      it_was_missed.arrive_and_wait();
      return;
    }
    const Outcome outcome = communicator->run(watched(data, Seconds(0.5)));
    EXPECT_EQ(outcome.kind(), Outcome::Kind::late) << outcome.message();
    EXPECT_THAT(outcome.message(), HasSubstr("rank 1 (")) << "rank " << job.rank();
    it_was_missed.arrive_and_wait();
  });
}

TEST_P(CommunicationFaults, NamesTheRankThatLeft) {
  if (ranks() < 2) return;
  run_ranks([&](Job& job) {
    auto communicator = make_communicator(job);
    Outcome outcome = communicator->barrier();
    if (job.rank() == 0) return;
    auto data = numbers<float>(*communicator, 100);
    const auto start = Clock::now();
    // A rank that is still in the barrier may hear of it there.
    if (outcome.ok()) outcome = communicator->all_reduce(data.buffer());
    EXPECT_EQ(outcome.kind(), Outcome::Kind::lost) << outcome.message();
    EXPECT_THAT(outcome.ranks(), ::testing::ElementsAre(0));
    EXPECT_LT(seconds_since(start), 20.0);
  });
}

TEST_P(CommunicationFaults, SurvivorsGoOnWithoutTheOneThatLeft) {
  if (ranks() < 2) return;
  run_ranks([&](Job& job) {
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

TEST_P(CommunicationFaults, ARebuildWithoutALossChangesNothing) {
  std::barrier all_have_ended_their_calls(ranks());
  run_ranks([&](Job& job) {
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

TEST_P(CommunicationFaults, ARebuildNamesThoseWhoDoNotCome) {
  if (ranks() < 2) return;
  std::barrier the_others_are_ready(ranks() - 1), they_have_waited(ranks());
  run_ranks([&](Job& job) {
    auto communicator = make_communicator(job);
    if (job.rank() != 1) {
      the_others_are_ready.arrive_and_wait();
      const Outcome outcome = communicator->rebuild(Seconds(0.5));
      EXPECT_EQ(outcome.kind(), Outcome::Kind::late) << outcome.message();
      EXPECT_THAT(outcome.message(), HasSubstr("rank 1 ("));
      EXPECT_FALSE(communicator->barrier().ok()) << "still broken";
    }
    they_have_waited.arrive_and_wait();
    communicator->rebuild().or_throw();
    communicator->barrier().or_throw();
  });
}

INSTANTIATE_TEST_SUITE_P(Links, CommunicationFaults,
                         ::testing::ValuesIn(testing::every_connection()),
                         testing::name_of_connection);

}  // namespace
}  // namespace asup::collective
