#include "asup/optim/fused_step.h"

#include <gtest/gtest.h>

#include "asup/tensors/tensor_places.h"
#include "tests/support/lies_in_file.h"

namespace asup::optim {
namespace {

using torch::Tensor;
namespace to = torch::optim;

Tensor numbers(torch::IntArrayRef shape, std::uint64_t seed) {
  return torch::randn(shape, at::detail::createCPUGenerator(seed));
}

// The last is a matrix that lies column by column.
std::vector<Tensor> some_parameters(torch::ScalarType type) {
  std::vector<Tensor> parameters = {numbers({7, 5}, 1), numbers({7}, 3), numbers({300, 401}, 2),
                                    numbers({6, 4}, 4).t()};
  for (auto& parameter : parameters) parameter = parameter.detach().to(type).requires_grad_();
  return parameters;
}

// One of them has no gradient in the first steps, another none in the third.
void set_gradients(std::vector<Tensor>& parameters, std::uint64_t step) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const bool has = (i != 0 || step > 2) && (i != 1 || step != 3);
    parameters[i].mutable_grad() = has ? torch::empty_like(parameters[i].detach())
                                             .copy_(numbers(parameters[i].sizes(), 100 * step + i))
                                       : Tensor();
  }
}

double farthest(const Tensor& a, const Tensor& b) {
  return (a.detach() - b.detach()).abs().max().item<double>();
}

// Two groups, the second of which learns at a rate of its own.
template <typename Class, typename Options>
std::unique_ptr<Class> make(const std::vector<Tensor>& parameters, Options options) {
  std::vector<to::OptimizerParamGroup> groups = {
      to::OptimizerParamGroup({parameters[0], parameters[1]})};
  Options others = options;
  others.set_lr(0.5 * options.get_lr());
  groups.emplace_back(std::vector<Tensor>{parameters[2], parameters[3]},
                      std::make_unique<Options>(others));
  return std::make_unique<Class>(groups, options);
}

template <typename Class, typename Options>
void expect_equal(const Options& options, torch::ScalarType type = torch::kFloat32) {
  auto here = some_parameters(type), there = some_parameters(type);
  const auto at_once = make<Class>(here, options), by_itself = make<Class>(there, options);
  for (std::uint64_t step = 1; step <= 6; ++step) {
    for (auto* optimizer : {at_once.get(), by_itself.get()})
      optimizer->param_groups()[0].options().set_lr(0.01 / static_cast<double>(step));
    set_gradients(here, step);
    set_gradients(there, step);
    if (step == 4)
      at_once->step();  // each goes on from the other's state
    else
      ASSERT_TRUE(step_at_once(*at_once));
    by_itself->step();
    for (std::size_t i = 0; i < here.size(); ++i)
      ASSERT_LT(farthest(here[i], there[i]), 2e-6) << "parameter " << i << " in step " << step;
  }
  EXPECT_EQ(at_once->state().size(), by_itself->state().size());
}

TEST(FusedStep, MovesParametersAsTheOptimizerDoes) {
  expect_equal<to::SGD>(to::SGDOptions(0.01));
  expect_equal<to::SGD>(to::SGDOptions(0.01).weight_decay(0.1));
  expect_equal<to::SGD>(to::SGDOptions(0.01).momentum(0.9));
  expect_equal<to::SGD>(to::SGDOptions(0.01).momentum(0.9).dampening(0.3).weight_decay(0.1));
  expect_equal<to::SGD>(to::SGDOptions(0.01).momentum(0.9).nesterov(true).weight_decay(0.1));
  expect_equal<to::Adam>(to::AdamOptions(0.01));
  expect_equal<to::Adam>(to::AdamOptions(0.01).betas({0.8, 0.95}).eps(1e-4).weight_decay(0.1));
  expect_equal<to::Adam>(to::AdamOptions(0.01).amsgrad(true));
  expect_equal<to::AdamW>(to::AdamWOptions(0.01));
  expect_equal<to::AdamW>(to::AdamWOptions(0.01).amsgrad(true).weight_decay(0.1));
  expect_equal<to::SGD>(to::SGDOptions(0.01).momentum(0.9), torch::kFloat64);
  expect_equal<to::AdamW>(to::AdamWOptions(0.01), torch::kFloat64);
}

TEST(FusedStep, HasTheSameBitsWithAnyNumberOfThreads) {
  std::vector<std::vector<Tensor>> ends;
  for (const int threads : {1, 2, 3}) {
    torch::set_num_threads(threads);
    auto parameters = some_parameters(torch::kFloat32);
    const auto adam = make<to::AdamW>(parameters, to::AdamWOptions(0.01));
    const auto sgd = make<to::SGD>(parameters, to::SGDOptions(0.01).momentum(0.9));
    for (std::uint64_t step = 1; step <= 4; ++step) {
      set_gradients(parameters, step);
      ASSERT_TRUE(step_at_once(*adam));
      ASSERT_TRUE(step_at_once(*sgd));
    }
    ends.push_back(parameters);
  }
  torch::set_num_threads(1);
  for (std::size_t i = 0; i < ends[0].size(); ++i) {
    EXPECT_TRUE(torch::equal(ends[0][i], ends[1][i]));
    EXPECT_TRUE(torch::equal(ends[0][i], ends[2][i]));
  }
}

void keep_few(std::vector<Tensor>& parameters) {
  torch::NoGradGuard no_grad;
  for (Tensor& parameter : parameters)
    if (parameter.grad().defined())
      parameter.mutable_grad().masked_fill_(parameter.grad().abs() < 2.5, 0);
}

TEST(StepWhereNotZero, MovesParametersAsTheOptimizerDoes) {
  auto here = some_parameters(torch::kFloat32), there = some_parameters(torch::kFloat32);
  const auto few = make<to::SGD>(here, to::SGDOptions(0.1));
  const auto all = make<to::SGD>(there, to::SGDOptions(0.1));
  for (std::uint64_t step = 1; step <= 4; ++step) {
    for (auto* parameters : {&here, &there}) {
      set_gradients(*parameters, step);
      keep_few(*parameters);
    }
    ASSERT_TRUE(step_where_not_zero(*few));
    all->step();
    for (std::size_t i = 0; i < here.size(); ++i) ASSERT_LT(farthest(here[i], there[i]), 1e-6);
  }
  EXPECT_GT(farthest(here[2], some_parameters(torch::kFloat32)[2]), 0.1);
}

TEST(StepWhereNotZero, LeavesWhatMovesAllToOthers) {
  auto parameters = some_parameters(torch::kFloat32);
  set_gradients(parameters, 5);
  EXPECT_FALSE(step_where_not_zero(*make<to::SGD>(parameters, to::SGDOptions(0.1).momentum(0.9))));
  EXPECT_FALSE(
      step_where_not_zero(*make<to::SGD>(parameters, to::SGDOptions(0.1).weight_decay(0.1))));
  EXPECT_FALSE(step_where_not_zero(*make<to::Adam>(parameters, to::AdamOptions(0.1))));
  auto wide = some_parameters(torch::kFloat64);
  set_gradients(wide, 5);
  EXPECT_FALSE(step_where_not_zero(*make<to::SGD>(wide, to::SGDOptions(0.1))));
}

class Halved : public to::SGD {
 public:
  using to::SGD::SGD;
  Tensor step(LossClosure = nullptr) override {
    torch::NoGradGuard no_grad;
    for (Tensor& parameter : param_groups()[0].params()) parameter.mul_(0.5);
    return {};
  }
};

TEST(FusedStep, LeavesWhatItCannotDoToTheOptimizer) {
  const auto stays = [](Tensor parameter, Tensor gradient) {
    parameter.requires_grad_();
    parameter.mutable_grad() = std::move(gradient);
    const Tensor before = parameter.detach().clone();
    to::SGD optimizer({parameter}, to::SGDOptions(0.1).momentum(0.9));
    EXPECT_FALSE(step_at_once(optimizer));
    EXPECT_TRUE(torch::equal(parameter, before));
    EXPECT_TRUE(optimizer.state().empty());
    step(optimizer);
    EXPECT_FALSE(torch::equal(parameter, before));
  };
  stays(torch::zeros({4, 6}), torch::ones({6, 4}).t());
  stays(torch::zeros({8, 6}).slice(0, 0, 8, 2), torch::ones({4, 6}));
  stays(torch::zeros({256}, torch::kBFloat16), torch::ones({256}, torch::kBFloat16));
  stays(torch::zeros({256}, torch::kFloat16), torch::ones({256}, torch::kFloat16));

  Tensor parameter = torch::ones({4}).requires_grad_();
  parameter.mutable_grad() = torch::ones({4});
  Halved own({parameter}, to::SGDOptions(0.1));
  step(own);
  EXPECT_TRUE(torch::equal(parameter, torch::full({4}, 0.5)));

  to::RMSprop other({parameter}, to::RMSpropOptions(0.1));
  EXPECT_FALSE(step_at_once(other));

  Tensor rows = torch::zeros({4, 2}).requires_grad_();
  rows.mutable_grad() = torch::ones({4, 2}).to_sparse();
  to::SGD sparse({rows}, to::SGDOptions(0.1));
  EXPECT_FALSE(step_at_once(sparse));
  step(sparse);
  EXPECT_TRUE(torch::equal(rows, torch::full({4, 2}, -0.1F)));
}

TEST(FusedStep, TakesNothingForAStepToo) {
  Tensor parameter = torch::ones({4}).requires_grad_();
  to::Adam optimizer({parameter}, to::AdamOptions(0.1));
  EXPECT_TRUE(step_at_once(optimizer));
  EXPECT_TRUE(optimizer.state().empty());
}

bool lies_in_file(const Tensor& tensor) { return asup::testing::lies_in_file(tensor.data_ptr()); }

// What the optimizer keeps is on the disk from the first step on, and nothing else is.
TEST(OptimizerStateIn, HasWhatAFirstStepMakes) {
  const TensorFile file("/var/tmp");
  const OptimizerStateIn scope(file);
  const auto weight = torch::ones({1 << 20}).requires_grad_(),
             twin = torch::ones({1 << 20}).requires_grad_();
  to::Adam optimizer(std::vector<Tensor>{weight}, to::AdamOptions(0.1));
  to::Adam other(std::vector<Tensor>{twin}, to::AdamOptions(0.1));
  for (int i = 0; i < 2; ++i) {
    weight.mutable_grad() = torch::full_like(weight.detach(), i + 1.0);
    twin.mutable_grad() = weight.grad().clone();
    step(optimizer);
    other.step();
  }
  const auto moment = [](to::Adam& adam) {
    return static_cast<to::AdamParamState&>(*adam.state().begin()->second).exp_avg();
  };
  EXPECT_TRUE(lies_in_file(moment(optimizer)));
  EXPECT_FALSE(lies_in_file(moment(other)));  // made by torch's own step
  EXPECT_FALSE(lies_in_file(weight.grad()));
  EXPECT_LT(farthest(weight, twin), 1e-6);
}

// A rule of torch's own makes tensors in every step, which are not to go to a disk and back.
TEST(OptimizerStateIn, HasNothingThatALaterStepMakes) {
  struct Watch : to::SGD {
    using SGD::SGD;
    Tensor step(LossClosure closure = nullptr) override {
      made.push_back(torch::ones({1 << 20}));
      return SGD::step(std::move(closure));
    }
    std::vector<Tensor> made;
  };
  const TensorFile file("/var/tmp");
  const OptimizerStateIn scope(file);
  const auto weight = torch::ones({8}).requires_grad_();
  Watch optimizer(std::vector<Tensor>{weight}, to::SGDOptions(0.1).momentum(0.9));
  for (int i = 0; i < 2; ++i) {
    weight.mutable_grad() = torch::ones({8});
    step(optimizer);
  }
  EXPECT_TRUE(lies_in_file(optimizer.made.at(0)));
  EXPECT_FALSE(lies_in_file(optimizer.made.at(1)));
}

}  // namespace
}  // namespace asup::optim
