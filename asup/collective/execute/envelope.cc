#include "asup/collective/execute/envelope.h"

#include <fmt/format.h>

#include "asup/kernels/code.h"

namespace asup::collective {
namespace {

// FNV-1a, 32 bits.
constexpr std::uint32_t kBasis = 2166136261u;
std::uint32_t mix(std::uint32_t hash, std::uint64_t byte) {
  return (hash ^ static_cast<std::uint32_t>(byte & 0xff)) * 16777619u;
}

}  // namespace

std::uint32_t hash_of(std::string_view text) {
  std::uint32_t hash = kBasis;
  for (const char c : text) hash = mix(hash, static_cast<unsigned char>(c));
  return hash;
}

std::uint32_t hash_of(std::span<const std::size_t> counts) {
  std::uint32_t hash = kBasis;
  for (std::uint64_t count : counts)
    for (int byte = 0; byte < 8; ++byte, count >>= 8) hash = mix(hash, count);
  return hash;
}

bool Envelope::same_call(const Envelope& other) const {
  const bool same_kind = collective == other.collective ||
                         (collective == Collective::send && other.collective == Collective::recv) ||
                         (collective == Collective::recv && other.collective == Collective::send);
  const bool point_to_point = collective == Collective::send || collective == Collective::recv;
  return same_kind && sequence == other.sequence && count == other.count && dtype == other.dtype &&
         (point_to_point ||
          (op == other.op && root == other.root && flags == other.flags && parts == other.parts &&
           algorithm == other.algorithm && counts == other.counts));
}

std::string Envelope::describe() const {
  std::string text =
      fmt::format("{} number {}: {} x {}", name_of(collective), sequence, count, name_of(dtype));
  if (collective == Collective::all_reduce || collective == Collective::reduce_scatter ||
      collective == Collective::reduce)
    text += fmt::format(", {}", name_of(op));
  if (const auto code = static_cast<kernels::Code>(flags >> kCodeShift);
      code != kernels::Code::none)
    text += fmt::format(", in {}", kernels::name_of(code));
  if (parts > 0) text += fmt::format(", {} buffers (sizes {:08x})", parts, counts);
  if (collective == Collective::broadcast || collective == Collective::reduce ||
      collective == Collective::gather || collective == Collective::scatter)
    text += fmt::format(", root {}", root);
  if (collective != Collective::send && collective != Collective::recv &&
      collective != Collective::barrier)
    text += fmt::format(", {}{} memory", flags & kInPlace ? "in place, " : "",
                        flags & kShared ? "shared" : "private");
  return text;
}

}  // namespace asup::collective
