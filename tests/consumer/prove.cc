// asup::core, without torch: makes a plan of every all-reduce and has it proved.
#include <asup/base/version.h>
#include <asup/collective/verify/verify.h>

#include <cstdio>

int main() {
  using namespace asup::collective;
  std::printf("asup %s\n", asup::kVersion);
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != Collective::all_reduce) continue;
    const Spec spec{.ranks = 5,
                    .count = 1000,
                    .shared = algorithm.needs_shared,
                    .stage = algorithm.needs_stage};
    const auto flaw = verify(algorithm, spec);
    std::printf("%s on 5 ranks: %s\n", algorithm.name.data(),
                flaw ? describe(*flaw).c_str() : "proved");
    if (flaw) return 1;
  }
}
