#include "asup/optim/rule_optimizer.h"

#include <gtest/gtest.h>

#include <sstream>

#include "asup/base/error.h"
#include "asup/optim/asup_momentum.h"
#include "asup/optim/lamb.h"
#include "asup/optim/lars.h"
#include "asup/optim/torch_rules.h"
#include "tests/support/thrown.h"

namespace asup::optim {
namespace {

using asup::testing::message_of;

torch::Tensor numbers(torch::IntArrayRef shape, std::uint64_t seed) {
  return torch::randn(shape, at::detail::createCPUGenerator(seed));
}

// One of them of several pieces.
std::vector<torch::Tensor> some_parameters() {
  std::vector<torch::Tensor> parameters = {numbers({7, 5}, 1), numbers({7}, 3),
                                           numbers({300, 401}, 2)};
  for (auto& parameter : parameters) parameter.requires_grad_();
  return parameters;
}

void set_gradients(std::vector<torch::Tensor>& parameters, std::uint64_t step) {
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i].mutable_grad() = numbers(parameters[i].sizes(), 100 * step + i);
}

double farthest(const torch::Tensor& a, const torch::Tensor& b) {
  return (a.detach().to(torch::kFloat64) - b).abs().max().item<double>();
}

// The papers' equations on whole tensors, in doubles.
TEST(Lars, FollowsItsEquationsFor100Steps) {
  torch::set_num_threads(1);
  constexpr double kMomentum = 0.9, kDecay = 0.01, kTrust = 0.02;
  auto parameters = some_parameters();
  Lars optimizer(parameters,
                 LarsOptions(1.0).momentum(kMomentum).weight_decay(kDecay).trust(kTrust));
  std::vector<torch::Tensor> w, v;
  for (const auto& parameter : parameters) {
    w.push_back(parameter.detach().to(torch::kFloat64));
    v.push_back(torch::zeros_like(w.back()));
  }
  for (std::uint64_t step = 1; step <= 100; ++step) {
    const double lr = 1.0 / static_cast<double>(step);
    optimizer.param_groups()[0].options().set_lr(lr);
    set_gradients(parameters, step);
    optimizer.step();
    for (std::size_t i = 0; i < w.size(); ++i) {
      const auto g = parameters[i].grad().to(torch::kFloat64);
      const double wn = w[i].norm().item<double>(), gn = g.norm().item<double>();
      const bool is_vector = w[i].dim() <= 1;  // a bias: no ratio and no decay
      const double ratio = is_vector ? 1 : kTrust * wn / (gn + kDecay * wn);
      v[i] = kMomentum * v[i] + lr * ratio * (g + (is_vector ? 0 : kDecay) * w[i]);
      w[i] = w[i] - v[i];
      ASSERT_LT(farthest(parameters[i], w[i]), 2e-6 * w[i].abs().max().item<double>())
          << "parameter " << i << " after step " << step;
    }
  }
}

TEST(Lamb, FollowsItsEquationsFor100Steps) {
  torch::set_num_threads(1);
  constexpr double kLr = 0.01, kBeta1 = 0.8, kBeta2 = 0.95, kEps = 1e-6, kDecay = 0.01;
  auto parameters = some_parameters();
  Lamb optimizer(parameters,
                 LambOptions(kLr).betas({kBeta1, kBeta2}).eps(kEps).weight_decay(kDecay));
  std::vector<torch::Tensor> w, m, s;
  for (const auto& parameter : parameters) {
    w.push_back(parameter.detach().to(torch::kFloat64));
    m.push_back(torch::zeros_like(w.back()));
    s.push_back(torch::zeros_like(w.back()));
  }
  for (std::uint64_t step = 1; step <= 100; ++step) {
    set_gradients(parameters, step);
    optimizer.step();
    for (std::size_t i = 0; i < w.size(); ++i) {
      const auto g = parameters[i].grad().to(torch::kFloat64);
      const auto t = static_cast<double>(step);
      m[i] = kBeta1 * m[i] + (1 - kBeta1) * g;
      s[i] = kBeta2 * s[i] + (1 - kBeta2) * g * g;
      const bool is_vector = w[i].dim() <= 1;  // a bias: no ratio and no decay
      const auto r =
          m[i] / (1 - std::pow(kBeta1, t)) / ((s[i] / (1 - std::pow(kBeta2, t))).sqrt() + kEps) +
          (is_vector ? 0 : kDecay) * w[i];
      const double ratio = is_vector ? 1 : w[i].norm().item<double>() / r.norm().item<double>();
      w[i] = w[i] - kLr * ratio * r;
      ASSERT_LT(farthest(parameters[i], w[i]), 1e-5 * w[i].abs().max().item<double>())
          << "parameter " << i << " after step " << step;
    }
  }
}

TEST(AsupMomentum, FollowsItsEquationsFor100Steps) {
  torch::set_num_threads(1);
  constexpr double kLr = 0.01, kMomentum = 0.8, kAlpha = 0.95, kEps = 1e-6, kDecay = 0.01;
  auto parameters = some_parameters();
  AsupMomentum optimizer(
      parameters,
      AsupOptions(kLr).momentum(kMomentum).alpha(kAlpha).eps(kEps).weight_decay(kDecay));
  std::vector<torch::Tensor> w, v, s;
  for (const auto& parameter : parameters) {
    w.push_back(parameter.detach().to(torch::kFloat64));
    v.push_back(torch::zeros_like(w.back()));
    s.push_back(torch::zeros_like(w.back()));
  }
  for (std::uint64_t step = 1; step <= 100; ++step) {
    set_gradients(parameters, step);
    optimizer.step();
    for (std::size_t i = 0; i < w.size(); ++i) {
      const auto g = parameters[i].grad().to(torch::kFloat64) + kDecay * w[i];
      s[i] = kAlpha * s[i] + (1 - kAlpha) * g * g;
      const double missing = 1 - std::pow(kAlpha, static_cast<double>(step));
      v[i] = kMomentum * v[i] + kLr * g / (s[i] / missing + kEps).sqrt();
      w[i] = w[i] - v[i];
      ASSERT_LT(farthest(parameters[i], w[i]), 2e-6 * w[i].abs().max().item<double>())
          << "parameter " << i << " after step " << step;
    }
  }
}

// What a run does that goes on after a save equals what it would have done.
template <typename Optimizer, typename Options>
void expect_saved_and_loaded(const Options& options) {
  torch::set_num_threads(1);
  auto parameters = some_parameters();
  Optimizer optimizer(parameters, options);
  for (std::uint64_t step = 1; step <= 3; ++step) {
    set_gradients(parameters, step);
    optimizer.step();
  }
  std::stringstream file;
  torch::serialize::OutputArchive out;
  optimizer.save(out);
  out.save_to(file);

  std::vector<torch::Tensor> copies;
  for (const auto& parameter : parameters)
    copies.push_back(parameter.detach().clone().requires_grad_());
  Optimizer loaded(copies, Options(77.0));
  torch::serialize::InputArchive in;
  in.load_from(file);
  loaded.load(in);
  EXPECT_EQ(static_cast<const Options&>(loaded.param_groups()[0].options()).rule(), options.rule());
  EXPECT_EQ(loaded.param_groups()[0].options().get_lr(), options.lr());
  for (std::uint64_t step = 4; step <= 6; ++step) {
    set_gradients(parameters, step);
    set_gradients(copies, step);
    optimizer.step();
    loaded.step();
  }
  for (std::size_t i = 0; i < copies.size(); ++i)
    EXPECT_TRUE(torch::equal(copies[i], parameters[i])) << "parameter " << i;
}

TEST(Lamb, GoesOnAfterLoading) {
  expect_saved_and_loaded<Lamb>(LambOptions(0.02).betas({0.7, 0.9}).eps(1e-3).weight_decay(0.1));
}

TEST(Lars, GoesOnAfterLoading) {
  expect_saved_and_loaded<Lars>(LarsOptions(0.7).momentum(0.8).weight_decay(0.1).trust(0.01));
}

TEST(AsupMomentum, GoesOnAfterLoading) {
  expect_saved_and_loaded<AsupMomentum>(
      AsupOptions(0.02).momentum(0.7).alpha(0.9).eps(1e-4).weight_decay(0.1));
}

TEST(RuleOptimizer, GroupsKeepTheirOwnOptions) {
  auto parameters = some_parameters();
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector{parameters[0]},
                      std::make_unique<LarsOptions>(LarsOptions(0.5).momentum(0.25)));
  groups.emplace_back(std::vector{parameters[1]});
  Lars optimizer(groups, LarsOptions(2.0));
  optimizer.add_param_group(
      {std::vector{parameters[2]}, std::make_unique<LarsOptions>(LarsOptions(3.0).trust(0.5))});
  const auto options = [&](std::size_t i) {
    return static_cast<const LarsOptions&>(optimizer.param_groups()[i].options());
  };
  EXPECT_EQ(options(0).lr(), 0.5);
  EXPECT_EQ(options(0).momentum(), 0.25);
  EXPECT_EQ(options(1).lr(), 2.0);
  EXPECT_EQ(options(1).momentum(), 0.9);
  EXPECT_EQ(options(2).lr(), 3.0);
  EXPECT_EQ(options(2).trust(), 0.5);
}

TEST(RuleOptimizer, BitsDoNotDependOnThreads) {
  std::vector<torch::Tensor> results;
  for (const int threads : {1, 2}) {
    torch::set_num_threads(threads);
    auto parameters = some_parameters();
    Lars optimizer(parameters, LarsOptions(1.0));
    for (std::uint64_t step = 1; step <= 5; ++step) {
      set_gradients(parameters, step);
      optimizer.step();
    }
    results.push_back(parameters[2].detach());
  }
  EXPECT_TRUE(torch::equal(results[0], results[1]));
}

// As models in channels-last order have them.
TEST(RuleOptimizer, OrderInMemoryDoesNotMatter) {
  auto usual = numbers({4, 3, 5, 5}, 1).requires_grad_();
  auto last = usual.detach().clone(torch::MemoryFormat::ChannelsLast).requires_grad_();
  ASSERT_FALSE(last.is_contiguous());
  AsupMomentum a({usual}, AsupOptions(0.01)), b({last}, AsupOptions(0.01));
  for (std::uint64_t step = 1; step <= 3; ++step) {
    usual.mutable_grad() = numbers({4, 3, 5, 5}, 10 + step);
    last.mutable_grad() = usual.grad().clone(torch::MemoryFormat::ChannelsLast);
    a.step();
    b.step();
  }
  EXPECT_TRUE(torch::equal(usual, last));
}

// As a checkpoint of a model in channels-last brings it.
TEST(RuleOptimizer, GoesOnWithStateOfAnotherOrderInMemory) {
  const auto weights = [] {
    return torch::arange(2 * 3 * 4 * 4, torch::kFloat32).view({2, 3, 4, 4}) / 50;
  };
  torch::Tensor plain = weights().set_requires_grad(true),
                loaded = weights().set_requires_grad(true);
  Lars one({plain}, LarsOptions(1.0)), other({loaded}, LarsOptions(1.0));
  for (int step = 0; step < 3; ++step) {
    if (step == 1) {
      auto& slot = static_cast<RuleState&>(*other.state().begin()->second).slots.at(0);
      slot = slot.contiguous(torch::MemoryFormat::ChannelsLast);
    }
    plain.mutable_grad() = loaded.mutable_grad() = torch::sin(weights() + step);
    one.step();
    other.step();
  }
  EXPECT_TRUE(torch::equal(plain, loaded));
}

TEST(RuleOptimizer, LeavesParametersWithoutGradientAlone) {
  auto parameters = some_parameters();
  const auto before = parameters[0].detach().clone();
  AsupMomentum optimizer(parameters, AsupOptions(0.1));
  optimizer.step();
  EXPECT_TRUE(torch::equal(parameters[0], before));
}

TEST(RuleOptimizer, RefusesWhatItCannotUpdate) {
  auto wide = torch::ones({3}, torch::kFloat64).requires_grad_();
  wide.mutable_grad() = torch::ones({3}, torch::kFloat64);
  Lars optimizer({wide}, LarsOptions(1.0));
  EXPECT_EQ(message_of<BadInput>([&] { optimizer.step(); }),
            "lars takes dense f32 tensors on the CPU or a GPU; a parameter is Strided Double on "
            "cpu: convert "
            "it, or use an optimizer of torch::optim");

  auto embedding = torch::ones({3, 2}).requires_grad_();
  embedding.mutable_grad() = torch::ones({3, 2}).to_sparse();
  Lars sparse({embedding}, LarsOptions(1.0));
  EXPECT_EQ(message_of<BadInput>([&] { sparse.step(); }),
            "lars takes dense f32 tensors on the CPU or a GPU; a gradient is Sparse Float on cpu: "
            "convert "
            "it, or use an optimizer of torch::optim");
}

TEST(RuleOptimizer, RefusesOptionsOutOfRange) {
  EXPECT_EQ(message_of<BadInput>([&] { Lars(some_parameters(), LarsOptions(1.0).momentum(-1)); }),
            "update rule lars: momentum is -1; it must be finite and at least 0");
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(some_parameters(), std::make_unique<torch::optim::SGDOptions>(0.1));
  EXPECT_EQ(message_of<BadInput>([&] { Lars(groups, LarsOptions(1.0)); }),
            "a group of parameters has the options of another optimizer");
}

TEST(RuleOptimizer, RefusesAnotherModelsState) {
  auto parameters = some_parameters();
  Lars optimizer(parameters, LarsOptions(1.0));
  set_gradients(parameters, 1);
  optimizer.step();
  static_cast<RuleState&>(*optimizer.state().begin()->second).slots[0] = torch::zeros({2});
  EXPECT_EQ(message_of<BadInput>([&] { optimizer.step(); }),
            "the lars optimizer's state is not that of this model's parameters: it was saved by "
            "another optimizer or from another model");
}

// What a GPU does, on the CPU.
TEST(TorchRules, FollowTheKernelsFor100Steps) {
  torch::NoGradGuard no_grad;
  const std::vector<kernels::Rule> rules{
      LarsOptions(1.0).momentum(0.9).weight_decay(0.01).trust(0.02).rule(),
      LarsOptions(1.0).momentum(0).rule(), AsupOptions(0.001).weight_decay(0.01).rule(),
      AsupOptions(0.001).momentum(0.5).alpha(0.9).rule(),
      LambOptions(0.001).weight_decay(0.01).rule()};
  for (const kernels::Rule& rule : rules) {
    auto by_kernels = some_parameters();
    std::vector<torch::Tensor> by_torch;
    for (const auto& parameter : by_kernels) by_torch.push_back(parameter.detach().clone());
    std::vector<std::vector<torch::Tensor>> slots;
    for (const auto& parameter : by_torch)
      slots.emplace_back(kernels::state_slots(rule), torch::zeros_like(parameter));
    for (auto& of_one : slots)
      for (auto& slot : of_one) slot = slot.clone();
    const bool is_lars = rule.kind == kernels::Rule::Kind::lars;
    std::unique_ptr<RuleOptimizer> optimizer;
    if (is_lars)
      optimizer = std::make_unique<Lars>(by_kernels, LarsOptions(1.0)
                                                         .momentum(rule.momentum)
                                                         .weight_decay(rule.weight_decay)
                                                         .trust(rule.trust));
    else if (rule.kind == kernels::Rule::Kind::lamb)
      optimizer =
          std::make_unique<Lamb>(by_kernels, LambOptions(0.001).weight_decay(rule.weight_decay));
    else
      optimizer = std::make_unique<AsupMomentum>(by_kernels, AsupOptions(0.001)
                                                                 .momentum(rule.momentum)
                                                                 .alpha(rule.alpha)
                                                                 .weight_decay(rule.weight_decay));
    for (std::uint64_t step = 1; step <= 100; ++step) {
      set_gradients(by_kernels, step);
      optimizer->step();
      for (std::size_t i = 0; i < by_torch.size(); ++i)
        update_by_torch(by_torch[i].dim() > 1 ? rule : kernels::rule_of_vectors(rule),
                        is_lars ? 1.0 : 0.001, static_cast<std::int64_t>(step), by_torch[i],
                        by_kernels[i].grad(), slots[i]);
    }
    for (std::size_t i = 0; i < by_torch.size(); ++i)
      EXPECT_LT(farthest(by_kernels[i], by_torch[i].to(torch::kFloat64)),
                1e-6 * std::max(1.0, by_torch[i].abs().max().item<double>()))
          << describe(rule) << ", parameter " << i;
  }
}

}  // namespace
}  // namespace asup::optim
