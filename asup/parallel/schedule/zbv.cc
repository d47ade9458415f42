#include "asup/parallel/schedule/zbv.h"

#include <algorithm>

namespace asup::parallel {
namespace {

// Writes the next micro-batch of each kind of pass through each chunk.
class Writer {
 public:
  Writer(int rank, const PipelineSpec& spec)
      : stages_{rank, spec.stages() - 1 - rank}, micro_batches_(spec.micro_batches) {}

  void forward(int chunk) { add(Action::Op::forward, chunk, forwards_[chunk]++); }
  void input(int chunk) { add(Action::Op::backward_input, chunk, inputs_[chunk]++); }
  void weight(int chunk) { add(Action::Op::backward_weight, chunk, weights_[chunk]++); }
  void backward(int chunk) {
    input(chunk);
    weight(chunk);
  }

  int forwards(int chunk) const { return forwards_[chunk]; }
  bool owes_weight(int chunk) const { return weights_[chunk] < inputs_[chunk]; }
  Schedule take() { return std::move(actions_); }

 private:
  // Micro-batches that the step does not have are left out.
  void add(Action::Op op, int chunk, int micro_batch) {
    if (micro_batch < micro_batches_) actions_.push_back({op, stages_[chunk], micro_batch});
  }

  const int stages_[2];
  const int micro_batches_;
  int forwards_[2] = {}, inputs_[2] = {}, weights_[2] = {};
  Schedule actions_;
};

}  // namespace

Schedule zbv(int rank, const PipelineSpec& spec) {
  const int behind = spec.ranks - rank;
  // The pattern needs so many to be whole; with fewer, it is that of more with gaps.
  const int micro_batches = std::max(spec.micro_batches, 2 * spec.ranks - 1);
  Writer write(rank, spec);
  // Down the V, until the first micro-batch comes up again.
  for (int i = 0; i < 2 * behind - 1; ++i) write.forward(0);
  for (int i = 0; i < rank; ++i) {
    write.forward(1);
    write.forward(0);
  }
  for (int i = 0; i < behind; ++i) {
    write.forward(1);
    write.backward(1);
  }
  while (write.forwards(1) < write.forwards(0) || write.forwards(0) < micro_batches) {
    if (write.forwards(0) < micro_batches) write.forward(0);
    write.backward(0);
    write.forward(1);
    write.backward(1);
  }
  // What others wait for comes first; weights fill the gaps and the end.
  for (int i = 0; i < rank; ++i) {
    write.input(0);
    write.input(1);
  }
  for (int i = 0; i < behind; ++i) {
    write.input(0);
    write.weight(0);
  }
  while (write.owes_weight(1)) write.weight(1);
  while (write.owes_weight(0)) write.weight(0);
  return write.take();
}

int zbv_activations(int rank, const PipelineSpec& spec) {
  const int most = std::min(2 * spec.ranks, 2 * spec.micro_batches);
  return std::min(most, spec.micro_batches + rank + 1);  // of a pattern with gaps
}

}  // namespace asup::parallel
