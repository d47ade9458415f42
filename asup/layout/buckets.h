// Which gradients travel together, and where they lie: a pure function of shapes, an order and
// sizes, so that ranks that agree on these agree on the buckets. Values only.
#pragma once

#include "asup/layout/layout.h"

namespace asup::layout {

// Gradients start on cache lines, but in a code, where nothing lies between them: it would be coded
// with them. Buckets start on pages, so that no two of them share one.
inline constexpr std::uint64_t kBucketAlignment = 4096;

// One collective call's worth of gradients of one type.
struct Bucket {
  Layout layout;             // of gradients
  bool alone = false;        // it is one large gradient, and ends with it
  bool coded = false;        // it travels in a code
  std::uint64_t offset = 0;  // bytes from the begin of all buckets' memory
};

struct BucketRules {
  std::size_t bucket_bytes = 25u << 20;
  std::size_t first_bucket_bytes = 4u << 20;
  std::size_t alone_bytes = 1u << 20;  // a gradient of this size has a bucket to itself
  // By gradient: those that travel in a code, in buckets of their own. Empty: none.
  std::vector<bool> coded{};
  // By gradient: those of different groups share no bucket (layout/groups.h). Empty: one group.
  std::vector<std::size_t> groups{};
};

// Buckets in the order in which their last gradients arrive when gradients arrive in `order` (a
// permutation of the gradients' indices). Large gradients are alone in theirs; others fill the open
// bucket of their type, which closes when it has reached its size, or holds as much as is still to
// come of its type, and alone_bytes at least: the last bucket, which nothing is computed beside, is
// small. Where some travel in a code, those that do not and are not alone come last, however early
// they arrive: they are few.
std::vector<Bucket> lay_out(std::span<const TensorShape> gradients,
                            std::span<const std::size_t> order, const BucketRules& rules);

// Indices of `count` gradients, the last first: the order in which backward reaches most models.
std::vector<std::size_t> backwards(std::size_t count);

// Places the buckets one after the other; returns the bytes of all.
std::uint64_t place(std::span<Bucket> buckets);

// Buckets as one flat space, one after the other, each on a cache line.
struct FlatSpace {
  Layout layout;               // of the tensors that have elements
  std::vector<Range> buckets;  // what of the space a bucket's memory holds
};

// needs: buckets of f32. A gradient that is alone may leave from memory of its own, which ends with
// it, and what is in a code ends with the last gradient; the memory of other buckets goes on, with
// zeros, to the end of a page.
FlatSpace flat_space(std::span<const Bucket> buckets);

}  // namespace asup::layout
