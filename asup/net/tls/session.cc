#include "asup/net/tls/session.h"

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include <algorithm>
#include <span>

#include "asup/base/error.h"

namespace asup::net {
namespace {

// AES in hardware is the fastest; without, ChaCha20 is, and takes the same time whatever the bytes.
bool has_aes() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
#elif defined(__aarch64__)
  constexpr unsigned long kAes = 1 << 3;  // HWCAP_AES
  return (getauxval(AT_HWCAP) & kAes) != 0;
#else
  return false;
#endif
}

// TLS_AES_128_GCM_SHA256: all that counts of it here is the hash, which both ciphers share.
SSL_SESSION* session_of(SSL* ssl, const TlsTerms& terms) {
  constexpr unsigned char kCipher[] = {0x13, 0x01};
  SSL_SESSION* session = SSL_SESSION_new();
  const bool made = session != nullptr &&
                    SSL_SESSION_set1_master_key(
                        session, reinterpret_cast<const unsigned char*>(terms.secret.data()),
                        terms.secret.size()) == 1 &&
                    SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, kCipher)) == 1 &&
                    SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1;
  if (made) return session;
  SSL_SESSION_free(session);
  return nullptr;
}

TlsTerms& terms_of(SSL* ssl) { return *static_cast<TlsTerms*>(SSL_get_app_data(ssl)); }

int offer_secret(SSL* ssl, const EVP_MD*, const unsigned char** purpose, std::size_t* size,
                 SSL_SESSION** session) {
  const TlsTerms& terms = terms_of(ssl);
  *purpose = reinterpret_cast<const unsigned char*>(terms.purpose.data());
  *size = terms.purpose.size();
  *session = session_of(ssl, terms);
  return *session != nullptr;
}

// What somebody sent, fit for a message: short, and printable.
std::string in_a_line(std::span<const unsigned char> said) {
  constexpr std::size_t kMost = 100;
  std::string line(said.begin(), said.begin() + static_cast<long>(std::min(said.size(), kMost)));
  for (char& letter : line)
    if (letter < ' ' || letter > '~') letter = '?';
  return said.size() > kMost ? line + "…" : line;
}

// Without a session the handshake fails: there is no certificate to go on with.
int find_secret(SSL* ssl, const unsigned char* purpose, std::size_t size, SSL_SESSION** session) {
  TlsTerms& terms = terms_of(ssl);
  const std::span heard(purpose, size);
  *session = nullptr;
  if (std::ranges::equal(heard, terms.purpose))
    *session = session_of(ssl, terms);
  else
    terms.peers_purpose = size > 0 ? in_a_line(heard) : "nothing";
  return 1;
}

SSL_CTX* make_context(Side side) {
  SSL_CTX* context = SSL_CTX_new(TLS_method());
  check(context != nullptr, "OpenSSL cannot make a TLS context");
  const bool done =
      SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
      SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
      SSL_CTX_set_ciphersuites(
          context, has_aes() ? "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"
                             : "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256") == 1 &&
      SSL_CTX_set1_groups_list(context, "X25519:P-256") == 1 &&
      SSL_CTX_set_num_tickets(context, 0) == 1;
  check(done, "OpenSSL does not offer TLS 1.3 as asup needs it");
  // AES where both ends have it in hardware.
  SSL_CTX_set_options(context, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  if (side == Side::connector) {
    SSL_CTX_set_psk_use_session_callback(context, offer_secret);
    // Nobody's certificate is taken: none is trusted.
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  } else {
    SSL_CTX_set_psk_find_session_callback(context, find_secret);
  }
  return context;
}

// Never freed: connections of other threads may outlive main().
SSL_CTX* context_of(Side side) {
  static SSL_CTX* const connector = make_context(Side::connector);
  static SSL_CTX* const acceptor = make_context(Side::acceptor);
  return side == Side::connector ? connector : acceptor;
}

}  // namespace

Ssl make_ssl(Side side, TlsTerms& terms) {
  Ssl ssl(SSL_new(context_of(side)));
  check(ssl != nullptr, "OpenSSL cannot make a TLS session");
  SSL_set_app_data(ssl.get(), &terms);
  if (side == Side::connector)
    SSL_set_connect_state(ssl.get());
  else
    SSL_set_accept_state(ssl.get());
  return ssl;
}

}  // namespace asup::net
