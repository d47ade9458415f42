// How gradients of weights travel in fewer bytes where that takes more than a code for each number
// (kernels/code.h): a choice among them, their shape, something that is kept from step to step. For
// one's own, derive from this, and give AllReduce a function that makes it.
//
// A bucket leaves while backward still runs: leave() starts a collective call. Another may follow,
// when that is done. In the end the memory of the bucket has the average over ranks, or what stands
// for it, to the same bits on all.
//
// Used from one thread at a time.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "asup/collective/communicator.h"
#include "asup/kernels/sparse.h"
#include "asup/layout/layout.h"
#include "asup/sync/model/tensors.h"

namespace asup {

// Of f32, of two dimensions or more and 1,024 numbers or more: what is worth it, and may be a
// little off. Biases and norms are few, and feel it most.
bool is_large_weight(const torch::Tensor& parameter);

class Compressor {
 public:
  virtual ~Compressor() = default;

  // All that ranks must agree on, for the message where they do not: "topk, density 0.001".
  virtual std::string description() const = 0;

  // Whether gradients of this parameter, where it is of f32, are for it. The others travel as they
  // are.
  virtual bool takes(const torch::Tensor& parameter) const { return is_large_weight(parameter); }

  // What is kept from step to step of each of these parameters, in numbers as many as it has: what
  // they are called in a checkpoint, before the parameter's name. They begin with zeros. A step
  // that is dropped leaves them as they were, and where a rank's batches have other sizes, they are
  // scaled with its gradients.
  // The first of them is what is still to be applied: a run that goes on by another way applies its
  // average over ranks then.
  virtual std::vector<std::string> keeps() const { return {}; }

  // Ranks may share it out: which of a bucket's `count` numbers this one keeps.
  virtual layout::Range keeps_of(std::size_t count) const { return {0, count}; }
  // What this rank has kept of a whole bucket comes to lie where it is to be: `own` becomes what
  // all those who share have of keeps_of(), added up. Collective among them.
  virtual void share_out(std::span<float> bucket, std::span<float> own) {
    std::copy(bucket.begin(), bucket.end(), own.begin());
  }
  // What is kept is in units of so many samples, where gradients leave this rank times `own`: their
  // mean over those who share. Collective among them.
  virtual double unit_of(double own) { return own; }

  // Whether what it sends has the momentum of SGD: the optimizer steps without one.
  virtual bool takes_momentum() const { return false; }

  struct Bucket {
    std::size_t index = 0;
    Buffer gradients;                                 // f32, of the tensors, one after the other
    std::span<const layout::Layout::Tensor> tensors;  // `index`: of the parameter
    std::vector<kernels::Kept> kept;                  // one for each of keeps(), of keeps_of()
    double unit = 1;             // gradients are times this number, of samples: unit_of()
    std::uint64_t exchange = 0;  // of the run, 0 first
    // It comes on top of what another backward of this step has left there.
    bool adds = false;
  };
  // The bucket's memory stays as it is for the call, and for what follows it.
  virtual Work leave(const Bucket& bucket) = 0;

  // Its call is done. Starts the next, or has written the average. Where there are several calls
  // for a bucket, those of all buckets come in the same order on all ranks.
  virtual std::optional<Work> arrive(std::size_t bucket) = 0;
  virtual int calls() const { return 1; }  // for a bucket

  // All buckets have arrived, and were applied, or dropped.
  virtual void end_step(bool /*applied*/) {}

  // By communicators of its own.
  virtual std::uint64_t bytes_moved() const { return 0; }

  // What a checkpoint needs of it besides, the same on all ranks. Where a checkpoint has none of
  // it, it stays as it was made.
  virtual std::vector<sync::NamedTensor> state() { return {}; }
};

struct CompressorContext {
  Communicator& communicator;
  const std::vector<sync::NamedTensor>& parameters;  // that are trained
  const torch::optim::Optimizer& optimizer;
  bool again = false;  // since ranks were lost: people have been told what there is to say of it
};
using CompressorFactory = std::function<std::unique_ptr<Compressor>(const CompressorContext&)>;

}  // namespace asup
