// Tests of tiny models share cores with other tests: threads would only get in each other's way.
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace {

class OneThread : public ::testing::Environment {
 public:
  void SetUp() override { torch::set_num_threads(1); }
};

const ::testing::Environment* const kOneThread = ::testing::AddGlobalTestEnvironment(new OneThread);

}  // namespace
