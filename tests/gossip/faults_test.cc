// What becomes of exchanges whose partner dies, or talks nonsense, as processes of their own.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include "asup/gossip/gossip_progress.h"
#include "tests/gossip/group.h"
#include "tests/support/processes.h"
#include "tests/support/ranks.h"

namespace asup::gossip::testing {
namespace {

using net::LinkKind;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::Ge;
using ::testing::Le;

constexpr std::size_t kElements = 30'000;

class OnEveryLink : public ::testing::TestWithParam<LinkKind> {};

// A partner whose every word the test chooses.
class Speaker : private net::Messenger::Handler {
 public:
  explicit Speaker(const net::MemberGroup& group) : group_(group) {
    const net::MeshLock lock(group_.mesh.loop());
    std::vector<int> members;
    for (int member = 0; member < group.workers; ++member) members.push_back(member);
    messenger_.emplace(group.mesh, group.id, members, static_cast<net::Messenger::Handler&>(*this));
    messenger_->open();
  }
  ~Speaker() override {
    const net::MeshLock lock(group_.mesh.loop());
    messenger_.reset();
  }

  template <typename Body>
  void say(int member, const Body& body, std::vector<std::byte> payload = {}) {
    const net::MeshLock lock(group_.mesh.loop());
    messenger_->send_kept(member, head_of(body), std::move(payload));
    group_.mesh.loop().drive([&] { return !messenger_->has_unsent(); }, after(kLimit));
  }
  template <typename Body>
  void wait_for() {
    const net::MeshLock lock(group_.mesh.loop());
    const auto came = [&] {
      return std::any_of(heads_.begin(), heads_.end(),
                         [](const auto& head) { return read<Body>(head).has_value(); });
    };
    check(group_.mesh.loop().drive(came, after(kLimit)), "the answer did not come");
    heads_.clear();
  }

 private:
  net::Bytes room_for(int, net::ConstBytes, std::uint64_t) override { return {}; }
  void arrived(int, net::ConstBytes head, net::Bytes) override {
    heads_.emplace_back(head.begin(), head.end());
  }
  void gone(int, net::LinkEnd) override {}

  const net::MemberGroup group_;
  std::vector<std::vector<std::byte>> heads_;
  std::optional<net::Messenger> messenger_;
};

std::vector<std::byte> floats(std::size_t count, float value) {
  const std::vector<float> numbers(count, value);
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

// It dies when half of its model is out: the other's model is as if nobody had asked.
TEST_P(OnEveryLink, AHalfExchangeIsDropped) {
  const auto body = [&](Job& job) {
    const net::MemberGroup group = net::workers_of(job);
    if (job.rank() == 1) {
      Speaker speaker(group);
      const Exchange exchange{1, 0, 1};
      speaker.wait_for<Ask>();
      speaker.say(0, Busy{{0, 0, 1}});
      speaker.say(0, Ask{exchange, kElements});
      speaker.wait_for<Accept>();
      speaker.say(0, Chunk{exchange, 0}, floats(kElements / 2, 1e9f));
      raise(SIGKILL);
    }
    Exchanger exchanger(group, kElements, options_of(Graph::ring(2)));
    Model model(kElements, 1.0f);
    exchanger.open(model);
    exchanger.visit(model, true);
    wait_until([&] { return exchanger.stats().dropped == 1; }, "the loss of the partner");
    exchanger.visit(model, true);
    exchanger.synchronize(model);
    EXPECT_THAT(model, Each(1.0f));
    EXPECT_EQ(exchanger.stats().exchanges, 0u);
  };
  asup::testing::run_processes(2, GetParam(), body, /*killed=*/1);
}

// The others go on among themselves, though the ring is broken at first; no value ever leaves the
// range of the models that there were.
TEST_P(OnEveryLink, TheOthersGoOnWithoutTheDead) {
  const auto body = [&](Job& job) {
    GossipProgress progress(net::workers_of(job));
    Exchanger exchanger(net::workers_of(job), kElements, [] {
      ExchangerOptions options = options_of(Graph::ring(4));
      options.chunk = 1 << 9;
      return options;
    }());
    Model model(kElements, static_cast<float>(job.rank()));
    exchanger.open(model);
    wait_until(
        [&] {
          const std::uint64_t done = exchanger.stats().exchanges;
          if (job.rank() == 2 && done >= 3) raise(SIGKILL);
          exchanger.visit(model, true);
          const GossipProgress::Known known = progress.tell(done >= 40 ? 1 : 0);
          if (known.samples == 3) progress.call_round(1);
          return known.samples == 3 || known.round == 1;
        },
        "forty exchanges of each that is left");
    exchanger.synchronize(model);
    EXPECT_THAT(model, Each(AllOf(Ge(0.0f), Le(3.0f))));
  };
  asup::testing::run_processes(4, GetParam(), body, /*killed=*/2);
}

TEST_P(OnEveryLink, NonsenseIsDroppedAndAnswered) {
  const auto body = [&](Job& job) {
    const net::MemberGroup group = net::workers_of(job);
    if (job.rank() == 1) {
      Speaker speaker(group);
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
    Exchanger exchanger(group, kElements, options_of(Graph::ring(2)));
    Model model(kElements, 1.0f);
    exchanger.open(model);
    exchanger.visit(model, true);
    wait_until([&] { return exchanger.stats().dropped == 2; }, "the drops");
    exchanger.synchronize(model);
    EXPECT_THAT(model, Each(1.0f));
    EXPECT_EQ(exchanger.stats().exchanges, 0u);
  };
  asup::testing::run_processes(2, GetParam(), body);
}

INSTANTIATE_TEST_SUITE_P(Links, OnEveryLink, ::testing::Values(LinkKind::shm, LinkKind::tcp),
                         [](const auto& info) { return asup::testing::name_of(info.param); });

}  // namespace
}  // namespace asup::gossip::testing
