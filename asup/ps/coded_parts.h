// What of the flat space travels in a code (kernels/code.h), and in which pieces: gradients to
// servers, and what parameters have changed by to workers. A pure function of the setup, which all
// members share. Values only; safe from any thread.
#pragma once

#include <span>
#include <vector>

#include "asup/kernels/code.h"
#include "asup/ps/server_setup.h"

namespace asup::ps {

// Numbers in a code travel in pieces of at most so many, each in blocks of its own.
inline constexpr std::uint64_t kMostCoded = 512 * 1024;
static_assert(kMostCoded % kernels::kCodeBlock == 0);

struct CodedParts {
  kernels::Code code = kernels::Code::none;
  std::vector<Range> ranges{};  // that travel in it; sorted, and none touch

  bool any() const { return code != kernels::Code::none; }
  bool hold(Range range) const;   // all of it
  bool touch(Range range) const;  // some of it
  // needs: hold()
  std::uint64_t bytes_of(Range range) const { return kernels::coded_bytes(code, range.size()); }

  struct Piece {
    Range range;
    bool coded = false;  // all of it, or none
    bool operator==(const Piece&) const = default;
  };
  // In order; those in the code have kMostCoded elements at most.
  std::vector<Piece> cut(Range range) const;
};

CodedParts coded_parts(const ServerSetup& setup);

}  // namespace asup::ps
