// SHA-256, for checkpoints' integrity and for comparing weights. An object is used from one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

struct evp_md_ctx_st;

namespace asup::checkpoint {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text.data(), text.size()))); }

  // 64 hexadecimal digits. Once, as the last call.
  std::string hex();

 private:
  evp_md_ctx_st* context_;
};

std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace asup::checkpoint
