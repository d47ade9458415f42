// A file of settings.
#include "asup/config/field_or.h"
#include "asup/config/given.h"
#include "asup/config/step_or_share.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/memory_file.h"

namespace {

struct Options {
  std::string name = "x";
  std::int64_t count = 1;
  double rate = 0.1;
  bool fast = false;
  asup::StepOrShare at{};
  std::optional<double> lr{};
};

std::vector<asup::config::Setting> settings() {
  using namespace asup::config;
  return {{"name", field<&Options::name>(), "", {}, {"x", "y"}},
          {"count", field<&Options::count>(), "", kCount},
          {"rate", field<&Options::rate>(), "", {0, 1}},
          {"fast", field<&Options::fast>(), ""},
          {"at", field<&Options::at>(), ""},
          {"lr", field_or<&Options::lr, kAuto>(), "", {0, 1000, true, false}}};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace asup::config;
  const asup::fuzz::MemoryFile file(data, size);
  static const std::vector<Setting> rows = settings();
  asup::fuzz::may_refuse([&] {
    Given given;
    given.read_toml(file.path());
    Options options;
    given.fill({rows, &options});
    // What was read can be written, and is then the same.
    std::string again;
    for (const Setting& row : rows)
      again += std::string(row.name) + " = " + row.field.toml(&options) + "\n";
    const asup::fuzz::MemoryFile written(again);
    Given twice;
    twice.read_toml(written.path());
    Options same;
    twice.fill({rows, &same});
    for (const Setting& row : rows)
      asup::check(row.field.toml(&same) == row.field.toml(&options), "{} is {} again", row.name,
                  row.field.toml(&same));
  });
  return 0;
}
