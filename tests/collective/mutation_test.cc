// The verifier against plans that were changed at random: whatever it accepts must come out right
// on numbers, in every order of events that is tried.
#include "asup/collective/plan/build.h"
#include "tests/collective/cases.h"
#include "tests/collective/interpreter.h"

namespace asup::collective {
namespace {

using testing::interpret;
using testing::plans_of;

using Plans = std::vector<Plan>;
using Random = std::mt19937_64;

struct Case {
  const Algorithm* algorithm;
  Spec spec;
};

// Groups of 2 to 5 with blocks of a few dozen elements, in one or two lanes.
Case draw_case(Random& random) {
  std::vector<const Algorithm*> candidates;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective < Collective::barrier) candidates.push_back(&algorithm);
  }
  const Algorithm* algorithm = candidates[random() % candidates.size()];
  Spec spec = {.collective = algorithm->collective};
  spec.ranks = 2 + random() % 4;
  spec.count = spec.ranks * (random() % 3 == 0 ? 130 : 64) - random() % 40;
  spec.root = random() % spec.ranks;
  spec.in_place = random() % 2;
  spec.shared = algorithm->needs_shared;
  spec.stage = algorithm->needs_stage;
  spec.slice = 64;
  if (random() % 2) spec.hosts = testing::hosts_of_three(spec.ranks);
  return {algorithm, spec};
}

std::string where(const Case& c, const char* change) {
  return fmt::format("{} by {}, {}", testing::describe(c.spec), c.algorithm->name, change);
}

TEST(Mutation, WhatIsProvenComesOutRight) {
  Random random(1);
  for (int i = 0; i < 300; ++i) {
    const Case c = draw_case(random);
    EXPECT_EQ(interpret(c.spec, plans_of(*c.algorithm, c.spec), random), "")
        << where(c, "unchanged");
  }
}

// A step drawn at random, and its place.
struct Target {
  const Spec& spec;
  Random& random;
  Lane& lane;
  std::size_t round_index;
  std::size_t step_index;

  Round& round() const { return lane[round_index]; }
  Step& step() const { return round()[step_index]; }
  // The ranges that the step's operation uses, and that hold something.
  bool has_src() const { return step().op != Step::Op::recv && step().src.size() > 0; }
  bool has_dst() const { return step().op != Step::Op::send && step().dst.size() > 0; }
};

Target draw_target(Plans& plans, const Spec& spec, Random& random) {
  while (true) {
    Plan& plan = plans[random() % plans.size()];
    if (plan.lanes.empty()) continue;
    Lane& lane = plan.lanes[random() % plan.lanes.size()];
    if (lane.empty()) continue;
    const std::size_t r = random() % lane.size();
    if (!lane[r].empty()) return {spec, random, lane, r, random() % lane[r].size()};
  }
}

void shift(AreaRange& range, bool up) {
  up |= range.begin == 0;
  range.begin += up ? 1 : -1;
  range.end += up ? 1 : -1;
}

struct Mutation {
  const char* name;
  bool always_wrong;             // else some of them do no harm
  bool (*apply)(const Target&);  // false where the target does not lend itself to it
};

const Mutation kMutations[] = {
    {"a step dropped", true,
     [](const Target& t) {
       t.round().erase(t.round().begin() + t.step_index);
       return true;
     }},
    {"a message doubled", true,
     [](const Target& t) {
       t.round().push_back(Step(t.step()));
       return t.step().is_message();
     }},
    {"a memory step doubled", false,
     [](const Target& t) {
       t.round().push_back(Step(t.step()));
       return !t.step().is_message();
     }},
    {"a round dropped", true,
     [](const Target& t) {
       t.lane.erase(t.lane.begin() + t.round_index);
       return true;
     }},
    {"two rounds swapped", false,
     [](const Target& t) {
       std::swap(t.round(), t.lane[t.random() % t.lane.size()]);
       return true;
     }},
    {"a step moved to a round of its own before", false,
     [](const Target& t) {
       const Round alone = {t.step()};
       t.round().erase(t.round().begin() + t.step_index);
       t.lane.insert(t.lane.begin() + t.round_index, alone);
       return true;
     }},
    {"two rounds made one", false,
     [](const Target& t) {
       if (t.round_index + 1 == t.lane.size()) return false;
       const Round next = t.lane[t.round_index + 1];
       t.round().insert(t.round().end(), next.begin(), next.end());
       t.lane.erase(t.lane.begin() + t.round_index + 1);
       return true;
     }},
    {"another order in a round", false,
     [](const Target& t) {
       std::swap(t.step(), t.round()[t.random() % t.round().size()]);
       return true;
     }},
    {"another peer", true,
     [](const Target& t) {
       const bool has_peer = t.step().peer >= 0;
       t.step().peer = t.random() % t.spec.ranks;
       return has_peer;
     }},
    {"src moved", true,
     [](const Target& t) {
       const bool used = t.has_src();
       shift(t.step().src, t.random() % 2);
       return used;
     }},
    {"dst moved", true,
     [](const Target& t) {
       const bool used = t.has_dst();
       shift(t.step().dst, t.random() % 2);
       return used;
     }},
    {"src and dst moved", true,
     [](const Target& t) {
       const bool used = t.has_src() && t.has_dst();
       const bool up = t.step().src.begin == 0 || t.step().dst.begin == 0 || t.random() % 2;
       shift(t.step().src, up);
       shift(t.step().dst, up);
       return used;
     }},
    {"one element less", true,
     [](const Target& t) {
       if (!t.has_src() && !t.has_dst()) return false;
       if (t.has_src()) --t.step().src.end;
       if (t.has_dst()) --t.step().dst.end;
       return true;
     }},
    {"another area of src", false,
     [](const Target& t) {
       const bool used = t.has_src();
       t.step().src.area = static_cast<Area>(t.random() % 3);
       return used;
     }},
    {"another area of dst", false,
     [](const Target& t) {
       const bool used = t.has_dst();
       t.step().dst.area = static_cast<Area>(t.random() % 3);
       return used;
     }},
    {"finish turned over", true,
     [](const Target& t) {
       t.step().finish = !t.step().finish;
       return t.has_dst();
     }},
    {"received instead of reduced", true,
     [](const Target& t) {
       if (t.step().op != Step::Op::recv_reduce || !t.has_dst()) return false;
       t.step().op = Step::Op::recv;
       return true;
     }},
    {"reduced instead of received", true,
     [](const Target& t) {
       if (t.step().op != Step::Op::recv || !t.has_dst()) return false;
       t.step() = recv_reduce(t.step().peer, t.step().dst, t.step().dst, false);
       return true;
     }},
};

// A signal dropped on both sides, so that all messages still meet.
bool drop_signal(Plans& plans, Random& random) {
  const int from = random() % plans.size();
  for (Lane& lane : plans[from].lanes) {
    for (Round& round : lane) {
      for (std::size_t s = 0; s < round.size(); ++s) {
        if (round[s].op != Step::Op::send || round[s].src.size() > 0 || random() % 2) continue;
        const int to = round[s].peer;
        const std::size_t round_index = &round - lane.data(),
                          lane_index = &lane - plans[from].lanes.data();
        if (lane_index >= plans[to].lanes.size()) continue;
        Lane& other = plans[to].lanes[lane_index];
        if (round_index >= other.size() || !std::erase(other[round_index], recv(from, {})))
          continue;
        round.erase(round.begin() + s);
        return true;
      }
    }
  }
  return false;
}

constexpr int kOrders = 20;  // of events, tried for each plan that the verifier accepts

// Whether it was accepted; if so, it has to come out right.
bool judge(const Case& c, const Plans& plans, const char* change, Random& random) {
  if (verify(c.spec, plans)) return false;
  for (int order = 0; order < kOrders; ++order) {
    const std::string wrong = interpret(c.spec, plans, random);
    EXPECT_EQ(wrong, "") << where(c, change);
    if (!wrong.empty()) break;
  }
  return true;
}

bool same(const Plans& a, const Plans& b) {
  return std::equal(a.begin(), a.end(), b.begin(),
                    [](const Plan& x, const Plan& y) { return x.lanes == y.lanes; });
}

TEST(Mutation, WhatIsAcceptedComesOutRight) {
  Random random(2);
  for (const Mutation& mutation : kMutations) {
    for (int changed = 0; changed < 100;) {
      const Case c = draw_case(random);
      const Plans before = plans_of(*c.algorithm, c.spec);
      Plans after = before;
      if (!mutation.apply(draw_target(after, c.spec, random)) || same(before, after)) continue;
      ++changed;
      const bool accepted = judge(c, after, mutation.name, random);
      EXPECT_FALSE(accepted && mutation.always_wrong) << where(c, mutation.name);
    }
  }
}

TEST(Mutation, AMissingSignalIsAlwaysMissed) {
  Random random(3);
  for (int changed = 0; changed < 300;) {
    Case c = draw_case(random);
    if (!c.algorithm->needs_shared) continue;
    Plans plans = plans_of(*c.algorithm, c.spec);
    if (!drop_signal(plans, random)) continue;
    ++changed;
    EXPECT_FALSE(judge(c, plans, "a signal dropped", random)) << where(c, "a signal dropped");
  }
}

}  // namespace
}  // namespace asup::collective
