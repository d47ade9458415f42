#include "asup/checkpoint/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

#include "asup/base/error.h"

namespace asup::checkpoint {

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  check(context_ != nullptr && EVP_DigestInit_ex(context_, EVP_sha256(), nullptr) == 1,
        "OpenSSL offers no SHA-256");
}

Sha256::~Sha256() { EVP_MD_CTX_free(context_); }

void Sha256::add(std::span<const std::byte> bytes) {
  check(EVP_DigestUpdate(context_, bytes.data(), bytes.size()) == 1, "SHA-256 failed");
}

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest{};
  check(EVP_DigestFinal_ex(context_, digest.data(), nullptr) == 1, "SHA-256 failed");
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.hex();
}

}  // namespace asup::checkpoint
