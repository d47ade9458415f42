// Models that a tensor group computes together follow one that computes alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/base/error.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/models/model.h"
#include "asup/models/task.h"
#include "asup/parallel/tensor/tensor_group.h"
#include "asup/parallel/tensor_cut.h"
#include "tests/support/ranks.h"
#include "tests/support/thrown.h"

namespace asup::models {
namespace {

using asup::testing::message_of;
using asup::testing::run_ranks;
using net::LinkKind;
using parallel::TensorGroup;
using ::testing::HasSubstr;
using torch::Tensor;

struct Case {
  const char* name;
  const char* model;
  ModelOptions options;
  int ranks;
  LinkKind links = LinkKind::inproc;
};

void PrintTo(const Case& each, std::ostream* stream) { *stream << each.name; }

ModelOptions mlp(std::int64_t depth) {
  return {.input_shape = {1, 5, 5}, .classes = 7, .width = 24, .depth = depth};
}

ModelOptions gpt() {
  return {.input_shape = {12}, .classes = 37, .width = 32, .depth = 2, .text = true, .heads = 4};
}

struct Batch {
  Tensor input, target;
};

Batch batch_of(const Case& of, std::uint64_t step) {
  auto random = at::detail::createCPUGenerator(step + 100);
  if (of.options.text) {
    const Tensor text = torch::randint(0, of.options.classes, {6, 13}, random, torch::kLong);
    return {text.narrow(1, 0, 12), text.narrow(1, 1, 12).contiguous()};
  }
  return {torch::randn({6, 1, 5, 5}, random),
          torch::randint(0, of.options.classes, {6}, random, torch::kLong)};
}

// torch's generator is one for all ranks that are threads.
std::shared_ptr<Model> make(const Case& of, const TensorGroup* group) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  torch::manual_seed(5);
  ModelOptions options = of.options;
  options.tensor = group;
  return make_model(of.model, options);
}

std::vector<double> train(const Case& of, Model& model) {
  torch::optim::SGD optimizer(model.parameters(),
                              torch::optim::SGDOptions(of.options.text ? 0.1 : 0.01).momentum(0.9));
  std::vector<double> losses;
  for (std::uint64_t step = 0; step < 50; ++step) {
    const Batch batch = batch_of(of, step % 5);
    optimizer.zero_grad();
    const Tensor loss =
        sum_of_losses(model.forward_part(batch.input), batch.target, 0.1, model.cut_scores()) / 6;
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

class TensorModels : public ::testing::TestWithParam<Case> {};

TEST_P(TensorModels, FollowOneProcess) {
  torch::set_num_threads(1);
  const Case& of = GetParam();
  const auto whole = make(of, nullptr);
  const std::map<std::string, Tensor> first = [&] {
    std::map<std::string, Tensor> copies;
    for (const auto& each : whole->named_parameters())
      copies[each.key()] = each.value().detach().clone();
    return copies;
  }();
  const std::vector<double> expected = train(of, *whole);
  EXPECT_LT(expected.back(), 0.9 * expected.front());
  const Batch test = batch_of(of, 77);
  const Tensor scores = whole->forward(test.input);

  run_ranks(of.ranks, of.links, [&](Job& job) {
    const TensorGroup group(make_communicator(job));
    const auto model = make(of, &group);
    const auto cuts = parallel::cuts_of(*model);
    EXPECT_FALSE(cuts.empty());
    EXPECT_EQ(model->named_parameters().size(), first.size());
    for (const auto& each : model->named_parameters()) {
      const Tensor& theirs = first.at(each.key());
      const auto cut = cuts.find(each.key());
      EXPECT_TRUE(each.value().equal(
          cut == cuts.end() ? theirs : part_of(theirs, cut->second, group.rank(), group.size())))
          << each.key();
    }
    const std::vector<double> losses = train(of, *model);
    for (std::size_t i = 0; i < losses.size(); ++i)
      EXPECT_NEAR(losses[i], expected[i], 1e-5 * expected[i]) << "step " << i;
    EXPECT_TRUE(model->forward(test.input).allclose(scores, 1e-3, 1e-3));
    // What is not cut stays the same on all ranks.
    for (const auto& each : model->named_parameters()) {
      if (cuts.contains(each.key())) continue;
      const Tensor most = each.value().detach().clone(), least = most.clone();
      group.all_reduce(most, "compare", ReduceOp::max);
      group.all_reduce(least, "compare", ReduceOp::min);
      EXPECT_TRUE(most.equal(least)) << each.key();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, TensorModels,
                         ::testing::Values(Case{"mlp", "mlp", mlp(2), 2},
                                           Case{"mlp_of_rows_last", "mlp", mlp(3), 2},
                                           Case{"mlp_of_4", "mlp", mlp(2), 4, LinkKind::shm},
                                           Case{"gpt", "gpt", gpt(), 2},
                                           Case{"gpt_of_4", "gpt", gpt(), 4}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(TensorModels, RefuseWhatCannotBeCut) {
  run_ranks(3, LinkKind::inproc, [](Job& job) {
    const TensorGroup group(make_communicator(job));
    const auto refusal = [&](const char* name, ModelOptions options) {
      options.tensor = &group;
      return message_of<BadInput>([&] { make_model(name, options); });
    };
    EXPECT_THAT(refusal("mlp", {.width = 32}),
                HasSubstr("a width of 32 cannot be divided by tensor = 3"));
    EXPECT_THAT(refusal("mlp", {.classes = 2, .width = 33}),
                HasSubstr("more ranks than there are classes"));
    EXPECT_THAT(refusal("gpt", gpt()), HasSubstr("heads = 4 cannot be divided by tensor = 3"));
    EXPECT_THAT(refusal("cnn", {}), HasSubstr("cnn has no layers that could be cut"));
    EXPECT_THAT(refusal("lstm", gpt()), HasSubstr("lstm has no layers that could be cut"));
  });
}

}  // namespace
}  // namespace asup::models
