// Gradients and parameters that travel in a code.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "asup/base/error.h"
#include "asup/ps/coded_parts.h"
#include "asup/ps/server.h"
#include "tests/ps/group.h"
#include "tests/ps/raw_member.h"
#include "tests/support/thrown.h"

namespace asup::ps::testing {
namespace {

using asup::testing::message_of;
using kernels::Code;
using net::LinkKind;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Seconds kTimeout{120};

// Weights between biases; the largest take several pieces, and lie in two shards.
ServerSetup setup_in(Code code, pace::Options pace = {}) {
  ServerSetup setup = setup_of({3000, 10, 600'000, 64}, pace);
  setup.code = code;
  setup.coded = {0, 2};
  return setup;
}

Figures figures_of(const Release& release) {
  Figures figures;
  figures.version = release.version;
  figures.samples = std::max<std::uint64_t>(release.end - release.begin, 1);
  return figures;
}

void fill_first(std::span<float> parameters) {
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i] = static_cast<float>(i % 11) - 5.0f;
}

// Of f(w) = a_i w_i^2 / 2, other for each worker.
float gradient_of(int rank, std::uint64_t element, float parameter) {
  return parameter * (0.1f + 0.01f * static_cast<float>(element % 7)) +
         0.01f * static_cast<float>(rank);
}

struct Worker {
  Worker(int rank, net::MemberGroup group, const ServerSetup& setup,
         const std::vector<float>& first = {})
      : rank(rank), client(group, setup, {}, kTimeout) {
    fill_first(client.parameters());
    std::ranges::copy(first, client.parameters().begin());
    client.begin(rank == 0);
  }

  Release arrive() {
    client.arrive();
    return release = client.wait();
  }
  std::vector<float> gradient() const {
    std::vector<float> gradient(client.parameters().size());
    for (std::size_t i = 0; i < gradient.size(); ++i)
      gradient[i] = gradient_of(rank, i, client.parameters()[i]);
    return gradient;
  }
  void step(const std::vector<float>& gradient, double lr, const kernels::Encoding& how = {}) {
    client.push({0, gradient.size()}, gradient.data(), how);
    client.commit(figures_of(release), std::vector<double>{lr});
    release = client.wait();
  }
  std::vector<float> copy() const {
    return {client.parameters().begin(), client.parameters().end()};
  }
  std::vector<float> of_servers() {
    client.fetch_parameters();
    return copy();
  }

  int rank;
  Client client;
  Release release;
};

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(double{a[i]} - double{b[i]}, 2);
  return std::sqrt(sum);
}

TEST(CodedParts, AreWholeAndNotTooLong) {
  const CodedParts parts = coded_parts(setup_in(Code::int8));
  EXPECT_THAT(parts.ranges, ElementsAre(Range{0, 3000}, Range{3010, 603'010}));
  EXPECT_THAT(
      parts.cut({2000, 603'074}),
      ElementsAre(CodedParts::Piece{{2000, 3000}, true}, CodedParts::Piece{{3000, 3010}, false},
                  CodedParts::Piece{{3010, 527'298}, true},
                  CodedParts::Piece{{527'298, 603'010}, true},
                  CodedParts::Piece{{603'010, 603'074}, false}));
  EXPECT_THAT(coded_parts(setup_of({10})).cut({2, 9}),
              ElementsAre(CodedParts::Piece{{2, 9}, false}));
  EXPECT_TRUE(parts.hold({3010, 4000}) && parts.touch({2999, 3005}));
  EXPECT_FALSE(parts.hold({2999, 3011}) || parts.touch({3000, 3010}) || parts.hold({5, 5}));
}

struct CodedCase {
  Code code;
  LinkKind links;
};

class EveryCode : public ::testing::TestWithParam<CodedCase> {
 protected:
  ServerSetup setup(pace::Options pace = {}) const { return setup_in(GetParam().code, pace); }
  Cast cast(int workers = 2) const { return {workers, 2, GetParam().links}; }
};

// Workers in step have the same parameters to the bit, and those of the servers when these stay:
// the difference between them is told again and again, until nothing is left of it.
TEST_P(EveryCode, DifferencesComeToTheServersParameters) {
  std::vector<std::vector<float>> last(2);
  run_threads(cast(), [&](int rank, net::MemberGroup group) {
    Worker worker(rank, group, setup());
    worker.arrive();
    std::vector<float> first(worker.client.parameters().size());
    fill_first(first);
    EXPECT_EQ(worker.copy(), first);
    for (int step = 0; step < 3; ++step) worker.step(worker.gradient(), 0.1);
    const std::vector<float> nothing(first.size());
    const auto away = [&] {
      const auto own = worker.copy();
      return distance(own, worker.of_servers());
    };
    const double before = away();
    EXPECT_GT(before, 0);
    // The first goes on from where the worker was, whatever fetch_parameters() has shown.
    for (int step = 0; step < 30; ++step) worker.step(nothing, 0.1);
    EXPECT_LT(away(), GetParam().code == Code::onebit ? 0.3 * before : 1e-5);
    worker.step(nothing, 0.1);
    last[static_cast<std::size_t>(rank)] = worker.copy();
  });
  EXPECT_EQ(last[0], last[1]);
}

// With feedback, nothing of the gradients is lost: the servers have them but for what is carried.
TEST_P(EveryCode, WhatWasPushedAndWhatIsCarriedAreTheGradients) {
  run_threads(cast(), [&](int rank, net::MemberGroup group) {
    Worker worker(rank, group, setup());
    worker.arrive();
    const std::size_t count = worker.client.parameters().size();
    std::vector<float> carried(count), lost(count), first = worker.copy(), sum(count);
    for (int step = 0; step < 4; ++step) {
      std::vector<float> gradient(count);
      for (std::size_t i = 0; i < count; ++i)
        gradient[i] = std::sin(static_cast<float>(i + 100 * static_cast<std::size_t>(step)));
      for (std::size_t i = 0; i < count; ++i) sum[i] += gradient[i];
      worker.step(gradient, 1, {.carried = carried.data(), .lost = lost.data()});
      std::swap(carried, lost);
    }
    const auto reached = worker.of_servers();  // all workers push the same
    for (const Range range : {Range{0, 3000}, Range{3010, 603'010}})
      for (std::uint64_t i = range.begin; i < range.end; ++i)
        ASSERT_NEAR(first[i] - reached[i] + carried[i], sum[i], 1e-4) << i;
    for (std::uint64_t i = 3000; i < 3010; ++i) ASSERT_NEAR(first[i] - reached[i], sum[i], 1e-4);
  });
}

// Two begin where two others have been, as a checkpoint has it, and end with the same bits.
TEST_P(EveryCode, OthersGoOnWithWhatWorkersHad) {
  std::vector<float> common, known, whole;
  run_threads(cast(), [&](int rank, net::MemberGroup group) {
    Worker worker(rank, group, setup());
    worker.arrive();
    for (int step = 0; step < 3; ++step) worker.step(worker.gradient(), 0.1);
    if (rank == 0) {
      known = worker.copy();
      common = worker.of_servers();
      std::ranges::copy(known, worker.client.parameters().begin());
    }
    for (int step = 0; step < 3; ++step) worker.step(worker.gradient(), 0.1);
    if (rank == 0) whole = worker.copy();
  });
  EXPECT_NE(known, common);
  run_threads(cast(), [&](int rank, net::MemberGroup group) {
    Worker worker(rank, group, setup(), common);
    std::ranges::copy(known, worker.client.known()->begin());
    worker.client.tell_known();
    worker.arrive();
    EXPECT_EQ(worker.copy(), known);
    for (int step = 0; step < 3; ++step) worker.step(worker.gradient(), 0.1);
    EXPECT_EQ(worker.copy(), whole);
  });
}

// Workers that get parameters at other times have other ones, each near those of the servers.
TEST_P(EveryCode, WhoGoesOnAloneHasAShadowOfItsOwn) {
  run_threads(cast(3), [&](int rank, net::MemberGroup group) {
    Worker worker(rank, group, setup({.kind = pace::Kind::asp}));
    worker.arrive();
    const auto first = worker.copy();
    for (int step = 0; step < 3 + 2 * rank; ++step) worker.step(worker.gradient(), 0.1);
    const auto own = worker.copy();
    worker.client.fetch_parameters_now();
    EXPECT_LT(distance(own, worker.copy()), distance(first, own));
  });
}

// What DC-ASGD compares with is what the worker had, which is the shadow.
TEST_P(EveryCode, LateGradientsAreCompensated) {
  ServerSetup setup = this->setup({.kind = pace::Kind::asp});
  setup.compensation = 0.04;
  run_threads(cast(), [&](int rank, net::MemberGroup group) {
    Worker worker(rank, group, setup);
    worker.arrive();
    for (int step = 0; step < 5; ++step) worker.step(worker.gradient(), 0.05);
    for (const float parameter : worker.client.parameters())
      ASSERT_TRUE(std::isfinite(parameter) && std::abs(parameter) < 6);
  });
}

std::vector<CodedCase> coded_cases() {
  std::vector<CodedCase> cases;
  for (const Code code : {Code::bf16, Code::f16, Code::int8, Code::int4, Code::onebit})
    for (const LinkKind links : {LinkKind::shm, LinkKind::tcp}) cases.push_back({code, links});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Codes, EveryCode, ::testing::ValuesIn(coded_cases()),
                         [](const auto& info) {
                           return fmt::format("{}_{}", kernels::name_of(info.param.code),
                                              asup::testing::name_of(info.param.links));
                         });

// The bits are those of any link.
TEST(Coded, OneHostHasTheBitsOfSeveral) {
  std::vector<std::vector<float>> ends;
  for (const LinkKind links : {LinkKind::shm, LinkKind::tcp}) {
    std::vector<float> end;
    run_threads({2, 2, links}, [&](int rank, net::MemberGroup group) {
      Worker worker(rank, group, setup_in(Code::int8));
      worker.arrive();
      for (std::uint64_t step = 0; step < 3; ++step)
        worker.step(worker.gradient(), 0.1, {.noise = step});
      if (rank == 0) end = worker.copy();
    });
    ends.push_back(end);
  }
  EXPECT_EQ(ends[0], ends[1]);
}

TEST(Coded, BytesFallAsTheCodeHasIt) {
  const auto bytes_with = [](const ServerSetup& setup) {
    std::uint64_t bytes = 0;
    run_threads({1, 2, LinkKind::tcp}, [&](int rank, net::MemberGroup group) {
      Worker worker(rank, group, setup);
      worker.arrive();
      const std::uint64_t before = worker.client.bytes_moved();
      for (int step = 0; step < 3; ++step) worker.step(worker.gradient(), 0.1);
      bytes = worker.client.bytes_moved() - before;
    });
    return static_cast<double>(bytes);
  };
  const double plain = bytes_with(setup_of({3000, 10, 600'000, 64}));
  EXPECT_NEAR(plain / bytes_with(setup_in(Code::bf16)), 2, 0.01);
  EXPECT_NEAR(plain / bytes_with(setup_in(Code::int8)), 3.98, 0.02);
  EXPECT_NEAR(plain / bytes_with(setup_in(Code::onebit)), 31, 0.5);
}

// Clipping is of what arrives: also of one push alone, whose worker knows the norm of its gradient,
// not of what the code made of it.
TEST(Coded, ServersClipWhatTheyApply) {
  run_threads({1, 2, LinkKind::tcp}, [&](int rank, net::MemberGroup group) {
    Worker worker(rank, group, setup_in(Code::onebit));
    worker.arrive();
    const auto first = worker.copy();
    const std::vector<float> gradient = worker.gradient();
    worker.client.push({0, gradient.size()}, gradient.data());
    Figures figures = figures_of(worker.release);
    figures.norm = 1;  // of another gradient
    figures.clip = 0.5;
    worker.client.commit(figures, std::vector<double>{1});
    worker.client.wait();
    EXPECT_NEAR(distance(first, worker.of_servers()), 0.5, 1e-3);
  });
}

TEST(Coded, ServersRefuseWhatMakesNoSense) {
  ServerSetup setup = setup_in(Code::int8);
  const auto why = [&] { return message_of<BadInput>([&] { require_sense(setup, 1, 1); }); };
  setup.coded = {2, 0};
  EXPECT_THAT(why(), HasSubstr("not in order"));
  setup.coded = {4};
  EXPECT_THAT(why(), HasSubstr("not of the 4"));
  setup.coded = {};
  EXPECT_THAT(why(), HasSubstr("0 tensors travel in the code int8"));
  setup = setup_in(Code::int8);
  setup.rules[0].kind = kernels::Rule::Kind::merge;
  EXPECT_THAT(why(), HasSubstr("merged"));
  std::string text = to_text(setup_in(Code::int8));
  EXPECT_EQ(difference(setup_in(Code::int8), parse_setup(text)), "");
  text.replace(text.find("\"int8\""), 6, "\"int9\"");
  EXPECT_THAT(message_of<BadInput>([&] { parse_setup(text); }), HasSubstr("'int9' is no code"));
}

// Each is refused with the reason, and nothing is written.
struct Wrong {
  std::string name;
  std::function<void(RawMember&, int head)> say;
  std::string reason;
};

class WrongPushes : public ::testing::TestWithParam<Wrong> {};

TEST_P(WrongPushes, AreRefused) {
  run_threads({1, 1, LinkKind::tcp}, [&](int, net::MemberGroup group) {
    RawMember worker(group);
    const ServerSetup setup = setup_in(Code::int8);
    worker.hello(group.head(), setup, {0, setup.layout.elements});
    worker.send(group.head(), Initial{{0, setup.layout.elements}, {}},
                setup.layout.elements * sizeof(float));
    worker.wait_for(Kind::welcome);
    GetParam().say(worker, group.head());
    EXPECT_THAT(worker.refusal(), HasSubstr(GetParam().reason));
  });
}

const std::vector<Wrong> kWrong = {
    {"FloatsInThePlaceOfACode",
     [](RawMember& worker, int head) {
       worker.send(head, ps::Piece{1, {0, 3000}, {}}, 12'000);
     },
     "3000 elements in 12000 bytes"},
    {"ACodeThatIsTooShort",
     [](RawMember& worker, int head) {
       worker.send(head, ps::Piece{1, {0, 3000}, {}}, 3 * 1028 - 1);
     },
     "3000 elements in 3083 bytes"},
    {"OfWhichOnlySomeTravelInIt",
     [](RawMember& worker, int head) {
       worker.send(head, ps::Piece{1, {0, 3010}, {}}, 3 * 1028);
     },
     "of which not all travel in int8"},
    {"TooMuchAtATime",
     [](RawMember& worker, int head) {
       worker.send(head, ps::Piece{1, {3010, 603'010}, {}}, 586 * 1028);
     },
     "more than 524288 at a time"},
    {"FromMemoryOfItsOwn",
     [](RawMember& worker, int head) {
       worker.send(head, ps::Piece{1, {0, 3000}, {0, 7, 0}});
     },
     "as they are, which travel in int8"},
    {"WhatItHasFromTheMiddle",
     [](RawMember& worker, int head) {
       worker.send(head, Known{0, {4, 8}}, 16);
     },
     "where those from 0 on are to come"},
    {"WhatItHasBeyondTheEnd",
     [](RawMember& worker, int head) {
       worker.send(head, Known{0, {0, 603'075}}, 64);
     },
     "where those from 0 on are to come"},
    {"WhatItHasOfAVersionToCome",
     [](RawMember& worker, int head) {
       worker.send(head, Known{3, {0, 4}}, 16);
     },
     "of a version that there is not yet"}};

INSTANTIATE_TEST_SUITE_P(Coded, WrongPushes, ::testing::ValuesIn(kWrong),
                         [](const auto& info) { return info.param.name; });

// A server that sends differences that cannot be ends the worker's run, by its name.
TEST(Coded, AWorkerRefusesDifferencesThatCannotBe) {
  for (const auto& [range, bytes] :
       {std::pair{Range{0, 3000}, 17}, {Range{3000, 3010}, 10}, {Range{0, 1u << 30}, 0}})
    asup::testing::run_ranks(
        2, LinkKind::tcp,
        [&](Job& job) {
          const net::MemberGroup group = net::workers_and_servers(job);
          if (job.is_server()) {
            RawMember server(group);
            server.wait_for(Kind::hello);
            server.send(0, Welcome{});
            server.wait_for(Kind::arrive);
            server.send(0, Difference{0, range}, static_cast<std::size_t>(bytes));
            server.send(0, Release{});
            server.wait_for(Kind::leave);
            return;
          }
          Client client(group, setup_in(Code::int8), {}, kTimeout);
          client.begin(true);
          client.arrive();
          EXPECT_THAT(message_of<JobFailed>([&] { client.wait(); }),
                      AllOf(HasSubstr("server 0"), HasSubstr("have changed by"),
                            HasSubstr("which cannot be")));
        },
        1);
}

}  // namespace
}  // namespace asup::ps::testing
