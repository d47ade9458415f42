// Every combination of rows takes three steps, or is refused with a sentence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "asup/asup.h"
#include "asup/base/error.h"
#include "asup/distribute/ways.h"
#include "asup/ps/serve.h"
#include "tests/support/ranks.h"

namespace asup {
namespace {

using asup::testing::run_ranks;

// A way with one value of each choice that it offers: its paces, merges, graphs and so on.
struct Combination {
  std::string name;
  config::Given given;
  const Way* way = nullptr;
};

std::vector<std::string> choices_of(const config::Setting& setting) {
  std::vector<std::string> choices;
  const std::string form = setting.form();
  if (setting.is_flag()) return {"true", "false"};
  for (std::size_t begin = 0, end; begin <= form.size() && form.find('|') != form.npos;
       begin = end + 1) {
    end = std::min(form.find('|', begin), form.size());
    const std::string word = form.substr(begin, end - begin);
    if (word != "N" && word != "X" && word != "P%") choices.push_back(word);
  }
  return choices;
}

void add(std::vector<Combination>& all, const Way& way, const std::string& name,
         const std::vector<std::pair<std::string, std::string>>& said) {
  Combination one{name, {}, &way};
  for (const auto& [setting, value] : said) one.given.say(setting, value, setting);
  all.push_back(std::move(one));
}

// Each choice of a way beside each choice of its nested ones.
std::vector<Combination> combinations() {
  std::vector<Combination> all;
  for (const Way* way : ways()) {
    add(all, *way, std::string(way->name), {});
    for (const WaySetting& a : settings_of_ways()) {
      if (a.way != way) continue;
      for (const std::string& x : choices_of(*a.setting)) {
        const std::string first(a.setting->name);
        add(all, *way, fmt::format("{}/{}={}", way->name, first, x), {{first, x}});
        for (const WaySetting& b : settings_of_ways()) {
          const std::string second(b.setting->name);
          if (b.way != way || first >= second) continue;
          for (const std::string& y : choices_of(*b.setting))
            add(all, *way, fmt::format("{}/{}={}/{}={}", way->name, first, x, second, y),
                {{first, x}, {second, y}});
        }
      }
    }
  }
  return all;
}

// What is refused, and why; "" where three steps were taken on all ranks.
std::string three_steps(const Combination& one) {
  std::optional<Strategy> strategy;
  try {
    strategy = Strategy::from(*one.way, one.given);
    require_used(one.given, {*strategy});
  } catch (const BadInput& error) {
    return error.what();
  }
  strategy->timeout = testing::kPatience;
  std::mutex mutex;
  std::string refusal;
  const int servers = strategy->capabilities().needs_servers ? 1 : 0;
  const auto body = [&](Job& job) {
    if (job.is_server()) return ps::serve(job);
    torch::manual_seed(1);
    torch::nn::Sequential model(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4),
                                torch::nn::Linear(4, 1));
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
    try {
      const auto replica = distribute(job, model, optimizer, *strategy);
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        const auto loss = model->forward(torch::randn({4, 3})).square().mean();
        loss.backward();
        replica->describe_batch(4, loss.item<double>() * 4);
        EXPECT_EQ(replica->step(), StepResult::applied) << one.name;
      }
      EXPECT_EQ(replica->stats().steps, 3u) << one.name;
      replica->synchronize();
    } catch (const BadInput& error) {
      const std::lock_guard lock(mutex);
      refusal = error.what();
    }
  };
  run_ranks(2 + servers, net::LinkKind::inproc, body, servers);
  return refusal;
}

TEST(Combinations, TakeThreeStepsOrAreRefusedWithASentence) {
  std::size_t ran = 0, refused = 0;
  for (const Combination& one : combinations()) {
    const std::string why = three_steps(one);
    why.empty() ? ++ran : ++refused;
    const auto& said = one.given.all();  // the sentence names one of the settings at least
    EXPECT_TRUE(why.empty() || std::any_of(said.begin(), said.end(),
                                           [&](const auto& setting) {
                                             return why.find(setting.first) != why.npos;
                                           }))
        << one.name << ": " << why;
  }
  EXPECT_GE(ran, 60u);
  EXPECT_GE(refused, 20u);
}

}  // namespace
}  // namespace asup
