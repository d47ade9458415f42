// A wire whose peer is a test: what it wrote lies in memory, byte by byte as it pleases.
#pragma once

#include <vector>

#include "asup/net/transport/frame.h"

namespace asup::net {

class MemoryWire : public Wire {
 public:
  // What the peer sends next.
  void bring(ConstBytes bytes) {
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(read_));
    read_ = 0;
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  // A frame as its header says, whatever that is, and so many bytes behind it.
  void bring(const FrameHeader& header, std::size_t follow) {
    bring(std::as_bytes(std::span(&header, 1)));
    bytes_.resize(bytes_.size() + follow, std::byte{7});
  }

  WireAbilities abilities() const override { return {"memory"}; }
  std::size_t write(std::span<const ConstBytes> pieces) override {
    std::size_t taken = 0;
    for (const ConstBytes piece : pieces) taken += piece.size();
    return taken;
  }
  ConstBytes peek(std::size_t, std::size_t) override { return ConstBytes(bytes_).subspan(read_); }
  void skip(std::size_t bytes) override { read_ += bytes; }
  bool quiet() override { return read_ == bytes_.size(); }
  bool closed() const override { return false; }
  bool arm(bool) override { return quiet(); }
  int fd() const override { return -1; }

 private:
  std::vector<std::byte> bytes_;
  std::size_t read_ = 0;
};

}  // namespace asup::net
