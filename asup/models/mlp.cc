#include "asup/models/mlp.h"

#include "asup/base/error.h"
#include "asup/models/initialise.h"
#include "asup/parallel/pipeline/layers.h"
#include "asup/parallel/tensor/linear.h"
#include "asup/parallel/tensor/regions.h"

namespace asup::models {
namespace {

using parallel::TensorGroup;
using torch::nn::AnyModule;

std::int64_t width_of(const ModelOptions& options) {
  return options.width > 0 ? options.width : 256;
}

// Over a tensor group, layers are cut by columns and by rows in turns.
class Mlp : public Model {
 public:
  explicit Mlp(const ModelOptions& options) : classes_(options.classes) {
    if (options.tensor) group_ = *options.tensor;
    const std::int64_t width = width_of(options);
    const std::int64_t depth = options.depth > 0 ? options.depth : 2;
    std::int64_t features = 1;
    for (const std::int64_t size : options.input_shape) features *= size;
    for (std::int64_t i = 0; i < depth; ++i) {
      layers_.push_back(make_layer(features, width));
      hidden_->push_back(layers_.back().ptr());
      features = width;
    }
    layers_.push_back(make_layer(features, classes_));
    register_module("hidden", hidden_);
    register_module("output", layers_.back().ptr());
    initialise_plain(*this);
  }

  torch::Tensor forward(torch::Tensor input) override {
    const torch::Tensor scores = forward_part(std::move(input));
    return cut_scores() ? parallel::gather_from_region(scores, classes_, *group_) : scores;
  }

  torch::Tensor forward_part(torch::Tensor input) override {
    torch::Tensor x = input.flatten(1);
    for (std::size_t i = 0; i + 1 < layers_.size(); ++i) x = hidden(i, x);
    return layers_.back().forward(x);
  }

  std::optional<CutScores> cut_scores() const override {
    const bool by_columns = layers_.size() % 2 == 1;
    return group_ && by_columns ? std::optional(CutScores{&*group_, classes_}) : std::nullopt;
  }

  std::vector<parallel::Layer> layers() override {
    std::vector<parallel::Layer> layers;
    for (std::size_t i = 0; i < hidden_->size(); ++i) {
      const std::string name = "hidden." + std::to_string(i);
      layers.push_back(
          {name,
           [this, i](const torch::Tensor& x) { return hidden(i, i == 0 ? x.flatten(1) : x); },
           {name}});
    }
    layers.push_back({"output",
                      [this](const torch::Tensor& x) { return layers_.back().forward(x); },
                      {"output"}});
    return layers;
  }

 private:
  torch::Tensor hidden(std::size_t i, const torch::Tensor& x) {
    return torch::relu(layers_[i].forward(x));
  }

  AnyModule make_layer(std::int64_t inputs, std::int64_t outputs) const {
    if (!group_) return AnyModule(parallel::Linear(inputs, outputs));
    if (layers_.size() % 2 == 0)
      return AnyModule(parallel::ColumnParallelLinear(inputs, outputs, *group_));
    return AnyModule(parallel::RowParallelLinear(inputs, outputs, *group_));
  }

  const std::int64_t classes_;
  std::optional<TensorGroup> group_;
  std::vector<AnyModule> layers_;
  torch::nn::ModuleList hidden_;  // all of them but the last
};

}  // namespace

std::shared_ptr<Model> make_mlp(const ModelOptions& options) {
  return std::make_shared<Mlp>(options);
}

void require_parts_of_mlp(const ModelOptions& options, int ranks) {
  const std::int64_t width = width_of(options);
  require(width % ranks == 0,
          "mlp: a width of {} cannot be divided by tensor = {}: choose a width that is a multiple "
          "of it.",
          width, ranks);
  require(options.classes >= ranks,
          "mlp: tensor = {} has more ranks than there are classes, which are {}: lower tensor.",
          ranks, options.classes);
}

}  // namespace asup::models
