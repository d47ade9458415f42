// Gradients in a code that loses much of them, with the momentum of SGD on this side of the
// exchange: momenta are what travels, and what the code loses of them is kept for the next step (S.
// Zheng et al., Communication-efficient distributed blockwise momentum SGD with error-feedback,
// NeurIPS 2019, arXiv:1905.10936).
//
// Used from one thread at a time.
#pragma once

#include "asup/kernels/code.h"
#include "asup/sync/compressors/compressor.h"
#include "asup/sync/compressors/taken_momentum.h"

namespace asup::sync {

struct MomentumCode {
  kernels::Code code = kernels::Code::onebit;
  double clip_norm = 0;  // above 0: of clip_parts()
};

// The optimizer must have a momentum to take (taken_momentum.h).
CompressorFactory coded_momenta(const MomentumCode& how);

class CodedMomenta final : public Compressor {
 public:
  CodedMomenta(Communicator& communicator, const MomentumCode& how, const TakenMomentum& momentum)
      : communicator_(communicator), how_(how), momentum_(momentum) {}

  std::string description() const override;
  std::vector<std::string> keeps() const override;
  bool takes_momentum() const override { return true; }
  Work leave(const Bucket& bucket) override;
  std::optional<Work> arrive(std::size_t) override { return std::nullopt; }

 private:
  void add_momentum(const Bucket& bucket) const;

  Communicator& communicator_;
  const MomentumCode how_;
  const TakenMomentum momentum_;
};

}  // namespace asup::sync
