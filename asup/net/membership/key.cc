#include "asup/net/membership/key.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "asup/base/error.h"

namespace asup::net {
namespace {

constexpr std::size_t kLeastSecret = 16, kMostSecret = 64 * 1024;
constexpr const char* kMemoryFile = "asup-key";

// Reads up to `limit` bytes from the beginning, leaving the descriptor's own position alone: ranks
// may share it.
std::vector<std::byte> read_from_start(int fd, std::size_t limit) {
  std::vector<std::byte> bytes(limit);
  std::size_t got = 0;
  while (got < limit) {
    const ssize_t n = pread(fd, bytes.data() + got, limit - got, static_cast<off_t>(got));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    got += static_cast<std::size_t>(n);
  }
  bytes.resize(got);
  return bytes;
}

// What the descriptor refers to, as /proc shows it.
std::string target_of(int fd) {
  char target[64] = {};
  const ssize_t n =
      readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), target, sizeof target - 1);
  return n < 0 ? "" : std::string(target, static_cast<std::size_t>(n));
}

void require_private(const std::string& path, const struct stat& info) {
  require(S_ISREG(info.st_mode), "ASUP_KEY_FILE={}: not a regular file", path);
  require((info.st_mode & 077) == 0,
          "ASUP_KEY_FILE={}: other users can read or write it (mode {:o}); run: chmod 600 {}", path,
          info.st_mode & 0777, path);
  require(info.st_uid == geteuid() || info.st_uid == 0,
          "ASUP_KEY_FILE={}: belongs to user {}, but this process runs as user {}", path,
          info.st_uid, geteuid());
}

Key hash_of(const std::vector<std::byte>& secret) {
  constexpr std::string_view kLabel = "asup key file 1";
  std::vector<std::byte> labelled(kLabel.size());
  std::memcpy(labelled.data(), kLabel.data(), kLabel.size());
  labelled.insert(labelled.end(), secret.begin(), secret.end());
  Key key;
  const int done =
      EVP_Digest(labelled.data(), labelled.size(), reinterpret_cast<unsigned char*>(key.data()),
                 nullptr, EVP_sha256(), nullptr);
  check(done == 1, "SHA-256 failed in OpenSSL");
  return key;
}

}  // namespace

Key random_key() {
  Key key;
  const int done = RAND_bytes(reinterpret_cast<unsigned char*>(key.data()), key.size());
  check(done == 1, "the system's random number generator failed");
  return key;
}

Key read_key_file(const std::string& path) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  require(static_cast<bool>(file), "ASUP_KEY_FILE={}: {}", path, std::strerror(errno));
  struct stat info {};
  check(fstat(file.get(), &info) == 0, "{}: {}", path, std::strerror(errno));
  require_private(path, info);
  const auto secret = read_from_start(file.get(), kMostSecret + 1);
  require(secret.size() >= kLeastSecret,
          "ASUP_KEY_FILE={}: holds {} bytes, and a key needs {} at least; make one with: "
          "(umask 077; head -c 32 /dev/urandom > {})",
          path, secret.size(), kLeastSecret, path);
  require(secret.size() <= kMostSecret, "ASUP_KEY_FILE={}: too large to be a key", path);
  return hash_of(secret);
}

Fd make_key_fd(const Key& key) {
  Fd fd(memfd_create(kMemoryFile, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  check(static_cast<bool>(fd), "memfd_create: {}", std::strerror(errno));
  const bool written = write(fd.get(), key.data(), key.size()) == static_cast<ssize_t>(key.size());
  const int seals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
  check(written && fcntl(fd.get(), F_ADD_SEALS, seals) == 0, "writing the key: {}",
        std::strerror(errno));
  return fd;
}

Key read_key_fd(int fd) {
  // The number may have been reused since: never read, let alone close, what is not ours.
  require(target_of(fd).starts_with(fmt::format("/memfd:{}", kMemoryFile)),
          "ASUP_KEY_FD={}: the job's key is not there. It can be read once in each process, and a "
          "wrapper between asup run and this program must not close it (in Python: "
          "subprocess.run(…, close_fds=False))",
          fd);
  const Fd owned(fd);
  const auto bytes = read_from_start(fd, Key{}.size() + 1);
  Key key;
  require(bytes.size() == key.size(), "ASUP_KEY_FD={}: holds {} bytes instead of {}", fd,
          bytes.size(), key.size());
  std::memcpy(key.data(), bytes.data(), key.size());
  return key;
}

std::string to_hex(const Key& key) {
  std::string hex;
  for (const std::byte byte : key) hex += fmt::format("{:02x}", std::to_integer<int>(byte));
  return hex;
}

Key key_from_hex(std::string_view hex) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  Key key;
  require(hex.size() == 2 * key.size() && hex.find_first_not_of(kDigits) == hex.npos,
          "a key is {} hexadecimal digits", 2 * key.size());
  for (std::size_t i = 0; i < key.size(); ++i)
    key[i] = static_cast<std::byte>(kDigits.find(hex[2 * i]) * 16 + kDigits.find(hex[2 * i + 1]));
  return key;
}

}  // namespace asup::net
