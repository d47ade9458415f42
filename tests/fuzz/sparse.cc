// A few numbers of many and their places, as another rank sends them.
#include <vector>

#include "asup/sync/compressors/sparse_payload.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace asup::sync;
  asup::fuzz::Input input(data, size);
  const auto as = input.below(2) == 0 ? SparseNumbers::bf16 : SparseNumbers::two_bits;
  const std::size_t places = 1 + input.number<std::uint16_t>();
  std::vector<float> numbers(places);
  const auto rest = input.rest();
  const std::vector<std::byte> payload(rest.begin(), rest.end());
  try {
    add_unpacked(numbers.data(), places, payload, 0.5f, as);
  } catch (const asup::Error&) {
  }
  return 0;
}
