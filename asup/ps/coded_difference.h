// What a server sends where parameters travel in a code: the difference between its own and those
// that the worker is known to have, its shadow. What the code does not say of it is in the next
// difference: nothing is lost for good. H. Tang et al., "DoubleSqueeze: parallel stochastic
// gradient descent with double-pass error-compensated compression", ICML 2019, arXiv:1905.05957,
// whose servers keep what is lost; the difference has it, and what has changed since.
//
// Workers that were given the same have one shadow together. A piece of a difference runs on any
// thread; everything else is the owner's.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "asup/net/transport/wire.h"
#include "asup/ps/coded_parts.h"
#include "asup/ps/shard.h"

namespace asup::ps {

// Elements of a shard as some workers have them, to the bit. Those that do not travel in the code
// are there with delay compensation alone, or where a worker has told them.
struct Shadow {
  Floats values;
  std::uint64_t version = 0;  // of the parameters that it stands for
  bool is_whole = false;      // is those, not what codes say of them
};

class CodedDifference {
 public:
  // From now on the shadow is that of its workers alone. `ranges`: what these train.
  CodedDifference(const CodedParts& coded, Range shard, std::shared_ptr<Shadow> shadow,
                  std::span<const Range> ranges);

  std::size_t pieces() const { return pieces_.size(); }
  // Each once: codes what the parameters, from the shard's first on, are more than the shadow,
  // which becomes what the workers will have.
  void encode(std::size_t piece, const float* parameters);

  Range range(std::size_t piece) const { return pieces_[piece].range; }
  // After encode().
  net::ConstBytes bytes(std::size_t piece) const;

 private:
  struct Piece {
    Range range;
    std::size_t offset = 0;  // of its code
  };

  const kernels::Code code_;
  const std::uint64_t first_;  // of the shard
  const std::shared_ptr<Shadow> shadow_;
  std::vector<Piece> pieces_;
  std::vector<std::byte> bytes_;
};

}  // namespace asup::ps
