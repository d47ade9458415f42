// Values as people write them: on a command line, in a variable, in a file.
#include "asup/base/base64.h"
#include "asup/config/step_or_share.h"
#include "asup/config/value.h"
#include "asup/gossip/graph.h"
#include "asup/kernels/rule.h"
#include "asup/launch/hosts.h"
#include "asup/net/membership/address.h"
#include "asup/net/membership/key.h"
#include "asup/net/membership/tls_mode.h"
#include "asup/ps/pace/options.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace asup;
  using fuzz::may_refuse;
  const std::string text(reinterpret_cast<const char*>(data), size);
  may_refuse([&] {
    const auto rule = kernels::parse_rule(text);
    check(kernels::parse_rule(kernels::describe(rule)) == rule, "a rule is another one again");
  });
  may_refuse([&] {
    const auto hosts = launch::parse_hosts(text);
    std::int64_t ranks = 0;
    for (const auto& place : launch::place(0, hosts, 3)) ranks += place.count;
    check(ranks > 0, "nobody has a place");
    (void)launch::place(17, hosts, 1);
  });
  may_refuse([&] {
    const auto endpoint = net::parse_endpoint(text, "it");
    (void)endpoint.to_string();
  });
  may_refuse([&] { check(net::key_from_hex(text) == net::key_from_hex(text), "two keys"); });
  may_refuse([&] { (void)net::tls_mode_of(text, "it"); });
  may_refuse([&] { (void)gossip::graph_of(text, 5); });
  may_refuse([&] { (void)ps::pace::kind_of(text); });
  if (const auto bytes = from_base64(text)) check(to_base64(*bytes) == text, "base64 is another");
  if (const auto moment = StepOrShare::from_text(text)) {
    check(moment->steps(1000) >= 0, "a step before the first");
    check(StepOrShare::from_text(moment->to_text()) == moment, "a moment is another one again");
  }
  const config::Value value(text);
  may_refuse([&] { (void)config::whole_from(value, config::kCount, "it"); });
  may_refuse([&] { (void)config::real_from(value, {0, 1, true, true}, "it"); });
  may_refuse([&] { (void)config::truth_from(value, "it"); });
  return 0;
}
