#include "asup/sync/gradients/gradient_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "tests/sync/training.h"
#include "tests/sync/watched_communicator.h"

namespace asup::sync {
namespace {

using net::LinkKind;
using ::testing::ElementsAre;
using testing::fill;
using ::testing::HasSubstr;
using testing::loss_of;
using testing::Mlp;
using testing::part;
using testing::train_ranks;

const layout::BucketRules kOneGradientEach{.bucket_bytes = 1, .first_bucket_bytes = 1};
const layout::BucketRules kOneBucket{};

// Lets a gradient through and says that backward came by.
struct Milestone : torch::autograd::Function<Milestone> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               std::function<void()>* passed) {
    context->saved_data["passed"] = reinterpret_cast<std::int64_t>(passed);
    return x.view_as(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    (*reinterpret_cast<std::function<void()>*>(context->saved_data["passed"].toInt()))();
    return {gradients[0], {}};
  }
};

struct Trained {
  explicit Trained(Communicator& communicator, const layout::BucketRules& sizes = kOneBucket)
      : exchange(communicator, parameters_of(model), layout::backwards(6), sizes) {}
  Mlp model;
  GradientExchange exchange;
};

TEST(GradientExchange, GradientsAreViewsOfTheirBucket) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Trained trained(communicator);
    const Buffer bucket = trained.exchange.buckets().buffer(0);
    const auto* begin = static_cast<std::byte*>(bucket.data);
    for (const bool set_to_none : {true, false}) {
      loss_of(trained.model, Mlp::batch(0)).backward();
      trained.exchange.finish();
      trained.exchange.next_step();
      for (const auto& parameter : trained.model.parameters()) {
        const auto* data = static_cast<std::byte*>(parameter.grad().data_ptr());
        EXPECT_GE(data, begin);
        EXPECT_LE(data + parameter.grad().nbytes(), begin + bucket.bytes());
        EXPECT_EQ(parameter.grad().strides(), parameter.strides());
      }
      trained.model.zero_grad(set_to_none);
    }
  });
}

TEST(GradientExchange, ViewsKeepStrides) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    torch::nn::Conv2d conv(torch::nn::Conv2dOptions(3, 5, 3));
    conv->to(torch::kFloat32);
    conv->weight.set_data(conv->weight.detach().contiguous(torch::MemoryFormat::ChannelsLast));
    fill(*conv, 5);
    GradientExchange exchange(communicator, parameters_of(*conv), layout::backwards(2), kOneBucket);
    const auto x = testing::numbers({4, 3, 8, 8}, 6);
    conv(communicator.rank() == 0 ? x : 3 * x).sum().backward();
    const auto single = torch::autograd::grad({conv(x).sum()}, {conv->weight})[0];
    exchange.finish();
    EXPECT_EQ(conv->weight.grad().strides(), conv->weight.strides());
    EXPECT_TRUE(torch::allclose(conv->weight.grad(), 2 * single, 1e-5, 1e-5));
  });
}

// Backward passes the first layer's input last. Buckets of the layers above left before.
void expect_buckets_to_leave_while_backward_runs(bool described) {
  train_ranks(2, LinkKind::inproc, [=](Communicator& real) {
    std::vector<std::string> events;
    testing::WatchedCommunicator communicator(real, [&](const Call& call) {
      if (call.collective == collective::Collective::all_reduce)
        events.push_back(fmt::format("bucket of {}", call.output.count));
    });
    Trained trained(communicator, kOneGradientEach);
    std::function<void()> into_second = [&] { events.push_back("backward enters second"); };
    std::function<void()> into_first = [&] { events.push_back("backward enters first"); };
    if (described) trained.exchange.describe(3);
    Mlp& model = trained.model;
    const auto batch = Mlp::batch(0);
    auto x = Milestone::apply(torch::tanh(model.first(batch.data)), &into_first);
    x = Milestone::apply(torch::tanh(model.second(x)), &into_second);
    torch::mse_loss(model.third(x), batch.target).backward();
    events.push_back("backward ends");
    trained.exchange.finish();
    EXPECT_THAT(events, ElementsAre("bucket of 4", "bucket of 64", "backward enters second",
                                    "bucket of 16", "bucket of 256", "backward enters first",
                                    "bucket of 16", "bucket of 135", "backward ends"));
  });
}

TEST(GradientExchange, BucketsLeaveWhileBackwardRuns) {
  expect_buckets_to_leave_while_backward_runs(/*described=*/false);
  expect_buckets_to_leave_while_backward_runs(/*described=*/true);
}

// Rank 1's gradients come in another order than its buckets: they wait for their turn.
TEST(GradientExchange, AllRanksSendBucketsInOneOrder) {
  train_ranks(2, LinkKind::inproc, [](Communicator& real) {
    std::vector<std::string> events;
    testing::WatchedCommunicator communicator(real, [&](const Call& call) {
      events.push_back(fmt::format("bucket of {}", call.output.count));
    });
    const auto a = torch::ones({3}, torch::requires_grad());
    const auto b = torch::ones({40}, torch::requires_grad());
    a.register_hook([&](const torch::Tensor&) { events.push_back("a"); });
    b.register_hook([&](const torch::Tensor&) { events.push_back("b"); });
    GradientExchange exchange(communicator, {{"a", a}, {"b", b}}, layout::backwards(2),
                              kOneGradientEach);
    // What was computed last comes first.
    if (real.rank() == 0) {
      const auto of_b = b.sum();
      (a.sum() + of_b).backward();
      EXPECT_THAT(events, ElementsAre("a", "b", "bucket of 40", "bucket of 23"));
    } else {
      const auto of_a = a.sum();
      (b.sum() + of_a).backward();
      EXPECT_THAT(events, ElementsAre("b", "bucket of 40", "a", "bucket of 23"));
    }
  });
}

// The first of two backward passes is averaged by itself, and the second is added to it.
TEST(GradientExchange, TwoBackwardsBeforeAStep) {
  train_ranks(3, LinkKind::shm, [](Communicator& communicator) {
    Trained trained(communicator, {.bucket_bytes = 600, .first_bucket_bytes = 100});
    Mlp alone;
    for (const int seed : {4, 5}) {
      loss_of(alone, Mlp::batch(seed)).backward();
      loss_of(trained.model, part(Mlp::batch(seed), communicator.rank(), 3)).backward();
    }
    trained.exchange.finish();
    for (std::size_t i = 0; i < 6; ++i)
      EXPECT_TRUE(torch::allclose(trained.model.parameters()[i].grad(),
                                  alone.parameters()[i].grad(), 1e-5, 1e-6));
  });
}

TEST(GradientExchange, FinishedGradientsMayBeChangedBeforeTheStep) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Trained trained(communicator);
    loss_of(trained.model, Mlp::batch(communicator.rank())).backward();
    trained.exchange.finish();
    const double norm = torch::nn::utils::clip_grad_norm_(trained.model.parameters(), 0.01);
    EXPECT_GT(norm, 0.01);
    const auto clipped = trained.model.first->weight.grad().clone();
    trained.exchange.finish();  // as step() does: nothing is left to exchange
    EXPECT_TRUE(torch::equal(trained.model.first->weight.grad(), clipped));
  });
}

TEST(GradientExchange, ATensorThatTheUserPutIsExchangedToo) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Trained trained(communicator);
    for (auto& parameter : trained.model.parameters())
      parameter.mutable_grad() = torch::full_like(parameter, communicator.rank());
    trained.exchange.finish();
    for (const auto& parameter : trained.model.parameters())
      EXPECT_TRUE(torch::equal(parameter.grad(), torch::full_like(parameter, 0.5)));
  });
}

// Rank 1 calls backward twice for the same step, so that its rounds slip against the others'.
TEST(GradientExchange, RanksInDifferentStepsAreFound) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Trained trained(communicator);
    const auto train = [&] {
      for (int step = 0; step < 3; ++step) {
        loss_of(trained.model, Mlp::batch(step)).backward();
        if (communicator.rank() == 1 && step == 0)
          loss_of(trained.model, Mlp::batch(step)).backward();
        trained.exchange.finish();
        trained.exchange.next_step();
      }
    };
    try {
      train();
      ADD_FAILURE() << "rank " << communicator.rank() << " trained on";
    } catch (const JobFailed& failure) {
      EXPECT_THAT(failure.what(), HasSubstr("gradients of different steps"));
    }
  });
}

TEST(GradientExchange, LearnsTheOrderOfArrival) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    const auto a = torch::ones({3}, torch::requires_grad());
    const auto b = torch::ones({4}, torch::requires_grad());
    const auto c = torch::ones({5}, torch::requires_grad());
    GradientExchange exchange(communicator, {{"a", a}, {"b", b}, {"c", c}}, layout::backwards(3),
                              kOneGradientEach);
    const double scale = communicator.rank() + 1;
    (scale * a).sum().backward();
    (scale * c).sum().backward();
    exchange.finish();
    EXPECT_THAT(exchange.observed_order(), ElementsAre(0, 2, 1));
    const auto before = a.grad().data_ptr();
    exchange.rebuild(exchange.observed_order());
    EXPECT_NE(a.grad().data_ptr(), before);
    EXPECT_EQ(a.grad().data_ptr(), exchange.buckets().buffer(0).data);
    EXPECT_TRUE(torch::equal(a.grad(), torch::full({3}, 1.5)));
    EXPECT_FALSE(b.grad().defined());
    EXPECT_TRUE(torch::equal(c.grad(), torch::full({5}, 1.5)));
    exchange.next_step();
    (scale * b).sum().backward();
    exchange.finish();
    EXPECT_TRUE(torch::equal(b.grad(), torch::full({4}, 1.5)));
  });
}

// A model whose two weights of 1 MB are made, averaged and kept in the arena.
struct Wide : torch::nn::Module {
  Wide()
      : first(register_module("first", torch::nn::Linear(512, 512))),
        second(register_module("second", torch::nn::Linear(512, 512))) {
    fill(*this, 8);
  }
  torch::Tensor forward(const torch::Tensor& x) { return second(torch::tanh(first(x))); }
  torch::nn::Linear first, second;
};

torch::Tensor loss_of_wide(Wide& model, int rank) {
  return model.forward(testing::numbers({4, 512}, 30 + rank)).square().mean();
}

// The average of both ranks' gradients, as one process computes it.
std::vector<torch::Tensor> expected_of_wide() {
  Wide model;
  ((loss_of_wide(model, 0) + loss_of_wide(model, 1)) / 2).backward();
  std::vector<torch::Tensor> result;
  for (const auto& parameter : model.parameters()) result.push_back(parameter.grad());
  return result;
}

void expect_gradients(const Wide& model, const std::vector<torch::Tensor>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(torch::allclose(model.parameters()[i].grad(), expected[i], 1e-5, 1e-7)) << i;
}

TEST(GradientExchange, LargeGradientsTravelFromWhereTheyAre) {
  const auto expected = expected_of_wide();
  for (const auto links : {LinkKind::inproc, LinkKind::shm, LinkKind::tcp})
    train_ranks(2, links, [&](Communicator& real) {
      std::vector<void*> sent;
      testing::WatchedCommunicator communicator(
          real, [&](const Call& call) { sent.push_back(call.output.data); });
      Wide model;
      std::vector<void*> made;
      const auto note = [&](const torch::Tensor& gradient) { made.push_back(gradient.data_ptr()); };
      for (auto& layer : {model.second, model.first}) layer->weight.register_hook(note);
      GradientExchange exchange(communicator, parameters_of(model), layout::backwards(4),
                                kOneBucket);
      for (int step = 0; step < 3; ++step) {
        made.clear(), sent.clear();
        model.zero_grad();
        loss_of_wide(model, real.rank()).backward();
        exchange.finish();
        EXPECT_THAT(made, ElementsAre(model.second->weight.grad().data_ptr(),
                                      model.first->weight.grad().data_ptr()));
        EXPECT_THAT(sent, ::testing::IsSupersetOf(made));
        expect_gradients(model, expected);
        exchange.next_step();
      }
    });
}

// torch's own allocator is back when the last arena has gone, whichever came first; what came out
// of an arena stays valid.
TEST(GradientExchange, TorchsAllocatorIsReplacedOnlyWhileAnArenaLives) {
  c10::Allocator* const before = c10::GetAllocator(c10::kCPU);
  train_ranks(1, LinkKind::shm, [&](Communicator& communicator) {
    const auto make = [&](Wide& model) {
      return std::make_unique<GradientExchange>(communicator, parameters_of(model),
                                                layout::backwards(4), kOneBucket);
    };
    Wide one, two;
    auto first = make(one);
    EXPECT_NE(c10::GetAllocator(c10::kCPU), before);
    auto second = make(two);
    loss_of_wide(one, 0).backward();
    const torch::Tensor kept = one.first->weight.grad();
    const torch::Tensor copy = kept.clone();
    first.reset();
    EXPECT_NE(c10::GetAllocator(c10::kCPU), before) << "the second one needs it";
    second.reset();
    EXPECT_EQ(c10::GetAllocator(c10::kCPU), before);
    EXPECT_TRUE(torch::equal(kept, copy));

    auto third = make(two);
    EXPECT_NE(c10::GetAllocator(c10::kCPU), before);
    loss_of_wide(two, 0).backward();
    third.reset();
    EXPECT_EQ(c10::GetAllocator(c10::kCPU), before);
    EXPECT_TRUE(torch::equal(two.first->weight.grad(), copy));
  });
  EXPECT_EQ(c10::GetAllocator(c10::kCPU), before);
}

// Rank 1 has used up the arena, rank 0 has not: they still meet.
TEST(GradientExchange, AFullArenaMeansCopies) {
  const auto expected = expected_of_wide();
  train_ranks(2, LinkKind::shm, [&](Communicator& communicator) {
    Wide model;
    GradientExchange exchange(communicator, parameters_of(model), layout::backwards(4), kOneBucket);
    std::vector<torch::Tensor> kept;
    for (int step = 0; step < 8; ++step) {
      model.zero_grad();
      loss_of_wide(model, communicator.rank()).backward();
      exchange.finish();
      expect_gradients(model, expected);
      exchange.next_step();
      if (communicator.rank() == 1)
        for (const auto& parameter : model.parameters()) kept.push_back(parameter.grad());
    }
    EXPECT_TRUE(model.first->weight.grad().is_same(exchange.buckets().view(0)) ==
                (communicator.rank() == 1));
  });
}

// The user drops gradients while they travel.
TEST(GradientExchange, DroppedGradientsStayUntilTheyHaveTravelled) {
  train_ranks(2, LinkKind::shm, [&](Communicator& communicator) {
    Wide model;
    GradientExchange exchange(communicator, parameters_of(model), layout::backwards(4), kOneBucket);
    for (int step = 0; step < 3; ++step) {
      loss_of_wide(model, communicator.rank()).backward();
      model.zero_grad();
      exchange.finish();
      EXPECT_FALSE(model.first->weight.grad().defined());
      exchange.next_step();
    }
  });
}

TEST(GradientExchange, LargeGradientsAddUp) {
  const auto expected = expected_of_wide();
  train_ranks(2, LinkKind::shm, [&](Communicator& communicator) {
    Wide model;
    GradientExchange exchange(communicator, parameters_of(model), layout::backwards(4), kOneBucket);
    exchange.set_sync(false);
    loss_of_wide(model, communicator.rank()).backward();
    exchange.set_sync(true);
    loss_of_wide(model, 1 - communicator.rank()).backward();
    exchange.finish();
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_TRUE(torch::allclose(model.parameters()[i].grad(), 2 * expected[i], 1e-5, 1e-7)) << i;
  });
}

template <typename Exception>
void expect_backward_throws(const torch::Tensor& loss, bool create_graph, const char* message) {
  try {
    loss.backward({}, {}, create_graph);
    ADD_FAILURE() << "backward accepted what it should not";
  } catch (const Exception& exception) {
    EXPECT_THAT(exception.what(), HasSubstr(message));
  }
}

TEST(GradientExchange, RefusesSparseGradients) {
  train_ranks(1, LinkKind::inproc, [](Communicator& communicator) {
    torch::nn::Embedding words(torch::nn::EmbeddingOptions(10, 4).sparse(true));
    GradientExchange exchange(communicator, parameters_of(*words), layout::backwards(1),
                              kOneBucket);
    expect_backward_throws<BadInput>(words(torch::tensor({1, 2})).sum(), false,
                                     "parameter weight has a sparse gradient");
  });
}

TEST(GradientExchange, RefusesGradientsWithAGraph) {
  train_ranks(1, LinkKind::inproc, [](Communicator& communicator) {
    Trained trained(communicator);
    expect_backward_throws<Error>(loss_of(trained.model, Mlp::batch(0)), true, "create_graph");
  });
}

// torch forgets the hooks of a parameter that changes its type: only the end of the round sees it.
TEST(GradientExchange, RefusesAModelThatWasCastLater) {
  train_ranks(1, LinkKind::inproc, [](Communicator& communicator) {
    Trained trained(communicator);
    trained.model.to(torch::kFloat64);
    loss_of(trained.model, Mlp::batch(0, 24, torch::kFloat64)).backward();
    try {
      trained.exchange.finish();
      ADD_FAILURE() << "a gradient of another type was accepted";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("third.bias is 4 f64 on cpu and was to be 4 f32"));
    }
  });
}

// A gradient penalty takes gradients of gradients on the side; backward itself keeps no graph.
TEST(GradientExchange, GradientsOnTheSideDoNotCount) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Trained trained(communicator);
    Mlp alone;
    const auto penalized = [](Mlp& model) {
      const auto loss = loss_of(model, Mlp::batch(7));
      const auto side = torch::autograd::grad({loss}, model.parameters(), {}, true, true);
      torch::Tensor penalty = torch::zeros({});
      for (const auto& gradient : side) penalty = penalty + gradient.square().sum();
      return loss + penalty;
    };
    penalized(alone).backward();
    penalized(trained.model).backward();
    trained.exchange.finish();
    EXPECT_TRUE(torch::allclose(trained.model.first->weight.grad(), alone.first->weight.grad()));
  });
}

}  // namespace
}  // namespace asup::sync
