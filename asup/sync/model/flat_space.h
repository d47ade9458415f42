// Where parameters lie in the flat space that servers keep (ps/shard_map.h): bucket after bucket,
// each on a cache line, and in a bucket as their gradients do. Elements between them are always
// zero. Values only; safe from any thread.
#pragma once

#include <memory>
#include <vector>

#include "asup/layout/bucket_layout.h"
#include "asup/ps/shard_map.h"
#include "asup/sync/model/tensors.h"

namespace asup::sync {

struct FlatSpace {
  ps::Layout layout;
  std::vector<ps::Range> buckets;     // what of the space a bucket's memory is the gradient of
  std::vector<ps::Range> parameters;  // by index
  std::vector<ps::Range> ranges;      // the buckets, those that touch as one
};

// Of f32 parameters, whose gradients come to lie in Buckets of these sizes and without notes, in
// the order of layout::backwards().
FlatSpace flat_space(const std::vector<NamedTensor>& parameters, const layout::BucketSizes& sizes);

// Where nothing travels in buckets: one parameter after the other, each on a cache line.
FlatSpace flat_space(const std::vector<NamedTensor>& parameters);

// A tensor of the shape and, where there are no holes in it, the strides of `like`, in memory that
// it keeps alive.
torch::Tensor view_like(const torch::Tensor& like, float* place, std::shared_ptr<void> memory);

}  // namespace asup::sync
