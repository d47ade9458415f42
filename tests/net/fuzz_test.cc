// Sound bytes with a few of them changed, for a second: nothing falls over, nothing is taken for
// more than it is.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "asup/base/clock.h"
#include "tests/net/fuzz_targets.h"

namespace asup::net {
namespace {

using Bytes = std::vector<std::byte>;

void append(Bytes& to, const void* data, std::size_t size) {
  const auto* bytes = static_cast<const std::byte*>(data);
  to.insert(to.end(), bytes, bytes + size);
}

Bytes sound_frames() {
  using Kind = FrameHeader::Kind;
  Bytes bytes;
  const auto add = [&](Kind kind, std::uint16_t head, std::uint32_t payload, Channel channel,
                       std::uint64_t total) {
    const FrameHeader header{kind, kFrameVersion, head, payload, channel, total, 0};
    append(bytes, &header, sizeof header);
    bytes.resize(bytes.size() + round_up_to_unit(head) + round_up_to_unit(payload));
  };
  for (Channel channel = 0; channel < 5; ++channel) {
    add(Kind::first, 64, 64, channel, 200);
    add(Kind::first, 16, 32, channel + 10, 32);
    add(Kind::more, 0, 128, channel, 200);
    add(Kind::more, 0, 8, channel, 200);
    add(Kind::first, 0, 0, channel, 0);
  }
  return bytes;
}

Bytes sound_handshake() {
  Handshake connector(Side::connector, Key{}, "fuzz");
  Bytes bytes = connector.take_output();
  bytes.resize(bytes.size() + 32);
  return bytes;
}

Bytes sound_control() {
  const Member member{7,     3, std::nullopt, "alpha", 4711, {"boot", "net:[1]"}, "10.0.0.1:5000",
                      "asup"};
  const std::string text =
      encode(ControlFrame::Kind::hello, to_json(Hello{kControlVersion, "0.1.0", 4, 1, member})) +
      encode(ControlFrame::Kind::roster, to_json(RosterMessage{{5, {member}}, 0, 0, 1})) +
      encode(ControlFrame::Kind::lost, to_json(member)) +
      encode(ControlFrame::Kind::refused, to_json(Refusal{"no", true}));
  Bytes bytes;
  append(bytes, text.data(), text.size());
  return bytes;
}

// Changes bytes, and places of eight, to what is likely to hurt; cuts, and repeats.
Bytes mutated(Bytes bytes, std::mt19937_64& random) {
  constexpr std::uint64_t kNumbers[] = {0,   1,   31,      32,    33,        127,
                                        255, 256, 1 << 18, ~0ull, 1ull << 63};
  for (auto changes = 1 + random() % 4; changes > 0; --changes) {
    const std::size_t at = random() % bytes.size();
    switch (random() % 4) {
      case 0:
        bytes[at] = static_cast<std::byte>(random());
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
      default: {
        const Bytes again(bytes.begin() + static_cast<std::ptrdiff_t>(at / kUnit * kUnit),
                          bytes.end());
        bytes.insert(bytes.end(), again.begin(), again.end());
      }
    }
  }
  return bytes;
}

template <typename Target>
void change_at_random(const Bytes& sound, Target target) {
  std::mt19937_64 random(19);
  const Deadline deadline = after(Seconds(0.7));
  for (int i = 0; i < 100'000 && Clock::now() < deadline; ++i) {
    const Bytes bytes = mutated(sound, random);
    ASSERT_NO_THROW(target(bytes)) << "round " << i;
  }
}

TEST(Fuzz, Link) {
  ASSERT_EQ(fuzz_link(sound_frames()), LinkEnd::open) << "these are sound";
  change_at_random(sound_frames(), [](const Bytes& bytes) { (void)fuzz_link(bytes); });
}
TEST(Fuzz, Handshake) { change_at_random(sound_handshake(), fuzz_handshake); }
TEST(Fuzz, Control) { change_at_random(sound_control(), fuzz_control); }

}  // namespace
}  // namespace asup::net
