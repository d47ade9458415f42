// Which of several ways to have gradients travel is the fastest here: each carries numbers to all
// ranks and back a few times. What it takes is encoding, the links, and decoding; nothing is
// computed beside it.
#pragma once

#include <string>
#include <vector>

#include "asup/collective/communicator.h"
#include "asup/sync/compressors/compressor.h"

namespace asup::sync {

struct ExchangeWay {
  std::string name;
  kernels::Code code = kernels::Code::none;
  bool feedback = false;
  CompressorFactory compressor{};  // instead of a code
};

struct FastestExchange {
  std::size_t best = 0;         // of the ways
  std::vector<double> seconds;  // of each, the same on all ranks
};

// Of so many numbers; of large models, what is measured is a part. The first way stays where no
// other is clearly faster. Collective.
FastestExchange fastest_exchange(Communicator& communicator,
                                 const torch::optim::Optimizer& optimizer, std::size_t numbers,
                                 const std::vector<ExchangeWay>& ways);

}  // namespace asup::sync
