// Under libFuzzer: what is refused is logged, which would be all that one sees.
#include "asup/base/log.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  asup::log().set_level(spdlog::level::off);
  return 0;
}
