#include "asup/net/tls/stream.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "asup/base/error.h"

namespace asup::net {
namespace {

constexpr std::size_t kRecord = 16 * 1024;  // the most that TLS allows
// What is encrypted before any of it is sent: few system calls, and the wire is not kept waiting.
constexpr std::size_t kAtOnce = 4 * kRecord;
constexpr std::size_t kRecordOverhead = 32;  // header, type and tag; a little more than they take

}  // namespace

// What OpenSSL reads from and writes to: records go to memory, and from there many at a time.
struct TlsStream::Bio {
  static TlsStream& stream(BIO* bio) { return *static_cast<TlsStream*>(BIO_get_data(bio)); }

  static int read(BIO* bio, char* into, int size) {
    BIO_clear_retry_flags(bio);
    const int got = stream(bio).fetch(
        {reinterpret_cast<std::byte*>(into), static_cast<std::size_t>(std::max(size, 0))});
    if (got < 0) BIO_set_retry_read(bio);
    return got;
  }
  static int write(BIO* bio, const char* from, int size) {
    const auto* bytes = reinterpret_cast<const std::byte*>(from);
    auto& out = stream(bio).out_;
    out.insert(out.end(), bytes, bytes + size);
    return size;
  }
  static long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

  static BIO_METHOD* method() {
    static BIO_METHOD* const made = [] {
      BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "asup");
      check(method != nullptr, "OpenSSL cannot make a BIO method");
      BIO_meth_set_read(method, read);
      BIO_meth_set_write(method, write);
      BIO_meth_set_ctrl(method, control);
      return method;
    }();
    return made;
  }
};

TlsStream::TlsStream(int socket, Side side, const TlsSecret& secret, std::string purpose)
    : socket_(socket), terms_{secret, std::move(purpose)}, ssl_(make_ssl(side, terms_)) {
  BIO* bio = BIO_new(Bio::method());
  check(bio != nullptr, "OpenSSL cannot make a BIO");
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
}

bool TlsStream::establish() {
  ERR_clear_error();
  if (!closed_ && SSL_is_init_finished(ssl_.get()) == 0 &&
      take_result(SSL_do_handshake(ssl_.get())) && SSL_session_reused(ssl_.get()) == 0) {
    closed_ = true;
    why_ = "it did not prove the secret of the connection";
  }
  established_ = flush() && !closed_ && SSL_is_init_finished(ssl_.get()) == 1;
  return established_;
}

std::size_t TlsStream::read(std::span<std::byte> into) {
  std::size_t filled = 0;
  // To ask the socket once more would only hold up what has come.
  const auto has_all = [&] { return filled > 0 && short_ && ahead_begin_ == ahead_end_; };
  while (filled < into.size() && !closed_ && !has_all()) {
    std::size_t got = 0;
    ERR_clear_error();
    if (!take_result(SSL_read_ex(ssl_.get(), into.data() + filled, into.size() - filled, &got)))
      break;
    filled += got;
  }
  return filled;
}

std::size_t TlsStream::write(std::span<const std::span<const std::byte>> pieces) {
  std::size_t taken = 0;
  while (!closed_) {
    if (encrypted_ == 0) encrypted_ = encrypt(pieces, taken);
    if (encrypted_ == 0 || !flush()) break;
    taken += std::exchange(encrypted_, 0);
  }
  return taken;
}

// Makes records of some of the bytes behind the first `from`; returns how many. Pieces that one
// record holds together go in one.
std::size_t TlsStream::encrypt(std::span<const std::span<const std::byte>> pieces,
                               std::size_t from) {
  std::array<std::byte, kRecord> together;
  std::size_t gathered = 0, done = 0;
  for (std::span<const std::byte> piece : pieces) {
    const std::size_t skipped = std::min(from, piece.size());
    from -= skipped;
    piece = piece.subspan(skipped);
    piece = piece.first(std::min(piece.size(), kAtOnce - done));
    done += piece.size();
    if (piece.size() <= together.size() - gathered) {
      std::ranges::copy(piece, together.begin() + static_cast<std::ptrdiff_t>(gathered));
      gathered += piece.size();
      continue;
    }
    if (!encrypt_record({together.data(), std::exchange(gathered, 0)}) || !encrypt_record(piece))
      return 0;
  }
  return encrypt_record({together.data(), gathered}) ? done : 0;
}

// One record, or some where it does not hold them all.
bool TlsStream::encrypt_record(std::span<const std::byte> bytes) {
  if (bytes.empty()) return true;
  ERR_clear_error();
  if (!replace_key_if_due()) return false;
  if (out_.capacity() == 0) out_.reserve(kAtOnce + 8 * kRecordOverhead);
  records_ += (bytes.size() + kRecord - 1) / kRecord;
  std::size_t written = 0;
  return take_result(SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &written)) &&
         written == bytes.size();
}

bool TlsStream::replace_key_if_due() {
  if (records_ < records_a_key_) return true;
  records_ = 0;
  return take_result(SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED));
}

// What comes for OpenSSL: bytes, 0 at the end, or -1 where there are none yet.
int TlsStream::fetch(std::span<std::byte> into) {
  if (ahead_begin_ < ahead_end_) {
    const std::size_t n = std::min(into.size(), ahead_end_ - ahead_begin_);
    std::memcpy(into.data(), ahead_.data() + ahead_begin_, n);
    ahead_begin_ += n;
    return static_cast<int>(n);
  }
  std::array<iovec, 2> vectors{{{into.data(), into.size()}, {ahead_.data(), ahead_.size()}}};
  msghdr message{};
  message.msg_iov = vectors.data();
  message.msg_iovlen = vectors.size();
  ssize_t got = 0;
  do got = recvmsg(socket_, &message, MSG_DONTWAIT);
  while (got < 0 && errno == EINTR);
  dry_ = got <= 0;
  short_ = got < static_cast<ssize_t>(into.size() + ahead_.size());
  if (got > 0) {
    const std::size_t n = std::min(static_cast<std::size_t>(got), into.size());
    ahead_begin_ = 0;
    ahead_end_ = static_cast<std::size_t>(got) - n;
    return static_cast<int>(n);
  }
  ended_ = got == 0 || errno != EAGAIN;
  ended_by_peer_ = got == 0 || errno == ECONNRESET;
  return ended_ ? 0 : -1;
}

// Whether all is out. A broken pipe is seen by who reads, after what came before it.
bool TlsStream::flush() {
  while (sent_ < out_.size()) {
    const ssize_t n =
        send(socket_, out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    sent_ += static_cast<std::size_t>(n);
  }
  out_.clear();
  sent_ = 0;
  return true;
}

// Whether a call of OpenSSL did what it is for; else it has nothing to go on with yet, or the
// stream is closed now. needs: the queue of errors was empty before the call
bool TlsStream::take_result(int result) {
  if (result == 1) return true;
  const int error = SSL_get_error(ssl_.get(), result);
  if (error == SSL_ERROR_WANT_READ && !ended_) return false;
  closed_ = true;
  if (!ended_ && error != SSL_ERROR_ZERO_RETURN) why_ = describe_error();
  flush();  // the peer hears why
  return false;
}

std::string TlsStream::describe_error() const {
  if (!terms_.peers_purpose.empty())
    return fmt::format("it opened '{}' where '{}' is due", terms_.peers_purpose, terms_.purpose);
  const unsigned long error = ERR_peek_error();
  const char* text = ERR_reason_error_string(error);
  const std::string reason = text != nullptr ? text : "no reason is given";
  const bool from_peer = ERR_GET_REASON(error) > SSL_AD_REASON_OFFSET;
  if (!established_)
    return fmt::format("{} ({})",
                       from_peer ? "it ended the TLS handshake"
                                 : "it could not prove the secret of the connection",
                       reason);
  return fmt::format("{} ({})",
                     from_peer ? "what reached it from here was changed on the way"
                               : "what came from it was changed on the way",
                     reason);
}

}  // namespace asup::net
