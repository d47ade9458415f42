// The frames that members and their coordinator send each other, and what is in them.
#include "asup/net/membership/control.h"

#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace asup::net;
  using asup::fuzz::may_refuse;
  FrameReader reader;
  reader.feed(std::as_bytes(std::span(data, size)));
  may_refuse([&] {
    while (const auto frame = reader.next()) {
      const std::string& body = frame->body;
      // What is taken can be passed on, and is then the same.
      may_refuse([&] {
        const Member member = parse_member(body);
        asup::check(parse_member(to_json(member)) == member, "a member is another one again");
      });
      may_refuse([&] { (void)to_json(parse_hello(body)); });
      may_refuse([&] { (void)to_json(parse_roster(body)); });
      may_refuse([&] { (void)to_json(parse_refusal(body)); });
      may_refuse([&] { (void)to_json(parse_loss(body)); });
      may_refuse([&] { (void)to_json(parse_cut(body)); });
      may_refuse([&] { (void)to_json(parse_late(body)); });
      may_refuse([&] { (void)to_json(parse_ready(body)); });
    }
  });
  return 0;
}
