// What workers tell servers that they train, of models and of embedding tables, and commands.
#include "asup/ps/command.h"
#include "asup/ps/server_setup.h"
#include "asup/ps/table/setup.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace asup;
  fuzz::Input input(data, size);
  const int what = input.below(3);
  if (what == 0)
    fuzz::may_refuse([&] {
      const ps::ServerSetup setup = ps::parse_setup(input.text());
      ps::require_sense(setup, 4, 2);
      const ps::ServerSetup again = ps::parse_setup(ps::to_text(setup));
      check(ps::difference(setup, again).empty(), "a setup is another one again");
    });
  else if (what == 1)
    fuzz::may_refuse([&] {
      const ps::table::TableSetup setup = ps::table::parse_setup(input.text());
      ps::table::require_sense(setup);
      const ps::table::TableSetup again = ps::table::parse_setup(ps::table::to_text(setup));
      check(ps::table::difference(setup, again).empty(), "a table is another one again");
    });
  else {
    const auto head = input.number<ps::CommandHead>();
    const auto payload = input.rest();
    if (const auto command = ps::read_command(head, payload)) {
      const auto same = ps::payload_of(*command);
      check(std::ranges::equal(same, payload), "a command is another one again");
    }
  }
  return 0;
}
