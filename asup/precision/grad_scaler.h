// Keeps small gradients from becoming zero where backward computes in fp16: the loss is multiplied
// by a large number, and each gradient is divided by it as it comes to its parameter, in f32.
//
//   asup::GradScaler scaler(model->parameters());
//   ...
//   scaler.scale(loss).backward();   // gradients come as if the loss had not been scaled
//   scaler.step(*replica);           // or of an optimizer, without a job
//
// So whatever follows has gradients as they are: the exchange, compression, clipping, metrics.
// Where they have become infinite, the step is left out, by all workers alike where gradients are
// exchanged and else by this one, and the number is halved; after many steps without that it is
// doubled. Workers may have numbers of their own.
//
// Used from the thread that trains; gradients come on autograd's threads.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "asup/sync/replica.h"

namespace asup {

struct GradScalerOptions {
  double first = 65536;                 // what the loss is multiplied by at first
  double growth = 2;                    // it is multiplied by this
  double backoff = 0.5;                 // or by this
  std::int64_t growth_interval = 2000;  // after so many steps without an infinite gradient
};

// For a checkpoint: with it, a scaler goes on as another would have.
struct GradScalerState {
  double scale = 0;
  std::int64_t steps_since_change = 0;

  // "65536 after 12 steps", for TrainingProgress::notes.
  std::string to_text() const;
  // Throws BadInput for text of another form.
  static GradScalerState from_text(const std::string& text);
  bool operator==(const GradScalerState&) const = default;
};

class GradScaler {
 public:
  // Of parameters that have gradients. Throws BadInput for options that no scale can follow.
  explicit GradScaler(std::vector<torch::Tensor> parameters, const GradScalerOptions& options = {});
  ~GradScaler();
  GradScaler(const GradScaler&) = delete;
  GradScaler& operator=(const GradScaler&) = delete;

  // To call backward() of.
  torch::Tensor scale(const torch::Tensor& loss) const { return loss * state_.scale; }
  double scale() const { return state_.scale; }
  // `through` itself, whose gradient goes on to something else than these parameters, as rows of an
  // EmbeddingTable do: there too it comes as if the loss had not been scaled. The scaler must live
  // until backward.
  torch::Tensor unscaled(const torch::Tensor& through) const;

  // The replica's step, and update() by what became of this worker's gradients.
  StepResult step(Replica& replica);
  // The same without a job: this optimizer's step, unless a gradient is infinite or NaN.
  StepResult step(torch::optim::Optimizer& optimizer);
  // After each step that was taken, or left out.
  void update(StepResult result);

  GradScalerState state() const { return state_; }
  // Throws BadInput for a scale that is no number above 0.
  void restore(const GradScalerState& state);

 private:
  const std::vector<torch::Tensor> parameters_;
  const GradScalerOptions options_;
  GradScalerState state_;
  std::vector<unsigned> hooks_;  // of the parameters
};

}  // namespace asup
