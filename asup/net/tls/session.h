// How asup sets OpenSSL up: TLS 1.3 and nothing older, a secret that both ends have in the place of
// certificates (an external PSK, RFC 8446 2.2), and with it always an ephemeral Diffie-Hellman
// exchange, so that who records the bytes and learns the secret later cannot read them.
//
// Safe from any thread; what it makes belongs to one.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "asup/net/tls/secret.h"

namespace asup::net {

// What both ends of one connection have in common.
struct TlsTerms {
  TlsSecret secret;
  // What the connection is for, and between whom: sent in the clear, and proved along with the
  // secret.
  std::string purpose;
  std::string peers_purpose{};  // what the peer said in its place, where it was another
};

struct SslDeleter {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};
using Ssl = std::unique_ptr<SSL, SslDeleter>;

// needs: the terms live as long
Ssl make_ssl(Side side, TlsTerms& terms);

}  // namespace asup::net
