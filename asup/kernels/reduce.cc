#include "asup/kernels/reduce.h"

#include "asup/base/error.h"
#include "asup/kernels/isa/table.h"

namespace asup::kernels {
namespace {

void check_divisor(ReduceOp op, int divisor) {
  check(divisor >= 1, "kernels: divisor {} must be at least 1", divisor);
  check(divisor == 1 || op == ReduceOp::sum || op == ReduceOp::average,
        "kernels: a {} cannot be divided by {}: only sum and average can", name_of(op), divisor);
}

void check_overlap(const void* dst, const void* source, std::size_t bytes) {
  const auto* to = static_cast<const std::byte*>(dst);
  const auto* from = static_cast<const std::byte*>(source);
  check(to == from || to + bytes <= from || from + bytes <= to,
        "kernels: a source at {} overlaps the destination at {} ({} bytes) in part; it must be the "
        "same memory or apart",
        source, dst, bytes);
}

}  // namespace

void reduce(Dtype dtype, ReduceOp op, void* dst, const void* a, const void* b, std::size_t count,
            int divisor) {
  const void* const sources[] = {a, b};
  reduce_many(dtype, op, dst, sources, count, divisor);
}

void reduce_many(Dtype dtype, ReduceOp op, void* dst, std::span<const void* const> sources,
                 std::size_t count, int divisor) {
  check(!sources.empty(), "kernels: nothing to reduce: no sources");
  check_divisor(op, divisor);
  if (count == 0) return;
  for (const void* source : sources) check_overlap(dst, source, count * size_of(dtype));
  best_table().reduce(dtype, op, dst, sources.data(), sources.size(), count, divisor);
}

void reduce_to_all(Dtype dtype, ReduceOp op, std::span<void* const> dsts,
                   std::span<const void* const> sources, std::size_t count, int divisor) {
  check(!sources.empty(), "kernels: nothing to reduce: no sources");
  check(!dsts.empty(), "kernels: nowhere to reduce to: no destinations");
  check_divisor(op, divisor);
  if (count == 0) return;
  for (const void* dst : dsts)
    for (const void* source : sources) check_overlap(dst, source, count * size_of(dtype));
  best_table().reduce_to_all(dtype, op, dsts.data(), dsts.size(), sources.data(), sources.size(),
                             count, divisor);
}

void divide(Dtype dtype, void* data, std::size_t count, int divisor) {
  check_divisor(ReduceOp::average, divisor);
  if (divisor > 1 && count > 0) best_table().divide(dtype, data, count, divisor);
}

}  // namespace asup::kernels
