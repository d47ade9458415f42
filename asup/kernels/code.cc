#include "asup/kernels/code.h"

#include "asup/base/error.h"
#include "asup/kernels/isa/table.h"

namespace asup::kernels {
namespace {

// Of a number; of a block's scale not.
std::size_t bits_of(Code code) {
  switch (code) {
    case Code::none:
      break;
    case Code::bf16:
    case Code::f16:
      return 16;
    case Code::int8:
      return 8;
    case Code::int4:
      return 4;
    case Code::onebit:
      return 1;
  }
  throw Error(fmt::format("kernels: {} is no code of floats", name_of(code)));
}

void check_apart(const void* written, std::size_t written_bytes, const void* other,
                 std::size_t other_bytes, const char* what) {
  const auto* to = static_cast<const std::byte*>(written);
  const auto* from = static_cast<const std::byte*>(other);
  check(to + written_bytes <= from || from + other_bytes <= to,
        "kernels: {} bytes at {} overlap the {} at {}; they must be apart", written_bytes, written,
        what, other);
}

void check_same_or_apart(const float* written, const float* other, std::size_t count,
                         const char* what) {
  if (written == nullptr || other == nullptr || written == other) return;
  check_apart(written, count * sizeof(float), other, count * sizeof(float), what);
}

}  // namespace

std::string_view name_of(Code code) {
  switch (code) {
    case Code::none:
      return "none";
    case Code::bf16:
      return "bf16";
    case Code::f16:
      return "fp16";
    case Code::int8:
      return "int8";
    case Code::int4:
      return "int4";
    case Code::onebit:
      return "onebit";
  }
  return "?";
}

std::size_t coded_bytes(Code code, std::size_t count) {
  const std::size_t bits = bits_of(code);
  if (bits == 16) return 2 * count;
  return in_whole_code_blocks(count) / kCodeBlock * (sizeof(float) + kCodeBlock * bits / 8);
}

void encode(Code code, std::byte* to, const float* from, std::size_t count, const Encoding& how) {
  const std::size_t bytes = coded_bytes(code, count), floats = count * sizeof(float);
  check(
      !how.noise || how.first % kCodeBlock == 0,
      "kernels: numbers from {} on are to be coded with noise; the first must be a multiple of {}",
      how.first, kCodeBlock);
  if (count == 0) return;
  check_apart(to, bytes, from, floats, "source");
  if (how.carried != nullptr) check_apart(to, bytes, how.carried, floats, "carried numbers");
  if (how.lost != nullptr) check_apart(to, bytes, how.lost, floats, "lost numbers");
  if (how.decoded != nullptr) check_apart(to, bytes, how.decoded, floats, "decoded numbers");
  check_same_or_apart(how.lost, how.carried, count, "carried numbers");
  check_same_or_apart(how.decoded, from, count, "source");
  for (const float* other : {from, static_cast<const float*>(how.decoded)})
    if (how.lost != nullptr && other != nullptr)
      check_apart(how.lost, floats, other, floats, "source or the decoded numbers");
  if (how.decoded != nullptr && how.carried != nullptr)
    check_apart(how.decoded, floats, how.carried, floats, "carried numbers");
  best_table().encode(code, to, from, count, how, how.noise ? &*how.noise : nullptr);
}

void decode(Code code, float* to, const std::byte* from, std::size_t count) {
  const std::size_t bytes = coded_bytes(code, count);
  if (count == 0) return;
  check_apart(to, count * sizeof(float), from, bytes, "code");
  best_table().decode(code, to, from, count);
}

void sum_codes(Code code, float* to, const float* own, const float* carried,
               std::span<const std::byte* const> codes, std::size_t count, float factor) {
  const std::size_t bytes = coded_bytes(code, count);
  if (count == 0) return;
  check_same_or_apart(to, own, count, "own numbers");
  check_same_or_apart(to, carried, count, "carried numbers");
  for (const std::byte* other : codes) check_apart(to, count * sizeof(float), other, bytes, "code");
  best_table().sum_codes(code, to, own, carried, codes.data(), codes.size(), count, factor);
}

}  // namespace asup::kernels
