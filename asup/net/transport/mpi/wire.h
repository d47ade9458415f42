// A wire over MPI: a stream of bytes, cut into messages of at most kMpiMessage bytes.
//
// Each side keeps kMpiMessages receives posted, and has as many messages under way at most: they
// are sent in synchronous mode, whose end says that the peer's receive took the message. So MPI
// never has to store what nobody waits for. An empty message is the end of the stream.
//
// MPI has no descriptor to sleep on and tells nobody of a peer's death: it ends the whole job. Used
// under its mesh's lock.
#pragma once

#include <mpi.h>

#include <array>
#include <memory>
#include <vector>

#include "asup/net/transport/mpi/process.h"
#include "asup/net/transport/wire.h"

namespace asup::net {

inline constexpr std::size_t kMpiMessage = 256 * 1024;
inline constexpr std::size_t kMpiMessages = 4;
static_assert(kMpiMessage % kUnit == 0);  // so that no unit is cut

class MpiWire : public Wire {
 public:
  // To `peer` of the group: what is sent under tag `out` the peer receives under the same as `in`.
  MpiWire(std::shared_ptr<MpiGroup> group, int peer, int out, int in);
  ~MpiWire() override;  // the peer then sees the end

  WireAbilities abilities() const override { return {"mpi", false, false, false, true}; }
  std::size_t write(std::span<const ConstBytes> pieces) override;
  ConstBytes peek(std::size_t want, std::size_t useful) override;
  void skip(std::size_t bytes) override;
  void end_writing() override;
  bool closed() const override { return closed_; }
  bool arm(bool) override { return true; }
  int fd() const override { return -1; }

 private:
  struct Message {
    std::vector<std::byte> bytes = std::vector<std::byte>(kMpiMessage);
    MPI_Request request = MPI_REQUEST_NULL;
  };
  void post(Message& message);

  const std::shared_ptr<MpiGroup> group_;
  const int peer_, out_tag_, in_tag_;

  std::array<Message, kMpiMessages> out_;
  std::size_t next_out_ = 0;
  bool ended_ = false;  // nothing is written any more

  // Messages come in the order in which their receives were posted.
  std::array<Message, kMpiMessages> in_;
  std::size_t next_in_ = 0;
  std::size_t arrived_ = 0;  // bytes of the next message; 0: it has not come
  std::size_t taken_ = 0;    // of them
  bool closed_ = false;
};

}  // namespace asup::net
