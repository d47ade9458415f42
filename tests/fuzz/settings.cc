// The file of a training job: every setting there is, and what goes together. And what a trained
// model says of how it was trained.
#include "asup/train/settings.h"

#include "asup/train/weights.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace asup;
  const fuzz::MemoryFile file(data, size);
  fuzz::may_refuse([&] {
    config::Given given;
    given.read_toml(file.path());
    (void)train::config_from(std::move(given));
  });
  const std::string text(reinterpret_cast<const char*>(data), size);
  const train::Weights weights{
      {}, {}, {{"asup", "0.1.0"}, {"settings", text}, {"normalisation", text}}};
  fuzz::may_refuse([&] { (void)train::config_of(weights); });
  fuzz::may_refuse([&] { (void)train::normalisation_of(weights); });
  return 0;
}
