// What becomes of exchanges whose partner dies, or talks nonsense, as processes of their own.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include "asup/pairwise/grapevine.h"
#include "tests/pairwise/circle.h"
#include "tests/support/processes.h"
#include "tests/support/ranks.h"

namespace asup::pairwise::testing {
namespace {

using net::LinkKind;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::Ge;
using ::testing::Le;

constexpr std::size_t kElements = 300'000;

class OnEveryLink : public ::testing::TestWithParam<LinkKind> {};

// A partner whose every word the test chooses.
class Speaker : private net::Mail::Handler {
 public:
  explicit Speaker(const Circle& circle) : circle_(circle) {
    const net::Loop::Turn turn(circle_.mesh.loop());
    std::vector<int> members;
    for (int member = 0; member < circle.workers; ++member) members.push_back(member);
    mail_.emplace(circle.mesh, circle.id, members, static_cast<net::Mail::Handler&>(*this));
    mail_->open();
  }
  ~Speaker() override {
    const net::Loop::Turn turn(circle_.mesh.loop());
    mail_.reset();
  }

  template <typename Body>
  void say(int member, const Body& body, std::vector<std::byte> payload = {}) {
    const net::Loop::Turn turn(circle_.mesh.loop());
    mail_->send_kept(member, head_of(body), std::move(payload));
    circle_.mesh.loop().drive([&] { return !mail_->has_unsent(); }, after(kLimit));
  }
  template <typename Body>
  void wait_for() {
    const net::Loop::Turn turn(circle_.mesh.loop());
    const auto came = [&] {
      return std::any_of(heads_.begin(), heads_.end(),
                         [](const auto& head) { return read<Body>(head).has_value(); });
    };
    check(circle_.mesh.loop().drive(came, after(kLimit)), "the answer did not come");
    heads_.clear();
  }

 private:
  net::Bytes room_for(int, net::ConstBytes, std::uint64_t) override { return {}; }
  void arrived(int, net::ConstBytes head, net::Bytes) override {
    heads_.emplace_back(head.begin(), head.end());
  }
  void gone(int, net::LinkEnd) override {}

  const Circle circle_;
  std::vector<std::vector<std::byte>> heads_;
  std::optional<net::Mail> mail_;
};

std::vector<std::byte> floats(std::size_t count, float value) {
  const std::vector<float> numbers(count, value);
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

// It dies when half of its model is out: the other's model is as if nobody had asked.
TEST_P(OnEveryLink, AHalfExchangeIsDropped) {
  const auto body = [&](Job& job) {
    const Circle circle = circle_of(job);
    if (job.rank() == 1) {
      Speaker speaker(circle);
      const Exchange exchange{1, 0, 1};
      speaker.wait_for<Ask>();
      speaker.say(0, Busy{{0, 0, 1}});
      speaker.say(0, Ask{exchange, kElements});
      speaker.wait_for<Accept>();
      speaker.say(0, Chunk{exchange, 0}, floats(kElements / 2, 1e9f));
      raise(SIGKILL);
    }
    Exchanger exchanger(circle, kElements, options_of(Graph::ring(2)));
    Model model(kElements, 1.0f);
    exchanger.open(model);
    exchanger.visit(model, true);
    wait_until([&] { return exchanger.stats().dropped == 1; }, "the loss of the partner");
    exchanger.visit(model, true);
    exchanger.settle(model);
    EXPECT_THAT(model, Each(1.0f));
    EXPECT_EQ(exchanger.stats().exchanges, 0u);
  };
  asup::testing::run_processes(2, GetParam(), body, /*killed=*/1);
}

// The others go on among themselves, though the ring is broken at first; no value ever leaves the
// range of the models that there were.
TEST_P(OnEveryLink, TheOthersGoOnWithoutTheDead) {
  const auto body = [&](Job& job) {
    Grapevine grapevine(circle_of(job));
    Exchanger exchanger(circle_of(job), kElements, [] {
      ExchangerOptions options = options_of(Graph::ring(4));
      options.chunk = 1 << 12;
      return options;
    }());
    Model model(kElements, static_cast<float>(job.rank()));
    exchanger.open(model);
    wait_until(
        [&] {
          const std::uint64_t done = exchanger.stats().exchanges;
          if (job.rank() == 2 && done >= 3) raise(SIGKILL);
          exchanger.visit(model, true);
          const Grapevine::Known known = grapevine.tell(done >= 40 ? 1 : 0);
          if (known.samples == 3) grapevine.call_fence(1);
          return known.samples == 3 || known.fence == 1;
        },
        "forty exchanges of each that is left");
    exchanger.settle(model);
    EXPECT_THAT(model, Each(AllOf(Ge(0.0f), Le(3.0f))));
  };
  asup::testing::run_processes(4, GetParam(), body, /*killed=*/2);
}

TEST_P(OnEveryLink, NonsenseIsDroppedAndAnswered) {
  const auto body = [&](Job& job) {
    const Circle circle = circle_of(job);
    if (job.rank() == 1) {
      Speaker speaker(circle);
      speaker.wait_for<Ask>();
      speaker.say(0, Busy{{0, 0, 1}});
      speaker.say(0, Ask{{1, 0, 1}, kElements + 1});
      speaker.wait_for<Busy>();
      speaker.say(0, Chunk{{1, 0, 1}, 0}, floats(10, 1e9f));  // of no exchange
      speaker.say(0, Done{{1, 0, 1}});
      speaker.say(0, Got{{0, 0, 1}});
      speaker.say(0, Accept{{0, 0, 5}});  // of what it was not asked
      speaker.wait_for<Cancel>();
      speaker.say(0, Ask{{1, 0, 2}, kElements});
      speaker.wait_for<Accept>();
      speaker.say(0, Done{{1, 0, 2}});
      speaker.say(0, Chunk{{1, 0, 2}, 0}, floats(10, 1e9f));
      speaker.say(0, Chunk{{1, 0, 2}, 20}, floats(10, 1e9f));  // elements 10 to 20 are missing
      speaker.wait_for<Cancel>();
      speaker.say(0, Ask{{1, 0, 3}, kElements});
      speaker.wait_for<Accept>();
      speaker.say(0, Chunk{{1, 0, 3}, 0}, std::vector<std::byte>(7));
      speaker.wait_for<Cancel>();
      speaker.say(0, Cancel{{1, 0, 3}});
      return;
    }
    Exchanger exchanger(circle, kElements, options_of(Graph::ring(2)));
    Model model(kElements, 1.0f);
    exchanger.open(model);
    exchanger.visit(model, true);
    wait_until([&] { return exchanger.stats().dropped == 2; }, "the drops");
    exchanger.settle(model);
    EXPECT_THAT(model, Each(1.0f));
    EXPECT_EQ(exchanger.stats().exchanges, 0u);
  };
  asup::testing::run_processes(2, GetParam(), body);
}

INSTANTIATE_TEST_SUITE_P(Links, OnEveryLink, ::testing::Values(LinkKind::shm, LinkKind::tcp),
                         [](const auto& info) { return asup::testing::name_of(info.param); });

}  // namespace
}  // namespace asup::pairwise::testing
