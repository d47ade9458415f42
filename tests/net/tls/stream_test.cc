// Streams against who reads, changes, repeats or leaves out what passes between them.
#include "asup/net/tls/stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <cstring>
#include <numeric>

#include "tests/net/tls/ends.h"

namespace asup::net {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kHeader = 5;  // of a record: type, version, length

std::vector<std::byte> gradient(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.5f);
  std::vector<std::byte> bytes(count * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

bool contains(const Recorded& recorded, std::span<const std::byte> part) {
  return std::search(recorded.begin(), recorded.end(), part.begin(), part.end()) != recorded.end();
}

class TlsStreamTest : public ::testing::Test {
 protected:
  void open(std::uint64_t records_a_key = 1 << 20) {
    connector = std::make_unique<TlsStream>(ends.connector_socket(), Side::connector, secret, "x");
    acceptor = std::make_unique<TlsStream>(ends.acceptor_socket(), Side::acceptor, secret, "x");
    connector->set_records_a_key(records_a_key);
    ASSERT_TRUE(ends.establish(*connector, *acceptor))
        << connector->describe_end() << "; " << acceptor->describe_end();
    ends.there.recorded.clear();
  }

  // Writes all of it, and pumps.
  void say(std::span<const std::byte> bytes) {
    while (!bytes.empty() && !connector->closed()) {
      bytes = bytes.subspan(connector->write({&bytes, 1}));
      ends.pump();
      hear();
    }
    while (ends.pump()) hear();
  }
  void hear() {
    std::vector<std::byte> into(1 << 20);
    into.resize(acceptor->read(into));
    heard.insert(heard.end(), into.begin(), into.end());
  }

  const TlsSecret secret{std::byte{1}, std::byte{2}};
  TlsEnds ends;
  std::unique_ptr<TlsStream> connector, acceptor;
  std::vector<std::byte> heard;
};

TEST_F(TlsStreamTest, NothingOfWhatItCarriesIsOnTheWire) {
  open();
  const auto sent = gradient(50'000);
  say(sent);
  EXPECT_TRUE(heard == sent);
  const std::span all(sent);
  for (std::size_t at = 0; at < sent.size(); at += 10'000)
    EXPECT_FALSE(contains(ends.there.recorded, all.subspan(at, 16))) << at;
}

TEST_F(TlsStreamTest, TheSameBytesTwiceLookDifferentOnTheWire) {
  open();
  const auto sent = gradient(100);
  say(sent);
  const Recorded first = std::exchange(ends.there.recorded, {});
  say(sent);
  ASSERT_EQ(ends.there.recorded.size(), first.size());
  EXPECT_FALSE(
      std::equal(first.begin() + kHeader, first.end(), ends.there.recorded.begin() + kHeader));
}

TEST_F(TlsStreamTest, WhoHasAnotherSecretIsRefused) {
  TlsStream one(ends.connector_socket(), Side::connector, TlsSecret{}, "x");
  TlsStream other(ends.acceptor_socket(), Side::acceptor, secret, "x");
  EXPECT_FALSE(ends.establish(one, other));
  EXPECT_THAT(other.why(), HasSubstr("it could not prove the secret of the connection"));
  EXPECT_THAT(one.why(), HasSubstr("it ended the TLS handshake"));
}

TEST_F(TlsStreamTest, WhoIsThereForAnotherPurposeIsRefused) {
  TlsStream one(ends.connector_socket(), Side::connector, secret, "rank 2 to rank 0");
  TlsStream other(ends.acceptor_socket(), Side::acceptor, secret, "rank 1 to rank 0");
  EXPECT_FALSE(ends.establish(one, other));
  EXPECT_EQ(other.why(), "it opened 'rank 2 to rank 0' where 'rank 1 to rank 0' is due");
}

// Of the first record each bit of its header, and some of its body; whatever is changed, what
// follows is long enough for any length.
TEST_F(TlsStreamTest, EveryChangedBitEndsBothEndsAndIsSaid) {
  const auto sent = gradient(10'000);
  for (std::size_t bit = 0; bit < 1000 * 8; bit += bit < kHeader * 8 ? 1 : 997) {
    // The version says nothing, and is not looked at by everybody (RFC 8446 5.1).
    if (bit / 8 == 1 || bit / 8 == 2) continue;
    ends.there.change = nullptr;
    while (ends.pump()) continue;
    TlsEnds fresh;
    std::swap(ends, fresh);
    open();
    bool changed = false;
    ends.there.change = [&](Recorded& bytes) {
      if (!std::exchange(changed, true)) bytes[bit / 8] ^= std::byte{1} << bit % 8;
    };
    heard.clear();
    say(sent);
    EXPECT_TRUE(acceptor->closed()) << bit;
    EXPECT_THAT(acceptor->why(), HasSubstr("what came from it was changed on the way")) << bit;
    EXPECT_TRUE(heard.empty()) << bit;
    ends.pump();
    std::byte byte;
    EXPECT_EQ(connector->read({&byte, 1}), 0u);
    EXPECT_THAT(connector->why(), HasSubstr("what reached it from here was changed on the way"))
        << bit;
  }
}

TEST_F(TlsStreamTest, ARecordThatComesTwiceIsNotTakenTwice) {
  open();
  ends.there.change = [](Recorded& bytes) {
    bytes.reserve(2 * bytes.size());
    bytes.insert(bytes.end(), bytes.begin(), bytes.end());
  };
  const auto sent = gradient(100);
  say(sent);
  EXPECT_TRUE(heard == sent);
  EXPECT_THAT(acceptor->why(), HasSubstr("changed on the way"));
}

TEST_F(TlsStreamTest, ARecordThatIsLeftOutIsMissed) {
  open();
  ends.there.change = [&](Recorded& bytes) {
    bytes.clear();
    ends.there.change = nullptr;
  };
  const auto sent = gradient(100);
  say(sent);
  say(sent);
  EXPECT_TRUE(heard.empty());
  EXPECT_THAT(acceptor->why(), HasSubstr("changed on the way"));
}

TEST_F(TlsStreamTest, AKeyIsReplacedAfterSoManyRecordsAndNothingIsLost) {
  const auto sent = gradient(1000);
  std::vector<std::byte> all;
  const auto bytes_on_the_wire = [&](std::uint64_t records_a_key) {
    TlsEnds fresh;
    std::swap(ends, fresh);
    open(records_a_key);
    all.clear();
    heard.clear();
    for (int i = 0; i < 100; ++i) {
      say(sent);
      all.insert(all.end(), sent.begin(), sent.end());
    }
    EXPECT_TRUE(heard == all);
    return ends.there.recorded.size();
  };
  const std::size_t one_key = bytes_on_the_wire(1000), ten_keys = bytes_on_the_wire(10);
  // A record that says so: header, 5 bytes, type and tag.
  EXPECT_EQ(ten_keys, one_key + 9 * (kHeader + 5 + 17));
}

TEST_F(TlsStreamTest, TheEndOfTheConnectionIsNoChange) {
  open();
  const auto sent = gradient(10);
  say(sent);
  shutdown(ends.acceptor_socket(), SHUT_RD);
  heard.clear();
  hear();
  hear();
  EXPECT_TRUE(acceptor->closed());
  EXPECT_EQ(acceptor->why(), "");
}

// Without the secret, an impostor may hope that a certificate is as good.
TEST_F(TlsStreamTest, ACertificateIsNoSecret) {
  EVP_PKEY* key = EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256");
  X509* certificate = X509_new();
  X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  ASSERT_GT(X509_sign(certificate, key, EVP_sha256()), 0);
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());
  ASSERT_EQ(SSL_CTX_use_certificate(context, certificate), 1);
  ASSERT_EQ(SSL_CTX_use_PrivateKey(context, key), 1);
  Ssl impostor(SSL_new(context));
  SSL_set_fd(impostor.get(), ends.acceptor_socket());

  TlsStream victim(ends.connector_socket(), Side::connector, secret, "x");
  for (bool moved = true; moved || !victim.closed();) {
    ASSERT_FALSE(victim.establish());
    SSL_accept(impostor.get());
    moved = ends.pump();
  }
  EXPECT_THAT(victim.why(), HasSubstr("it could not prove the secret of the connection"));
  SSL_CTX_free(context);
  X509_free(certificate);
  EVP_PKEY_free(key);
}

}  // namespace
}  // namespace asup::net
