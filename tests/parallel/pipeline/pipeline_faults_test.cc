// A rank of a pipeline that is killed at any moment of a schedule, or comes late: the others name
// it, and the micro-batch that they wait with.
#include <gmock/gmock.h>
#include <signal.h>

#include <atomic>
#include <thread>

#include "asup/base/error.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/parallel/pipeline/layers.h"
#include "asup/parallel/pipeline/pipeline.h"
#include "tests/support/processes.h"
#include "tests/support/ranks.h"
#include "tests/support/thrown.h"

namespace asup::parallel {
namespace {

using ::testing::HasSubstr;
using torch::Tensor;

constexpr int kRanks = 3, kMicroBatches = 4, kLayersOfARank = 2;

enum class Pass { forward, backward };
using OnPass = std::function<void(Pass)>;

// Tells when it computes.
class WatchedImpl : public torch::nn::Module {
 public:
  explicit WatchedImpl(OnPass on_pass)
      : on_pass_(std::move(on_pass)), linear_(register_module("linear", Linear(4, 4))) {}
  Tensor forward(const Tensor& x) {
    on_pass_(Pass::forward);
    const Tensor y = linear_->forward(x);
    if (y.requires_grad())
      y.register_hook([tell = on_pass_](const Tensor&) { tell(Pass::backward); });
    return y;
  }

 private:
  const OnPass on_pass_;
  Linear linear_;
};
TORCH_MODULE(Watched);

Tensor loss_of(const Tensor& output, const Tensor& target) {
  return torch::mse_loss(output, target);
}

torch::nn::Sequential make_model(const OnPass& on_pass) {
  torch::nn::Sequential model;
  for (int i = 0; i < kRanks * kLayersOfARank; ++i) model->push_back(Watched(on_pass));
  return model;
}

class KilledIn : public ::testing::TestWithParam<std::string> {};

// In its first forward of the step, one in the middle, and the last, by which the others wait for
// it in forward and in backward; and in the midst of its backwards.
TEST_P(KilledIn, AnyMicroBatchIsNamed) {
  constexpr int kOfAStep = kMicroBatches * kLayersOfARank;
  const std::pair<Pass, int> moments[] = {{Pass::forward, 1},
                                          {Pass::forward, kOfAStep / 2 + 1},
                                          {Pass::forward, kOfAStep},
                                          {Pass::backward, kOfAStep / 2 + 1}};
  for (int killed = 0; killed < kRanks; ++killed)
    for (const auto& [pass, moment] : moments)
      testing::run_processes(
          kRanks, net::LinkKind::shm,
          [&](Job& job) {
            torch::set_num_threads(1);
            int passes = 0;
            const auto model = make_model([&](Pass now) {
              if (job.rank() == killed && now == pass && ++passes == kOfAStep + moment)
                raise(SIGKILL);
            });
            Pipeline pipeline(job, model, loss_of,
                              {.schedule = GetParam(), .micro_batches = kMicroBatches});
            const Tensor batch = torch::ones({kMicroBatches, 4});
            // It is killed in the second step, in which the first one's loss may still be on its
            // way; and who waits for no gradients of it ends the second.
            const std::string told = testing::message_of<PeerLost>([&] {
              for (int step = 0; step < 3; ++step) pipeline.step(batch, batch);
            });
            EXPECT_THAT(told, HasSubstr("rank " + std::to_string(killed) + " ("));
          },
          killed);
}

INSTANTIATE_TEST_SUITE_P(Schedules, KilledIn,
                         ::testing::Values("gpipe", "1f1b", "interleaved", "zb1p", "zbv"),
                         [](const auto& info) { return info.param; });

TEST(PipelineFaults, AStageThatIsLateIsNamedWithItsMicroBatch) {
  std::atomic<int> told = 0;
  testing::run_ranks(kRanks, net::LinkKind::inproc, [&](Job& job) {
    const auto communicator = make_communicator(job, {.timeout = Seconds(1)});
    int forwards = 0;
    const auto model = make_model([&](Pass pass) {
      const bool counts = job.rank() == 0 && pass == Pass::forward;
      if (!counts || ++forwards != kLayersOfARank + 1) return;  // in its second micro-batch
      while (told < kRanks - 1) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    });
    Pipeline pipeline(*communicator, model, loss_of,
                      {.micro_batches = kMicroBatches, .random = false});
    const Tensor batch = torch::ones({kMicroBatches, 4});
    const std::string why = testing::message_of<JobFailed>([&] { pipeline.step(batch, batch); });
    ++told;
    EXPECT_THAT(why, HasSubstr("step 0"));
    if (job.rank() == 0) return;
    EXPECT_THAT(why, HasSubstr(fmt::format("stage {}, micro-batch 1: waiting for activations from "
                                           "stage {}",
                                           job.rank(), job.rank() - 1)));
    // Rank 2 waits for rank 1, whose deadline is the same: whichever finds out first names whom it
    // waits for itself, or the one at the end of the chain.
    EXPECT_THAT(why, ::testing::AnyOf(HasSubstr("rank 0 ("), HasSubstr("rank 1 (")));
  });
}

}  // namespace
}  // namespace asup::parallel
