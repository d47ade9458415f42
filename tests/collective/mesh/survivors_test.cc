#include "asup/collective/mesh/survivors.h"

#include <gmock/gmock.h>

#include <deque>
#include <random>

namespace asup::collective {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using View = Survivors::View;

TEST(Survivors, AgreeWhenAllHaveSaidTheSame) {
  Survivors survivors(0, 0, {0, 1, 2, 3});
  survivors.lose(2);
  EXPECT_EQ(survivors.news(), (View{0, {0, 1, 3}}));
  EXPECT_EQ(survivors.news(), std::nullopt);
  EXPECT_THAT(survivors.missing(), ElementsAre(1, 3));
  survivors.hear(1, {0, {0, 1, 3}});
  EXPECT_FALSE(survivors.agreed());
  survivors.hear(3, {4, {0, 1, 3}});
  EXPECT_TRUE(survivors.agreed());
  EXPECT_EQ(survivors.next_generation(), 5u);
}

TEST(Survivors, ASmallerSetIsTakenOverAndPassedOn) {
  Survivors survivors(0, 0, {0, 1, 2});
  (void)survivors.news();
  survivors.hear(1, {0, {0, 1}});
  EXPECT_EQ(survivors.news(), (View{0, {0, 1}}));
  EXPECT_TRUE(survivors.agreed());
}

TEST(Survivors, TheWordOfThoseWhoAreOutDoesNotCount) {
  Survivors survivors(2, 0, {0, 1, 2});
  survivors.hear(0, {0, {0, 2}});  // 0 has lost 1
  survivors.hear(1, {0, {1, 2}});  // and 1 has lost 0
  EXPECT_THAT(survivors.left(), ElementsAre(0, 2));
  EXPECT_TRUE(survivors.agreed());
}

TEST(Survivors, OneThatIsLeftOutHearsOfIt) {
  Survivors survivors(1, 0, {0, 1, 2});
  survivors.hear(2, {0, {0, 2}});
  EXPECT_EQ(survivors.left_out_by(), 2);
  EXPECT_FALSE(survivors.agreed());
}

TEST(Survivors, TheLastOneAgreesWithItself) {
  Survivors survivors(1, 7, {0, 1});
  survivors.lose(0);
  EXPECT_TRUE(survivors.agreed());
  EXPECT_EQ(survivors.next_generation(), 8u);
}

TEST(Survivors, WordsAreReadAsTheyWereWritten) {
  for (const View& view : {View{0, {0}}, View{12, {0, 3, 17}}})
    EXPECT_EQ(read_view(write_view(view)), view);
  for (const char* wrong : {"", "x", "1 0,", "1 0;2", "1 2,1", "1 -1", "1 0,1x"})
    EXPECT_EQ(read_view(wrong), std::nullopt) << wrong;
}

// Ranks die one after the other while the rest talk, in random order of events: whoever agrees,
// agrees with everyone else alive in its set.
TEST(Survivors, AgreeWhateverTheOrderOfEvents) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 2000; ++trial) {
    const int n = 2 + static_cast<int>(random() % 6);
    std::vector<int> all;
    for (int r = 0; r < n; ++r) all.push_back(r);
    std::vector<Survivors> ranks;
    for (int r = 0; r < n; ++r) ranks.emplace_back(r, 0, all);
    struct Event {
      int from, to;
      std::optional<View> view;  // none: the link has ended
    };
    std::map<std::pair<int, int>, std::deque<Event>> links;
    std::vector<bool> dead(static_cast<std::size_t>(n), false);
    int deaths = 1 + static_cast<int>(random() % static_cast<unsigned>(n - 1));
    const auto say = [&](int r) {
      if (const auto view = ranks[static_cast<std::size_t>(r)].news())
        for (const int to : view->left)
          if (to != r) links[{r, to}].push_back({r, to, view});
    };
    const auto kill = [&](int r) {
      dead[static_cast<std::size_t>(r)] = true;
      for (int to = 0; to < n; ++to) {
        auto& link = links[{r, to}];  // what was written last may be lost
        while (!link.empty() && random() % 2) link.pop_back();
        link.push_back({r, to, std::nullopt});
      }
    };
    kill(static_cast<int>(random() % static_cast<unsigned>(n)));
    --deaths;
    for (int r = 0; r < n; ++r)
      if (!dead[static_cast<std::size_t>(r)]) say(r);
    for (;;) {
      std::vector<std::deque<Event>*> ready;
      for (auto& [ends, link] : links)
        if (!link.empty() && !dead[static_cast<std::size_t>(ends.second)]) ready.push_back(&link);
      if (ready.empty()) break;
      auto& link = *ready[random() % ready.size()];
      const Event event = link.front();
      link.pop_front();
      Survivors& to = ranks[static_cast<std::size_t>(event.to)];
      if (event.view)
        to.hear(event.from, *event.view);
      else
        to.lose(event.from);
      say(event.to);
      if (deaths > 0 && random() % 20 == 0) {
        const int r = static_cast<int>(random() % static_cast<unsigned>(n));
        if (!dead[static_cast<std::size_t>(r)] && std::count(dead.begin(), dead.end(), false) > 1) {
          kill(r);
          --deaths;
        }
      }
    }
    std::vector<int> alive;
    for (int r = 0; r < n; ++r)
      if (!dead[static_cast<std::size_t>(r)]) alive.push_back(r);
    for (const int r : alive) {
      EXPECT_THAT(ranks[static_cast<std::size_t>(r)].missing(), IsEmpty()) << "trial " << trial;
      EXPECT_EQ(ranks[static_cast<std::size_t>(r)].left(), alive) << "trial " << trial;
    }
  }
}

}  // namespace
}  // namespace asup::collective
