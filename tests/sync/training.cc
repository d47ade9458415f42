#include "tests/sync/training.h"

namespace asup::testing {

void train_ranks(int ranks, net::LinkKind links, const std::function<void(Communicator&)>& body) {
  torch::set_num_threads(1);
  run_ranks(ranks, links, [&](Job& job) {
    CommunicatorOptions options;
    options.timeout = testing::kPatience;
    const auto communicator = make_communicator(job, options);
    body(*communicator);
  });
}

torch::Tensor numbers(torch::IntArrayRef shape, std::uint64_t seed, torch::ScalarType type) {
  auto generator = at::detail::createCPUGenerator(seed);
  return torch::randn(shape, generator).to(type);
}

void fill(torch::nn::Module& module, std::uint64_t seed) {
  torch::NoGradGuard no_grad;
  for (auto& parameter : module.parameters())
    parameter.copy_(0.3 * numbers(parameter.sizes(), seed++, parameter.scalar_type()));
}

Batch part(const Batch& batch, int r, int n) {
  const auto take = [&](const torch::Tensor& all) {
    const std::int64_t begin = all.size(0) * r / n, end = all.size(0) * (r + 1) / n;
    return all.narrow(0, begin, end - begin);
  };
  return {take(batch.data), take(batch.target)};
}

Mlp::Mlp(std::int64_t width, torch::ScalarType type)
    : first(register_module("first", torch::nn::Linear(8, width))),
      second(register_module("second", torch::nn::Linear(width, width))),
      third(register_module("third", torch::nn::Linear(width, 4))) {
  to(type);
  fill(*this, 1);
}

torch::Tensor Mlp::forward(const torch::Tensor& x) {
  return third(torch::tanh(second(torch::tanh(first(x)))));
}

Batch Mlp::batch(std::uint64_t seed, std::int64_t size, torch::ScalarType type) {
  return {numbers({size, 8}, 2 * seed + 1000, type), numbers({size, 4}, 2 * seed + 1001, type)};
}

Cnn::Cnn()
    : conv1(register_module("conv1",
                            torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 6, 3).padding(1)))),
      conv2(
          register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(6, 8, 3).stride(2)))),
      out(register_module("out", torch::nn::Linear(8 * 3 * 3, 4))) {
  fill(*this, 2);
}

torch::Tensor Cnn::forward(const torch::Tensor& x) {
  return out(torch::relu(conv2(torch::relu(conv1(x)))).flatten(1));
}

Batch Cnn::batch(std::uint64_t seed) {
  return {numbers({24, 2, 8, 8}, 2 * seed + 2000), numbers({24, 4}, 2 * seed + 2001)};
}

std::vector<torch::Tensor> snapshot(const torch::nn::Module& module) {
  std::vector<torch::Tensor> copies;
  for (const auto& parameter : module.parameters()) copies.push_back(parameter.detach().clone());
  return copies;
}

double distance(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const auto x = a[i].to(torch::kFloat64), y = b[i].to(torch::kFloat64);
    difference += (x - y).square().sum().item<double>();
    size += y.square().sum().item<double>();
  }
  return std::sqrt(difference / size);
}

}  // namespace asup::testing
