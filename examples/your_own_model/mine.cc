// A model and a data set that asup does not have, for `asup train --model ./libmine.so --data
// ./libmine.so`: two spirals are wound around each other, and a network tells which one a point is
// on.
#include <asup/data/plugin.h>
#include <asup/models/plugin.h>

#include <numbers>

namespace {

class Spirals : public asup::data::Dataset {
 public:
  explicit Spirals(asup::data::Split split) {
    const bool train = split == asup::data::Split::train;
    const std::int64_t count = train ? 2000 : 500;
    // The same points in every process: the generator is this data set's own.
    auto random = at::make_generator<at::CPUGeneratorImpl>(train ? 1 : 2);
    labels_ = torch::arange(count) % 2;
    const auto turn = torch::rand({count}, random) * 2 * std::numbers::pi;
    const auto angle = turn + labels_ * std::numbers::pi;
    points_ = torch::stack({turn * angle.cos(), turn * angle.sin()}, 1) / std::numbers::pi;
    points_ += 0.05 * torch::randn({count, 2}, random);
  }

  std::size_t size() const override { return static_cast<std::size_t>(labels_.size(0)); }
  std::vector<std::int64_t> input_shape() const override { return {2}; }
  int classes() const override { return 2; }
  std::string name() const override { return "spirals"; }

 private:
  asup::data::Batch assemble(std::span<const std::int64_t> indices,
                             std::uint64_t /*epoch*/) const override {
    const auto chosen = torch::tensor(at::ArrayRef(indices.data(), indices.size()), torch::kInt64);
    return {points_.index_select(0, chosen), labels_.index_select(0, chosen)};
  }

  torch::Tensor points_, labels_;
};

class Network : public asup::models::Model {
 public:
  explicit Network(const asup::models::ModelOptions& options) {
    const std::int64_t width = options.width > 0 ? options.width : 64;
    const std::int64_t features = c10::multiply_integers(options.input_shape);
    first_ = register_module("first", torch::nn::Linear(features, width));
    second_ = register_module("second", torch::nn::Linear(width, width));
    output_ = register_module("output", torch::nn::Linear(width, options.classes));
  }

  torch::Tensor forward(torch::Tensor input) override {
    const auto x = torch::silu(first_->forward(input.flatten(1)));
    return output_->forward(x + torch::silu(second_->forward(x)));
  }

 private:
  torch::nn::Linear first_{nullptr}, second_{nullptr}, output_{nullptr};
};

std::unique_ptr<asup::data::Dataset> open_spirals(asup::data::Split split,
                                                  const asup::data::DatasetOptions& /*options*/) {
  return std::make_unique<Spirals>(split);
}

std::shared_ptr<asup::models::Model> make_network(const asup::models::ModelOptions& options) {
  return std::make_shared<Network>(options);
}

}  // namespace

ASUP_DATASET(open_spirals);
ASUP_MODEL(make_network);
