// Which of several ways gradients travel in, as a setting, and by what is measured.
#include "asup/sync/gradients/compress.h"

#include <gtest/gtest.h>

#include "asup/sync/compressors/low_rank_gradients.h"
#include "asup/sync/compressors/sparse_gradients.h"
#include "asup/sync/gradients/fastest_exchange.h"
#include "tests/sync/gradients/all_reduce_training.h"

namespace asup {
namespace {

using enum Compress;

TEST(CompressSetting, IsReadAndWritten) {
  for (const char* text :
       {"none", "bf16", "dgc", "powersgd", "auto", "auto:int8", "auto:int8,dgc"}) {
    const auto setting = CompressSetting::from_text(text);
    ASSERT_TRUE(setting) << text;
    EXPECT_EQ(setting->to_text(), text);
  }
  EXPECT_EQ(CompressSetting::kForm,
            "none|bf16|fp16|int8|int4|onebit|topk|dgc|powersgd|auto[:NAME,...]");
  EXPECT_TRUE(CompressSetting::kWanted.starts_with("none, bf16, fp16"));
  EXPECT_TRUE(
      CompressSetting::kWanted.ends_with("powersgd, or auto, for the faster of none and "
                                         "bf16, or auto:int8,dgc, for the fastest of "
                                         "these too"));
  EXPECT_EQ(names_of_codes(), "bf16, fp16, int8, int4 or onebit");
  EXPECT_EQ(CompressSetting::from_text("auto:int8,dgc")->among,
            (std::vector{none, bf16, int8, dgc}));
  EXPECT_EQ(CompressSetting::from_text("auto:bf16,none")->to_text(), "auto");
  EXPECT_EQ(CompressSetting(int8), CompressSetting::from_text("int8"));
  for (const char* text : {"", "int9", "auto:", "auto:int9", "auto:int8,", "autoint8", "auto,int8"})
    EXPECT_FALSE(CompressSetting::from_text(text)) << text;
}

// Takes as long as it is told, and leaves gradients as they are.
class Slow final : public Compressor {
 public:
  Slow(Communicator& communicator, int milliseconds)
      : communicator_(communicator), milliseconds_(milliseconds) {}
  std::string description() const override { return "slow"; }
  Work leave(const Bucket& bucket) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds_));
    return communicator_.start_all_reduce({bucket.gradients.data, 1, Dtype::f32},
                                          ReduceOp::average);
  }
  std::optional<Work> arrive(std::size_t) override { return std::nullopt; }

 private:
  Communicator& communicator_;
  const int milliseconds_;
};

CompressorFactory slow(int milliseconds) {
  return [milliseconds](const CompressorContext& context) {
    return std::make_unique<Slow>(context.communicator, milliseconds);
  };
}

TEST(FastestExchange, IsTheOneThatAllRanksTakeLeastFor) {
  testing::train_ranks(2, net::LinkKind::inproc, [](Communicator& communicator) {
    const torch::optim::SGD optimizer(std::vector<torch::Tensor>{torch::zeros({1})}, 0.1);
    // One rank is late with the second, the other with the third.
    const int rank = communicator.rank();
    const auto fastest =
        sync::fastest_exchange(communicator, optimizer, 2000,
                               {{"a", kernels::Code::none, false, slow(60)},
                                {"b", kernels::Code::none, false, slow(rank == 0 ? 150 : 1)},
                                {"c", kernels::Code::none, false, slow(rank == 0 ? 1 : 150)},
                                {"d", kernels::Code::none, false, slow(1)}});
    EXPECT_EQ(fastest.best, 3u);
    EXPECT_GE(fastest.seconds[1], 0.15);
    EXPECT_GE(fastest.seconds[2], 0.15);
  });
}

TEST(FastestExchange, TriesEveryWay) {
  testing::train_ranks(3, net::LinkKind::inproc, [](Communicator& communicator) {
    const torch::optim::SGD optimizer(std::vector<torch::Tensor>{torch::zeros({1})},
                                      torch::optim::SGDOptions(0.1).momentum(0.9));
    for (const std::size_t numbers : {0, 1000, 100'000}) {
      const auto fastest = sync::fastest_exchange(
          communicator, optimizer, numbers,
          {{"none"},
           {"bf16", kernels::Code::bf16},
           {"int8", kernels::Code::int8},
           {"onebit", kernels::Code::onebit, true},
           {"topk", kernels::Code::none, false, sync::topk({.density = 0.01, .warmup = 100})},
           {"dgc", kernels::Code::none, false, sync::dgc({.density = 0.01, .warmup = 100})},
           {"powersgd", kernels::Code::none, false, sync::powersgd(4)}});
      EXPECT_EQ(fastest.seconds.size(), 7u);
      for (const double seconds : fastest.seconds) EXPECT_GT(seconds, 0);
    }
  });
}

}  // namespace
}  // namespace asup
