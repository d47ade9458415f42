#include "asup/kernels/cast.h"

#include "asup/base/error.h"
#include "asup/kernels/copy.h"
#include "asup/kernels/isa/table.h"

namespace asup::kernels {

void cast(Dtype from, const void* src, Dtype to, void* dst, std::size_t count) {
  if (count == 0 || (from == to && src == dst)) return;
  const auto* begin = static_cast<const std::byte*>(src);
  const auto* out = static_cast<const std::byte*>(dst);
  check(out + count * size_of(to) <= begin || begin + count * size_of(from) <= out,
        "kernels: {} {} at {} overlap the {} to be written at {}; they must be apart", count,
        name_of(from), src, name_of(to), dst);
  if (from == to) return copy(dst, src, count * size_of(to));
  best_table().cast(from, src, to, dst, count);
}

}  // namespace asup::kernels
