#include "asup/kernels/instruction_set.h"

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include <array>

#include "asup/kernels/isa/table.h"

namespace asup::kernels {
namespace {

#if defined(__x86_64__)

constexpr std::array kTables = {&kBaselineTable, &kAvx2Table, &kAvx512Table};

// Each set includes those before it, as on every processor made. The compiler's test also asks
// whether the operating system keeps the wide registers.
std::size_t count_supported() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("f16c")) return 1;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
    return 2;
  return 3;
}

#else

constexpr std::array kTables = {&kBaselineTable};

std::size_t count_supported() { return 1; }

#endif

}  // namespace

std::span<const Table* const> supported_tables() {
  static const std::size_t count = count_supported();
  return std::span(kTables).first(count);
}

const Table& best_table() { return *supported_tables().back(); }

std::string_view instruction_set() { return best_table().name; }

bool multiplies_bf16() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512bf16");
#elif defined(__aarch64__)
  return (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0;
#else
  return false;
#endif
}

}  // namespace asup::kernels
