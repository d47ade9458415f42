// Runs a fuzz target without libFuzzer, in any build: on each file of the corpus, and on what comes
// of it when a few of its bytes change. The same changes in every run.
//
//   fuzz_frames CORPUS [CHANGES]   so many of each file; default 100
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <random>
#include <vector>

#include "asup/base/files.h"
#include "asup/base/log.h"
#include "tests/fuzz/input.h"

namespace asup::fuzz {
namespace {

namespace fs = std::filesystem;

// Changes bytes, and places of eight, to what is likely to hurt; cuts, and repeats.
std::string changed(std::string bytes, std::mt19937_64& random) {
  constexpr std::uint64_t kNumbers[] = {0,   1,   31,      32,    33,        127,
                                        255, 256, 1 << 18, ~0ull, 1ull << 63};
  for (auto changes = 1 + random() % 4; changes > 0 && !bytes.empty(); --changes) {
    const std::size_t at = random() % bytes.size();
    switch (random() % 4) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1: {
        const std::uint64_t number = kNumbers[random() % std::size(kNumbers)];
        const std::size_t place = at / 4 * 4;
        std::memcpy(bytes.data() + place, &number, std::min<std::size_t>(8, bytes.size() - place));
        break;
      }
      case 2:
        bytes.resize(at + 1);
        break;
      default:
        bytes += bytes.substr(at / 32 * 32);
    }
  }
  return bytes;
}

void run(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

int replay(const std::string& corpus, int changes) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(corpus)) paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  require(!paths.empty(), "{} is empty", corpus);
  std::mt19937_64 random(19);
  run("");
  for (const std::string& path : paths) {
    const std::string bytes = read_file(path);
    std::printf("%s\n", path.c_str());
    std::fflush(stdout);  // where it ends here
    run(bytes);
    for (int i = 0; i < changes; ++i) try {
        run(changed(bytes, random));
      } catch (const std::exception& error) {
        std::printf("change %d of it: %s\n", i, error.what());
        return 1;
      }
  }
  return 0;
}

}  // namespace
}  // namespace asup::fuzz

int main(int count, char** words) try {
  asup::log().set_level(spdlog::level::off);
  return asup::fuzz::replay(words[1], count > 2 ? std::atoi(words[2]) : 100);
} catch (const std::exception& error) {
  std::printf("%s\n", error.what());
  return 1;
}
