#include "asup/sync/compressors/low_rank_gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "asup/base/error.h"

namespace asup::sync {

CompressorFactory powersgd(int rank) {
  return [rank](const CompressorContext& context) {
    return std::make_unique<LowRankGradients>(context.communicator, context.parameters, rank);
  };
}

// Q begins with directions that have nothing to do with each other, the same on all ranks.
LowRankGradients::LowRankGradients(Communicator& communicator,
                                   const std::vector<NamedTensor>& parameters, int rank)
    : communicator_(communicator),
      parameters_(parameters),
      rank_(static_cast<std::size_t>(rank)),
      rights_(parameters.size()) {
  check(rank >= 1, "matrices of rank {}", rank);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!takes(parameters[i].tensor)) continue;
    const kernels::LowRank shape = shape_of(parameters[i].tensor);
    const auto numbers = static_cast<std::int64_t>(shape.rank * shape.columns);
    rights_[i] = {torch::zeros({numbers}, torch::kFloat32),
                  torch::zeros({numbers}, torch::kFloat32)};
    kernels::make_orthonormal(rights_[i].before.data_ptr<float>(), rank_, shape.columns);
  }
}

std::string LowRankGradients::description() const {
  return fmt::format("powersgd, rank {}", rank_);
}

bool LowRankGradients::takes(const torch::Tensor& parameter) const {
  if (!is_large_weight(parameter)) return false;
  const kernels::LowRank shape = shape_of(parameter);
  return 2 * rank_ * (shape.rows + shape.columns) <= shape.rows * shape.columns;
}

// Whatever its strides are, a row is what comes first in memory: any cut into rows will do.
kernels::LowRank LowRankGradients::shape_of(const torch::Tensor& parameter) const {
  const auto rows = static_cast<std::size_t>(parameter.size(0));
  return {rows, static_cast<std::size_t>(parameter.numel()) / rows, rank_};
}

kernels::LowRank LowRankGradients::shape_of(const Matrix& matrix) const {
  return shape_of(parameters_[matrix.parameter].tensor);
}

void LowRankGradients::lay_out(Travelling& travelling, const Bucket& bucket) const {
  travelling.matrices.clear();
  std::size_t left = 0, right = 0;
  for (const layout::Layout::Tensor& tensor : bucket.tensors) {
    const Matrix& matrix = travelling.matrices.emplace_back(
        Matrix{tensor.index, static_cast<std::size_t>(tensor.range.begin), left, right});
    left += rank_ * shape_of(matrix).rows;
    right += rank_ * shape_of(matrix).columns;
  }
  travelling.left.resize(left);
  travelling.right.resize(right);
}

Work LowRankGradients::average(std::vector<float>& factors) {
  return communicator_.start_all_reduce({factors.data(), factors.size(), Dtype::f32},
                                        ReduceOp::average);
}

Work LowRankGradients::leave(const Bucket& bucket) {
  if (buckets_.size() <= bucket.index) buckets_.resize(bucket.index + 1);
  Travelling& travelling = buckets_[bucket.index];
  lay_out(travelling, bucket);
  travelling.gradients = bucket.gradients;
  travelling.sum = bucket.kept[0].after;
  travelling.left_has_come = false;
  const auto* gradients = static_cast<const float*>(bucket.gradients.data);
  for (const Matrix& matrix : travelling.matrices) {
    const kernels::LowRank shape = shape_of(matrix);
    const Right& right = rights_[matrix.parameter];
    const float* of = (bucket.adds ? right.after : right.before).const_data_ptr<float>();
    kernels::project(shape, gradients + matrix.first,
                     {bucket.kept[0].before + matrix.first, travelling.sum + matrix.first}, of,
                     travelling.left.data() + matrix.left);
  }
  return average(travelling.left);
}

std::optional<Work> LowRankGradients::arrive(std::size_t bucket) {
  Travelling& travelling = buckets_[bucket];
  const bool is_last = std::exchange(travelling.left_has_come, true);
  for (const Matrix& matrix : travelling.matrices) {
    const kernels::LowRank shape = shape_of(matrix);
    float* left = travelling.left.data() + matrix.left;
    float* right = travelling.right.data() + matrix.right;
    float* sum = travelling.sum + matrix.first;
    if (is_last) {
      kernels::expand(shape, left, right,
                      static_cast<float*>(travelling.gradients.data) + matrix.first,
                      travelling.own.data() + matrix.right, sum);
      std::copy_n(right, rank_ * shape.columns, rights_[matrix.parameter].after.data_ptr<float>());
    } else {
      kernels::make_orthonormal(left, rank_, shape.rows);
      kernels::project_back(shape, sum, left, right);
    }
  }
  if (is_last) return std::nullopt;
  travelling.own = travelling.right;
  return average(travelling.right);
}

void LowRankGradients::end_step(bool applied) {
  for (Right& right : rights_)
    if (applied) std::swap(right.before, right.after);
}

std::vector<NamedTensor> LowRankGradients::state() {
  std::vector<NamedTensor> all;
  for (std::size_t i = 0; i < rights_.size(); ++i)
    if (rights_[i].before.defined())
      all.push_back({"right factor of " + parameters_[i].name, rights_[i].before});
  return all;
}

}  // namespace asup::sync
