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

constexpr int kRanks = 3, kMicroBatches = 4;

// Tells when it computes.
class WatchedImpl : public torch::nn::Module {
 public:
  explicit WatchedImpl(std::function<void()> on_forward)
      : on_forward_(std::move(on_forward)), linear_(register_module("linear", Linear(4, 4))) {}
  Tensor forward(const Tensor& x) {
    if (on_forward_) on_forward_();
    return linear_->forward(x);
  }

 private:
  std::function<void()> on_forward_;
  Linear linear_;
};
TORCH_MODULE(Watched);

Tensor loss_of(const Tensor& output, const Tensor& target) {
  return torch::mse_loss(output, target);
}

torch::nn::Sequential make_model(const std::function<void()>& on_forward) {
  torch::nn::Sequential model;
  for (int i = 0; i < kRanks; ++i) model->push_back(Watched(on_forward));
  return model;
}

class KilledIn : public ::testing::TestWithParam<std::string> {};

// In its first forward of the step, one in the middle, and the last; by then the others wait for it
// in forward and in backward.
TEST_P(KilledIn, AnyMicroBatchIsNamed) {
  for (int killed = 0; killed < kRanks; ++killed)
    for (const int moment : {1, kMicroBatches / 2 + 1, kMicroBatches})
      testing::run_processes(
          kRanks, net::LinkKind::shm,
          [&](Job& job) {
            torch::set_num_threads(1);
            int forwards = 0;
            const auto model = make_model([&] {
              if (job.rank() == killed && ++forwards == kMicroBatches + moment) raise(SIGKILL);
            });
            Pipeline pipeline(job, model, loss_of,
                              {.schedule = GetParam(), .micro_batches = kMicroBatches});
            const Tensor batch = torch::ones({kMicroBatches, 4});
            pipeline.step(batch, batch);
            const std::string told =
                testing::message_of<PeerLost>([&] { pipeline.step(batch, batch); });
            EXPECT_THAT(told, HasSubstr("rank " + std::to_string(killed) + " ("));
          },
          killed);
}

INSTANTIATE_TEST_SUITE_P(Schedules, KilledIn, ::testing::Values("gpipe", "1f1b", "zb1p"),
                         [](const auto& info) { return info.param; });

TEST(PipelineFaults, AStageThatIsLateIsNamedWithItsMicroBatch) {
  std::atomic<int> told = 0;
  testing::run_ranks(kRanks, net::LinkKind::inproc, [&](Job& job) {
    const auto communicator = make_communicator(job, {.timeout = Seconds(1)});
    int forwards = 0;
    const auto model = make_model([&] {
      if (job.rank() != 0 || ++forwards != 2) return;  // in its second micro-batch
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
