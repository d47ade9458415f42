#include "asup/sync/averaging/consensus_estimator.h"

#include <random>

#include "asup/base/error.h"
#include "asup/sync/model/tensors.h"

namespace asup::sync {
namespace {

constexpr std::int64_t kMost = 4096;  // elements

// Each from a stretch of its own, so that no layer is left out but small ones.
torch::Tensor choose(std::int64_t elements) {
  if (elements <= kMost) return {};
  std::mt19937_64 random(elements);
  torch::Tensor chosen = torch::empty({kMost}, torch::kInt64);
  auto* at = chosen.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < kMost; ++i) {
    const std::int64_t begin = elements * i / kMost, end = elements * (i + 1) / kMost;
    at[i] = begin + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(end - begin));
  }
  return chosen;
}

}  // namespace

ConsensusEstimator::ConsensusEstimator(Communicator& communicator, std::int64_t elements)
    : communicator_(communicator), chosen_(choose(elements)) {}

ConsensusEstimator::~ConsensusEstimator() { drop(); }

// sums_ must outlive the call.
void ConsensusEstimator::drop() {
  if (under_way_) (void)work_.wait();
  under_way_ = false;
}

void ConsensusEstimator::start(const torch::Tensor& model) {
  check(!under_way_, "the last gauge was not collected");
  const torch::Tensor own =
      (chosen_.defined() ? model.index_select(0, chosen_) : model).to(torch::kFloat64);
  sums_ = torch::stack({own, own.square()});
  work_ = communicator_.start_all_reduce(buffer_of(sums_), ReduceOp::average);
  under_way_ = true;
}

std::optional<ConsensusEstimator::Drift> ConsensusEstimator::collect() {
  if (!under_way_) return std::nullopt;
  under_way_ = false;
  work_.wait().or_throw();
  const torch::Tensor mean_squares = sums_[0].square();
  return Drift{(sums_[1] - mean_squares).sum().item<double>(), mean_squares.sum().item<double>()};
}

}  // namespace asup::sync
