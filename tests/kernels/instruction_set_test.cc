#include "asup/kernels/instruction_set.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "asup/kernels/isa/table.h"

namespace asup::kernels {
namespace {

#if defined(__x86_64__)

// The processor's features as the operating system lists them.
bool system_reports(const std::string& feature) {
  std::ifstream file("/proc/cpuinfo");
  std::string line, word;
  while (std::getline(file, line)) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line);
    while (words >> word)
      if (word == feature) return true;
    return false;
  }
  return false;
}

TEST(InstructionSet, IsTheBestOfThisProcessor) {
  if (!system_reports("sse2")) GTEST_SKIP() << "an emulator: the system lists another processor's";
  const bool avx512 = system_reports("avx512f") && system_reports("avx512bw") &&
                      system_reports("avx512dq") && system_reports("avx512vl");
  EXPECT_EQ(instruction_set(), avx512 ? "avx512" : system_reports("avx2") ? "avx2" : "sse2");
}

#elif defined(__aarch64__)

TEST(InstructionSet, IsTheOneThatEveryProcessorHas) { EXPECT_EQ(instruction_set(), "neon"); }

#endif

TEST(InstructionSet, IsTheLastSupportedTable) {
  ASSERT_FALSE(supported_tables().empty());
  EXPECT_EQ(supported_tables().front(), &kBaselineTable);
  EXPECT_EQ(supported_tables().back(), &best_table());
  EXPECT_EQ(instruction_set(), best_table().name);
}

}  // namespace
}  // namespace asup::kernels
