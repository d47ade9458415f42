#include "asup/net/transport/mpi/wire.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace asup::net {
namespace {

bool has_ended(MPI_Request& request) {
  int ended = 0;
  MPI_Test(&request, &ended, MPI_STATUS_IGNORE);
  return ended != 0;
}

}  // namespace

MpiWire::MpiWire(std::shared_ptr<MpiGroup> group, int peer, int out, int in)
    : group_(std::move(group)), peer_(peer), out_tag_(out), in_tag_(in) {
  for (Message& message : in_) post(message);
}

MpiWire::~MpiWire() {
  end_writing();
  for (Message& message : in_)
    if (message.request != MPI_REQUEST_NULL) MPI_Cancel(&message.request);
  for (auto* messages : {&in_, &out_})
    for (Message& message : *messages)
      if (!has_ended(message.request))
        MpiProcess::get().keep(message.request, std::move(message.bytes));
}

void MpiWire::post(Message& message) {
  MPI_Irecv(message.bytes.data(), kMpiMessage, MPI_BYTE, peer_, in_tag_, group_->get(),
            &message.request);
}

std::size_t MpiWire::write(std::span<const ConstBytes> pieces) {
  Message& message = out_[next_out_];
  if (ended_ || !has_ended(message.request)) return 0;
  std::size_t size = 0;
  for (const ConstBytes piece : pieces) {
    const std::size_t part = std::min(piece.size(), kMpiMessage - size);
    if (part > 0) std::memcpy(message.bytes.data() + size, piece.data(), part);
    size += part;
  }
  if (size == 0) return 0;
  MPI_Issend(message.bytes.data(), static_cast<int>(size), MPI_BYTE, peer_, out_tag_, group_->get(),
             &message.request);
  next_out_ = (next_out_ + 1) % kMpiMessages;
  return size;
}

void MpiWire::end_writing() {
  if (std::exchange(ended_, true)) return;
  // The peer may have gone already, so nobody waits until it takes this one.
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Isend(nullptr, 0, MPI_BYTE, peer_, out_tag_, group_->get(), &request);
  if (!has_ended(request)) MpiProcess::get().keep(request, {});
}

ConstBytes MpiWire::peek(std::size_t want, std::size_t) {
  Message& message = in_[next_in_];
  if (arrived_ == 0 && !closed_) {
    int came = 0;
    MPI_Status status;
    MPI_Test(&message.request, &came, &status);
    if (came == 0) return {};
    int size = 0;
    MPI_Get_count(&status, MPI_BYTE, &size);
    arrived_ = static_cast<std::size_t>(size);
    closed_ = size == 0;
  }
  if (arrived_ - taken_ < want) return {};
  return ConstBytes(message.bytes).subspan(taken_, arrived_ - taken_);
}

void MpiWire::skip(std::size_t bytes) {
  taken_ += bytes;
  if (taken_ < arrived_ || bytes == 0) return;
  post(in_[next_in_]);
  next_in_ = (next_in_ + 1) % kMpiMessages;
  arrived_ = taken_ = 0;
}

}  // namespace asup::net
