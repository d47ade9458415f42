#include "tests/support/join_options.h"

#include "asup/net/membership/key.h"

namespace asup::testing {

net::JoinOptions join_options(int ranks, net::LinkKind links, int servers) {
  net::JoinOptions options;
  options.size = ranks;
  options.servers = servers;
  options.links = links;
  options.key = net::random_key();
  options.join_timeout = Seconds(120);
  return options;
}

std::unique_ptr<net::Coordinator> make_coordinator(const net::JoinOptions& options) {
  if (options.size == 1 || options.links == net::LinkKind::inproc) return nullptr;
  return std::make_unique<net::Coordinator>(
      net::CoordinatorOptions{.listen = net::resolve({"127.0.0.1", 0}).front(),
                              .key = options.key,
                              .size = options.size,
                              .servers = options.servers,
                              .join_timeout = options.join_timeout});
}

}  // namespace asup::testing
