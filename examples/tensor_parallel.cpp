// A model that several processes compute together, each with a part of its layers. It learns to
// tell the sum of three numbers, from 0 to 31 each.
//
//   asup run -n 2 -- build/release/examples/tensor_parallel [steps]
//
// The losses are those of one process, with the same seed: asup run -n 1 shows them.
#include <asup/asup.h>

#include <iostream>

namespace {

using asup::parallel::TensorGroup;
using torch::Tensor;

constexpr std::int64_t kNumbers = 32, kSums = 3 * kNumbers - 2, kWidth = 256;

struct AdderImpl : torch::nn::Module {
  explicit AdderImpl(const TensorGroup& of)
      : group(of),
        vectors(
            register_module("vectors", asup::parallel::ParallelEmbedding(kNumbers, kWidth, group))),
        up(register_module("up",
                           asup::parallel::ColumnParallelLinear(3 * kWidth, 4 * kWidth, group))),
        down(register_module("down", asup::parallel::RowParallelLinear(4 * kWidth, kWidth, group))),
        out(register_module("out", asup::parallel::ColumnParallelLinear(kWidth, kSums, group))) {}

  // The scores of this process's part of the sums.
  Tensor forward(const Tensor& numbers) {
    const Tensor x = vectors(numbers).flatten(1);  // whole, on each process
    const Tensor y = torch::gelu(up(x));           // a part of it on each
    return out(torch::gelu(down(y)));              // down() adds the parts up
  }

  TensorGroup group;
  asup::parallel::ParallelEmbedding vectors;
  asup::parallel::ColumnParallelLinear up;
  asup::parallel::RowParallelLinear down;
  asup::parallel::ColumnParallelLinear out;
};
TORCH_MODULE(Adder);

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::stoi(argv[1]) : 300;
  auto job = asup::Job::join();
  const TensorGroup group(asup::make_communicator(job, asup::Strategy()));
  torch::manual_seed(1);  // the same weights, samples and dropout on all of them
  Adder model(group);
  torch::optim::Adam optimizer(model->parameters());  // each process steps its own part
  for (int step = 1; step <= steps; ++step) {
    const Tensor numbers = torch::randint(kNumbers, {64, 3}, torch::kLong);
    optimizer.zero_grad();
    const Tensor loss =
        asup::parallel::parallel_cross_entropy(model(numbers), numbers.sum(1), kSums, group).mean();
    loss.backward();
    optimizer.step();
    if (job.rank() == 0 && (step % 50 == 0 || step == 1))
      std::cout << "step " << step << ": loss " << loss.item<double>() << std::endl;
  }
}
