#include "asup/data/byte_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/files.h"

namespace asup::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Bytes some_bytes(std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::uint8_t>(i * i >> 3);
  return bytes;
}

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(ByteSource, ReadsPlainAndGzipAlike) {
  TemporaryFolder folder;
  const Bytes bytes = some_bytes(1'000'003);
  const Bytes half(bytes.begin(), bytes.begin() + 500'000);
  const Bytes rest(bytes.begin() + 500'000, bytes.end());
  for (const auto& path : {folder.write("plain", bytes), folder.write("packed.gz", gzip(bytes)),
                           folder.write("packed-without-the-name", gzip(bytes)),
                           folder.write("two-members.gz", gzip(half) + gzip(rest))}) {
    ByteSource source(path);
    EXPECT_EQ(source.take(3, "head"), Bytes(bytes.begin(), bytes.begin() + 3)) << path;
    EXPECT_EQ(source.take(1'000'000, "body"), Bytes(bytes.begin() + 3, bytes.end())) << path;
    EXPECT_GE(source.capacity(), bytes.size()) << path;
    source.expect_end();
  }
}

TEST(ByteSource, NamesFileAndLackWhereItEndsEarly) {
  TemporaryFolder folder;
  for (const auto& path :
       {folder.write("a", some_bytes(10)), folder.write("b", gzip(some_bytes(10))),
        folder.write("c", {}), folder.write("d", {0x1f})}) {
    EXPECT_THAT(message_of([&] { ByteSource(path).take(12, "labels"); }),
                AllOf(HasSubstr(path.string()), HasSubstr("of the 12 bytes of its labels")));
  }
}

TEST(ByteSource, RefusesDataThatGoesOn) {
  TemporaryFolder folder;
  ByteSource source(folder.write("a", some_bytes(10)));
  source.take(9, "head");
  EXPECT_THAT(message_of([&] { source.expect_end(); }), HasSubstr("goes on after"));
}

TEST(ByteSource, RefusesBrokenGzip) {
  TemporaryFolder folder;
  const Bytes bytes = some_bytes(100'000), packed = gzip(bytes);
  const auto read_all = [&](const Bytes& file) {
    const auto path = folder.write("file.gz", file);
    return message_of([&] {
      ByteSource source(path);
      source.take(bytes.size(), "data");
      source.expect_end();
    });
  };

  Bytes wrong_sum = packed;
  wrong_sum[wrong_sum.size() - 6] ^= 1;  // the trailer: four bytes of CRC, four of length
  EXPECT_THAT(read_all(wrong_sum), AllOf(HasSubstr("file.gz"), HasSubstr("incorrect data check")));

  Bytes wrong_length = packed;
  wrong_length.back() ^= 1;
  EXPECT_THAT(read_all(wrong_length), HasSubstr("incorrect length check"));

  Bytes damaged = packed;
  for (std::size_t i = 200; i < 260; ++i) damaged[i] = 0xff;
  EXPECT_THAT(read_all(damaged), HasSubstr("corrupt"));

  for (const std::size_t kept :
       {std::size_t{2}, std::size_t{9}, packed.size() / 2, packed.size() - 1}) {
    EXPECT_THAT(read_all(Bytes(packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(kept))),
                HasSubstr("breaks off"));
  }
  EXPECT_THAT(read_all(packed + Bytes{'h', 'i'}), HasSubstr("other bytes follow"));
}

TEST(ByteSource, RefusesWhatIsNoFile) {
  TemporaryFolder folder;
  EXPECT_THAT(message_of([&] { ByteSource(folder.path() / "none"); }),
              AllOf(HasSubstr("none"), HasSubstr("no such file")));
  EXPECT_THAT(message_of([&] { ByteSource(folder.path()); }), HasSubstr("not a file"));
}

}  // namespace
}  // namespace asup::data
