// Numbers that travel in a code: whatever the bytes are, so many numbers come of them, and nothing
// beyond them is touched. The memory is as long as it must be, to a byte.
#include <memory>
#include <vector>

#include "asup/kernels/code.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace asup::kernels;
  asup::fuzz::Input input(data, size);
  const Code code = std::array{Code::bf16, Code::f16, Code::int8, Code::int4,
                               Code::onebit}[static_cast<std::size_t>(input.below(5))];
  const std::size_t count = input.number<std::uint16_t>() % 3000;
  std::vector<std::byte> bytes(coded_bytes(code, count));
  const auto given = input.rest();
  for (std::size_t i = 0; i < bytes.size() && !given.empty(); ++i)
    bytes[i] = given[i % given.size()];
  std::vector<float> numbers(count), again(count);
  decode(code, numbers.data(), bytes.data(), count);
  const std::byte* const codes[] = {bytes.data(), bytes.data()};
  sum_codes(code, again.data(), numbers.data(), nullptr, codes, count, 0.5f);
  std::vector<float> lost(count);
  Encoding how{.lost = lost.data()};
  if (code == Code::int8 || code == Code::int4) how.noise = 7;
  std::vector<std::byte> second(coded_bytes(code, count));
  encode(code, second.data(), numbers.data(), count, how);
  return 0;
}
