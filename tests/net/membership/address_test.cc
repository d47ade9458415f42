#include "asup/net/membership/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/base/error.h"
#include "asup/net/membership/join_options.h"
#include "tests/support/thrown.h"

namespace asup::net {
namespace {

using asup::testing::message_of;
using ::testing::HasSubstr;

SocketAddress address(const std::string& text) {
  return resolve(parse_endpoint(text, "address")).front();
}

TEST(Endpoint, IsReadAndWritten) {
  for (const char* text : {"alpha:1", "10.0.0.1:65535", "[::1]:29500", "[fe80::1]:0"})
    EXPECT_EQ(parse_endpoint(text, "X").to_string(), text);
  for (const char* text :
       {"", "alpha", ":1", "alpha:", "alpha:x", "alpha:-1", "alpha:70000", "::1"})
    EXPECT_THAT(message_of<BadInput>([&] { parse_endpoint(text, "X"); }), HasSubstr("X='")) << text;
}

TEST(Resolve, NumbersAndNames) {
  EXPECT_EQ(address("10.1.2.3:80").to_string(), "10.1.2.3:80");
  EXPECT_EQ(address("[::1]:80").to_string(), "[::1]:80");
  EXPECT_TRUE(address("localhost:80").is_loopback());
  EXPECT_FALSE(address("10.1.2.3:80").is_loopback());
  EXPECT_TRUE(address("0.0.0.0:80").is_any());
  EXPECT_THAT(message_of<BadInput>([] { address("no-such-host.invalid:80"); }),
              HasSubstr("cannot find the address of host 'no-such-host.invalid'"));
}

TEST(Interface, ByNameAddressAndNetwork) {
  EXPECT_EQ(interface_address("lo").host(), "127.0.0.1");
  EXPECT_EQ(interface_address("127.0.0.1").host(), "127.0.0.1");
  EXPECT_EQ(interface_address("127.0.0.0/8").host(), "127.0.0.1");
  EXPECT_TRUE(interface_address("0.0.0.0").is_any());
}

TEST(Interface, WhatIsNotThereIsAnsweredWithWhatIs) {
  for (const char* text : {"eth77", "203.0.113.9", "203.0.113.0/24", ""})
    EXPECT_THAT(message_of<BadInput>([&] { interface_address(text); }), HasSubstr("lo 127.0.0.1"))
        << text;
  EXPECT_THAT(message_of<BadInput>([] { interface_address("10.0.0.0/33"); }),
              HasSubstr("from 0 to 32"));
  EXPECT_THAT(message_of<BadInput>([] { interface_address("10.0.0.0/"); }),
              HasSubstr("from 0 to 32"));
}

TEST(Route, ToLoopbackIsLoopback) {
  EXPECT_EQ(local_address_towards(address("127.0.0.1:0")).to_string(), "127.0.0.1:0");
}

TEST(Listen, APortInUseIsAnsweredWithTheRemedy) {
  const Fd first = listen_on(address("127.0.0.1:0"), "");
  const SocketAddress taken = bound_address(first.get());
  EXPECT_EQ(
      message_of<BadInput>([&] { listen_on(taken, "choose another with --port"); }),
      fmt::format("port {} is in use on 127.0.0.1: choose another with --port", taken.port()));
  EXPECT_THAT(message_of<BadInput>([] { listen_on(address("203.0.113.9:0"), "look again"); }),
              HasSubstr("203.0.113.9 is not an address of this host"));
}

TEST(ListenHost, FollowsTheInterfaceThenTheRoute) {
  JoinOptions options;
  EXPECT_EQ(listen_host(options), "127.0.0.1");  // a job of one
  options.size = 2;
  options.coordinator = "127.0.0.1:1";
  EXPECT_EQ(listen_host(options), "127.0.0.1");
  options.interface = "lo";
  EXPECT_EQ(listen_host(options), "127.0.0.1");
  options.interface = "0.0.0.0";  // others need an address they can reach
  EXPECT_EQ(listen_host(options), "127.0.0.1");
}

TEST(ThisHost, HasABootIdAndANamespace) {
  EXPECT_EQ(this_host().boot.size(), 36u);
  EXPECT_THAT(this_host().namespace_, HasSubstr("net:["));
  EXPECT_EQ(this_host(), this_host());
}

}  // namespace
}  // namespace asup::net
