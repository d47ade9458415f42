// Gradients that travel as matrices of low rank: PowerSGD (Vogels et al., PowerSGD: practical
// low-rank gradient compression for distributed optimization, NeurIPS 2019).
//
// A weight's gradient, with what was lost of those before it, is a matrix M with a row for each of
// its outputs. Of it travel P = M Q, a few columns, and then M^T P, with the columns of P made
// orthonormal: their product stands for M, and what it is short of is kept for the next step. Q is
// M^T P of the step before: a step of the power iteration each time, which comes to the largest
// directions of gradients that change slowly. Both are averages over ranks, so that the product is
// the best that these columns can say of the average of all M. A rank keeps what these columns
// cannot say of its own M. The paper has it keep what its M is off from the average's product: the
// averages over ranks of both are the same, and nothing else counts. Its own is smaller, and goes
// with its batch.
//
// Any optimizer may follow. Used from one thread at a time.
#pragma once

#include "asup/kernels/low_rank.h"
#include "asup/sync/compressors/compressor.h"

namespace asup::sync {

// `rank`: columns of P and Q. Weights that are no smaller in them than by half travel as they are.
CompressorFactory powersgd(int rank);

class LowRankGradients final : public Compressor {
 public:
  LowRankGradients(Communicator& communicator, const std::vector<NamedTensor>& parameters,
                   int rank);

  std::string description() const override;
  bool takes(const torch::Tensor& parameter) const override;
  std::vector<std::string> keeps() const override { return {""}; }
  Work leave(const Bucket& bucket) override;
  std::optional<Work> arrive(std::size_t bucket) override;
  int calls() const override { return 2; }
  void end_step(bool applied) override;
  std::vector<NamedTensor> state() override;

 private:
  // Of a parameter: Q, of the step before and of this one. Undefined where it has none.
  struct Right {
    torch::Tensor before, after;
  };
  struct Matrix {
    std::size_t parameter = 0, first = 0;  // number of the bucket
    std::size_t left = 0, right = 0;       // where its factors begin, in those of the bucket
  };
  struct Travelling {
    Buffer gradients;
    float* sum = nullptr;  // M, and in the end what is lost
    std::vector<Matrix> matrices;
    std::vector<float> left, right, own;  // factors, and the right ones of this rank's M alone
    bool left_has_come = false;
  };

  kernels::LowRank shape_of(const torch::Tensor& parameter) const;
  kernels::LowRank shape_of(const Matrix& matrix) const;
  void lay_out(Travelling& travelling, const Bucket& bucket) const;
  Work average(std::vector<float>& factors);

  Communicator& communicator_;
  const std::vector<NamedTensor> parameters_;
  const std::size_t rank_;
  std::vector<Right> rights_;  // by parameter
  std::vector<Travelling> buckets_;
};

}  // namespace asup::sync
