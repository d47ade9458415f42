// A connected socket whose bytes are encrypted and authenticated, by TLS 1.3 (session.h). Nothing
// here blocks. The end of the stream is not TLS's to tell: asup's own protocols say goodbye, and a
// connection that ends without is lost, however it ended.
//
// Used by one thread at a time.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "asup/net/tls/session.h"

namespace asup::net {

class TlsStream {
 public:
  // Over a non-blocking stream socket, which stays the caller's and lives longer. Both ends name
  // the same purpose.
  TlsStream(int socket, Side side, const TlsSecret& secret, std::string purpose);
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  // Goes on with the handshake; true once the peer has proved the secret and the purpose. Where it
  // is not true, the socket must have news first, or the stream has closed.
  bool establish();
  bool established() const { return established_; }

  // Fills `into` with what the peer wrote; fewer bytes: no more seems to have come, of which
  // may_have_more() is sure, or the stream has closed.
  // needs, as write() does: it is established
  std::size_t read(std::span<std::byte> into);

  // Takes leading bytes of the pieces together; returns how many of them the socket has got. Fewer
  // than all: the socket is full. The next call must begin with the bytes that were not taken.
  std::size_t write(std::span<const std::span<const std::byte>> pieces);

  // Something waits here for the socket to have room.
  bool has_unsent() const { return sent_ < out_.size(); }
  // Something may have come of which the socket no longer tells.
  bool may_have_more() const { return !dry_ && !closed_; }

  // The connection has ended, or can no longer be trusted.
  bool closed() const { return closed_; }
  // What is wrong with the peer; empty: the connection has just ended.
  const std::string& why() const { return why_; }
  // The peer's kernel has ended it: the process there has ended, or wanted it so.
  bool ended_by_peer() const { return closed_ && why_.empty() && ended_by_peer_; }
  std::string describe_end() const { return why_.empty() ? "it closed the connection" : why_; }

  // A key encrypts so many records, and is then replaced by the next (RFC 8446 5.5 allows 2^24.5
  // full ones).
  void set_records_a_key(std::uint64_t records) { records_a_key_ = records; }

 private:
  struct Bio;

  int fetch(std::span<std::byte> into);
  bool flush();
  std::size_t encrypt(std::span<const std::span<const std::byte>> pieces, std::size_t from);
  bool encrypt_record(std::span<const std::byte> bytes);
  bool replace_key_if_due();
  bool take_result(int result);
  std::string describe_error() const;

  const int socket_;
  TlsTerms terms_;
  Ssl ssl_;
  bool established_ = false;
  bool short_ = false;  // the socket had fewer bytes than it was asked for
  bool dry_ = false;    // it had none
  bool ended_ = false;  // nor ever will have
  bool ended_by_peer_ = false;
  bool closed_ = false;
  std::string why_;

  // What came with the record that was asked for: the next one's header, mostly.
  std::array<std::byte, 4096> ahead_;
  std::size_t ahead_begin_ = 0, ahead_end_ = 0;

  std::vector<std::byte> out_;  // records; those before sent_ are out
  std::size_t sent_ = 0;
  std::size_t encrypted_ = 0;  // bytes of the caller's that are in out_, and not taken yet
  std::uint64_t records_ = 0;  // under the present key
  std::uint64_t records_a_key_ = std::uint64_t{1} << 22;
};

}  // namespace asup::net
