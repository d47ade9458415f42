#include "asup/net/membership/control.h"

#include <gtest/gtest.h>

#include "asup/base/error.h"

namespace asup::net {
namespace {

using Kind = ControlFrame::Kind;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

Member some_member() {
  return {7, 3, std::nullopt, "alpha", 4711, {"boot", "net:[1]"}, "10.0.0.1:5000", "asup-7"};
}

Member some_server() {
  Member member = some_member();
  member.server = 1;
  return member;
}

TEST(FrameReader, FindsFramesHoweverTheBytesArrive) {
  const std::string stream =
      encode(Kind::hello, "first") + encode(Kind::heartbeat) + encode(Kind::lost, "third");
  FrameReader reader;
  std::vector<ControlFrame> frames;
  for (const char byte : stream) {
    reader.feed(bytes_of(std::string(1, byte)));
    while (auto frame = reader.next()) frames.push_back(*frame);
  }
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[0].body, "first");
  EXPECT_EQ(frames[1].kind, Kind::heartbeat);
  EXPECT_EQ(frames[2].body, "third");
}

TEST(FrameReader, RefusesWhatCannotBeAFrame) {
  for (const char kind : {'\0', '\x0e', '\xff'}) {
    FrameReader reader;
    reader.feed(bytes_of(std::string("\0\0\0\0", 4) + kind + std::string(3, '\0')));
    EXPECT_THROW(reader.next(), BadInput) << static_cast<int>(kind);
  }
  FrameReader reader;
  reader.feed(bytes_of(std::string("\xff\xff\xff\xff\x01\0\0\0", 8)));  // four gigabytes
  EXPECT_THROW(reader.next(), BadInput);
}

TEST(Messages, ComeBackAsTheyWere) {
  const Hello hello{kControlVersion, "0.1.0", 4, 1, some_member()};
  const Hello heard = parse_hello(to_json(hello));
  EXPECT_EQ(heard.member, hello.member);
  EXPECT_EQ(heard.size, 4);
  EXPECT_EQ(heard.servers, 1);
  EXPECT_EQ(heard.version, "0.1.0");

  EXPECT_FALSE(heard.joins);
  EXPECT_TRUE(
      parse_hello(to_json(Hello{kControlVersion, "0.1.0", 1, 0, some_member(), true})).joins);

  RosterMessage message{{5, {some_member(), some_member()}}, 1, 0, 7};
  EXPECT_EQ(parse_roster(to_json(message)).roster, message.roster);
  EXPECT_EQ(parse_roster(to_json(message)).rank, 1);
  EXPECT_EQ(parse_roster(to_json(message)).founders, 7);
  EXPECT_EQ(parse_roster(to_json(message)).coordinator_rank, 0);
  message.coordinator_rank.reset();
  EXPECT_EQ(parse_roster(to_json(message)).coordinator_rank, std::nullopt);

  const Refusal refusal = parse_refusal(to_json(Refusal{"no", true}));
  EXPECT_EQ(refusal.reason, "no");
  EXPECT_TRUE(refusal.can_be_mended);
  EXPECT_EQ(parse_member(to_json(some_member())), some_member());
  EXPECT_EQ(parse_member(to_json(some_server())), some_server());

  const Loss loss = parse_loss(to_json(Loss{some_member(), true, "it ended", true}));
  EXPECT_EQ(loss.member, some_member());
  EXPECT_TRUE(loss.ended);
  EXPECT_TRUE(loss.late);
  EXPECT_EQ(loss.why, "it ended");
  const Cut cut = parse_cut(to_json(Cut{7, true}));
  EXPECT_EQ(cut.id, 7u);
  EXPECT_TRUE(cut.breach);
  const Late late = parse_late(to_json(Late{{3, 9}, {1, 3, 9}}));
  EXPECT_EQ(late.ids, (std::vector<std::uint64_t>{3, 9}));
  EXPECT_EQ(late.workers, (std::vector<std::uint64_t>{1, 3, 9}));
  const Ready ready = parse_ready(to_json(Ready{some_member(), {1, 2, 7}}));
  EXPECT_EQ(ready.member, some_member());
  EXPECT_EQ(ready.workers, (std::vector<std::uint64_t>{1, 2, 7}));
}

TEST(Messages, ARosterHasAPlaceForItsReceiver) {
  RosterMessage message{{5, {some_member()}}, 1, 0, 1};
  EXPECT_THROW(parse_roster(to_json(message)), BadInput);
}

// Text that a member with the key can send, one value of it changed.
std::string changed(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  check(at != text.npos, "no {} in {}", from, text);
  return text.replace(at, from.size(), to);
}

TEST(Messages, WrongOnesAreRefused) {
  for (const char* text : {"", "{", "[]", "{}", "null", "{\"protocol\":\"one\"}"}) {
    EXPECT_THROW(parse_hello(text), BadInput) << text;
    EXPECT_THROW(parse_roster(text), BadInput) << text;
    EXPECT_THROW(parse_refusal(text), BadInput) << text;
    EXPECT_THROW(parse_member(text), BadInput) << text;
    EXPECT_THROW(parse_loss(text), BadInput) << text;
    EXPECT_THROW(parse_cut(text), BadInput) << text;
    EXPECT_THROW(parse_late(text), BadInput) << text;
    EXPECT_THROW(parse_ready(text), BadInput) << text;
  }
  EXPECT_THROW(parse_cut(R"({"id": 0, "breach": false})"), BadInput) << "nobody has that id";
  EXPECT_THROW(parse_late(R"({"ids": [1.5], "workers": []})"), BadInput);
  EXPECT_THROW(parse_ready(changed(to_json(Ready{some_member(), {7}}), "s\":[7]", "s\":[-7]")),
               BadInput);
}

TEST(Messages, NumbersAndTextsHaveLimits) {
  const std::string member = to_json(some_member());
  for (const char* rank : {"1e300", "3.5", "99999999999999999999", "-2147483649", "\"3\"", "null"})
    EXPECT_THROW(parse_member(changed(member, "\"rank\":3", fmt::format("\"rank\":{}", rank))),
                 BadInput)
        << rank;
  EXPECT_THROW(parse_member(changed(member, "4711", "-1")), BadInput);
  const std::string longer(300, 'a');
  for (const char* text : {"alpha", "net:[1]", "asup-7"})
    EXPECT_THROW(parse_member(changed(member, text, longer)), BadInput) << text;
  for (const char* address : {"nowhere", "10.0.0.1:99999", "10.0.0.1"})
    EXPECT_THROW(parse_member(changed(member, "10.0.0.1:5000", address)), BadInput) << address;
  EXPECT_EQ(parse_member(changed(member, "alpha", "al\\npha")).hostname, "al?pha")
      << "a name has one line";
  const RosterMessage message{{5, {some_member()}}, 0, 0, 1};
  for (const char* generation : {"0", "-1", "1e18", "18446744073709551615"})
    EXPECT_THROW(parse_roster(changed(to_json(message), "\"generation\":5",
                                      fmt::format("\"generation\":{}", generation))),
                 BadInput)
        << generation;
}

TEST(Messages, AJobHasMoreMembersThanServers) {
  for (const auto& [size, servers] : {std::pair(2, 2), std::pair(2, -1), std::pair(0, 0)})
    EXPECT_THROW(
        parse_hello(to_json(Hello{kControlVersion, "0.1.0", size, servers, some_member()})),
        BadInput)
        << size << " " << servers;
}

TEST(Messages, AHostnameOfAnyBytesCanTravel) {
  Member member = some_member();
  member.hostname = "al\xffpha";
  EXPECT_EQ(parse_member(to_json(member)).hostname, "al\xEF\xBF\xBDpha");
}

TEST(NameRanks, ReadsLikeASentence) {
  EXPECT_EQ(name_ranks({1}), "rank 1");
  EXPECT_EQ(name_ranks({3, 1}), "ranks 1 and 3");
  EXPECT_EQ(name_ranks({5, 1, 3}), "ranks 1, 3 and 5");
  EXPECT_EQ(name_ranks({1, 2, 3, 4, 9}), "ranks 1-4 and 9");
  EXPECT_EQ(name_ranks({0, 1, 7, 8, 9}), "ranks 0, 1 and 7-9");
}

TEST(NameMembers, NamesBothRoles) {
  const Roles roles{3, 2};
  EXPECT_EQ(name_members({0, 2}, roles), "ranks 0 and 2");
  EXPECT_EQ(name_members({4}, roles), "server 1");
  EXPECT_EQ(name_members({4, 1, 3}, roles), "rank 1 and servers 0 and 1");
  EXPECT_EQ(roles.describe(), "3 workers and 2 servers");
  EXPECT_EQ((Roles{2, 0}.describe()), "2 ranks");
}

TEST(Roster, KnowsWhoHasWhichRole) {
  const Roster roster{1, {some_member(), some_member(), some_server()}};
  EXPECT_EQ(roster.roles(), (Roles{2, 1}));
  EXPECT_EQ(roster.workers().size(), 2u);
  EXPECT_EQ(roster.members[2].describe(), "server 1 (pid 4711 on alpha)");
}

TEST(Roster, KnowsWhetherAllShareAHost) {
  Roster roster{1, {some_member(), some_member()}};
  EXPECT_TRUE(roster.one_host());
  roster.members[1].host.namespace_ = "net:[2]";
  EXPECT_FALSE(roster.one_host());
  EXPECT_EQ(roster.members[0].describe(), "rank 3 (pid 4711 on alpha)");
  EXPECT_EQ(roster.find(7), &roster.members[0]);
  EXPECT_EQ(roster.find(8), nullptr);
}

}  // namespace
}  // namespace asup::net
