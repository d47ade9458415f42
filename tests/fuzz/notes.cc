// Short messages between ranks, as text: failures, who is left, where somebody is; and rates of
// links, which the first rank tells the others and keeps in a file.
#include "asup/collective/cost/rates.h"
#include "asup/collective/mesh/control_messages.h"
#include "asup/collective/mesh/survivors.h"
#include "asup/collective/tuning/cache.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace asup::collective;
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto failure = read_failure(text)) (void)write_failure(*failure);
  if (const auto whereabouts = read_whereabouts(text)) (void)write_whereabouts(*whereabouts);
  if (const auto view = read_view(text)) {
    asup::check(read_view(write_view(*view)).has_value(), "a view cannot be read again");
    Survivors survivors(1, 3, {0, 1, 2, 3});
    survivors.hear(2, *view);
    (void)survivors.next_generation();
    (void)survivors.missing();
  }
  asup::fuzz::may_refuse([&] {
    const Rates rates = tuning::rates_from(text);
    asup::check(hash_of(tuning::rates_from(tuning::to_text(rates))) == hash_of(rates),
                "rates are other ones again");
    (void)describe(rates);
  });
  return 0;
}
