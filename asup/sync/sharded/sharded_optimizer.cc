#include "asup/sync/sharded/sharded_optimizer.h"

#include <algorithm>
#include <limits>
#include <map>
#include <typeinfo>
#include <unordered_map>

#include "asup/base/error.h"
#include "asup/optim/fused_step.h"
#include "asup/optim/rule_optimizer.h"
#include "asup/sync/model/device.h"
#include "asup/sync/model/optimizer_state.h"

namespace asup::sync {
namespace {

template <typename... Types>
bool is_one_of(const torch::optim::Optimizer& optimizer) {
  return ((typeid(optimizer) == typeid(Types)) || ...);
}

std::string name_of(const torch::optim::Optimizer& optimizer) {
  return c10::demangle(typeid(optimizer).name());
}

}  // namespace

void require_shardable(const torch::optim::Optimizer& optimizer) {
  require(OptimizerState::knows(optimizer),
          "the state of {} cannot be cut into shards, since nothing is known of it: leave shard "
          "out, or use torch's SGD, RMSprop, Adagrad, Adam or AdamW, or asup's Lars, Lamb or "
          "AsupMomentum",
          name_of(optimizer));
}

bool moves_elements_alone(const torch::optim::Optimizer& optimizer) {
  using namespace torch::optim;
  if (dynamic_cast<const asup::optim::RuleOptimizer*>(&optimizer) == nullptr)
    return is_one_of<SGD, RMSprop, Adagrad, Adam, AdamW>(optimizer);
  const auto& groups = optimizer.param_groups();
  return std::none_of(groups.begin(), groups.end(), [](const OptimizerParamGroup& group) {
    return kernels::needs_whole_tensors(
        dynamic_cast<const asup::optim::RuleOptions&>(group.options()).rule());
  });
}

std::vector<layout::Bucket> one_bucket_a_type(const std::vector<NamedTensor>& parameters) {
  constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  return layout::lay_out(shapes_of(parameters), layout::backwards(parameters.size()),
                         {.bucket_bytes = kAll, .first_bucket_bytes = kAll, .alone_bytes = kAll});
}

// While it lives, the optimizer's groups hold this rank's parts.
class ShardedOptimizer::OwnParts {
 public:
  OwnParts(torch::optim::Optimizer& optimizer, const std::vector<NamedTensor>& parameters,
           const std::vector<torch::Tensor>& parts)
      : optimizer_(optimizer) {
    std::unordered_map<const void*, torch::Tensor> part_of;
    for (std::size_t i = 0; i < parts.size(); ++i)
      if (parts[i].defined()) part_of.emplace(parameters[i].tensor.unsafeGetTensorImpl(), parts[i]);
    for (auto& group : optimizer_.param_groups()) {
      std::vector<torch::Tensor> own;
      for (const torch::Tensor& parameter : group.params())
        if (const auto found = part_of.find(parameter.unsafeGetTensorImpl());
            found != part_of.end())
          own.push_back(found->second);
      whole_.push_back(std::exchange(group.params(), std::move(own)));
    }
  }
  ~OwnParts() {
    for (std::size_t g = 0; g < whole_.size(); ++g)
      optimizer_.param_groups()[g].params() = std::move(whole_[g]);
  }
  OwnParts(const OwnParts&) = delete;
  OwnParts& operator=(const OwnParts&) = delete;

 private:
  torch::optim::Optimizer& optimizer_;
  std::vector<std::vector<torch::Tensor>> whole_;  // by group
};

ShardedOptimizer::ShardedOptimizer(Communicator& communicator, torch::optim::Optimizer& optimizer,
                                   const std::vector<NamedTensor>& parameters,
                                   std::vector<layout::Bucket> buckets)
    : communicator_(communicator),
      optimizer_(optimizer),
      parameters_(communicator, parameters, std::move(buckets), !moves_elements_alone(optimizer)),
      parts_(parameters.size()) {
  require_shardable(optimizer);
  for (const layout::Piece& piece : parameters_.own())
    parts_[piece.tensor] = part_of(parameters[piece.tensor].tensor, piece);
  keep_own_state();
}

ShardedOptimizer::~ShardedOptimizer() {
  for (const torch::Tensor& part : parts_) optimizer_.state().erase(part.unsafeGetTensorImpl());
}

std::vector<torch::Tensor> ShardedOptimizer::tensors() const {
  std::vector<torch::Tensor> tensors;
  for (const auto& [name, tensor] : parameters_.parameters()) tensors.push_back(tensor);
  return tensors;
}

void ShardedOptimizer::keep_own_state() {
  OptimizerState whole(optimizer_, tensors()), own(optimizer_, parts_);
  for (const layout::Piece& piece : parameters_.own()) {
    const auto& [name, parameter] = parameters_.parameters()[piece.tensor];
    std::vector<NamedTensor> state;
    whole.name(piece.tensor, name, state);
    std::map<std::string, torch::Tensor> part;
    for (const auto& [state_name, tensor] : state)
      part.emplace(state_name, tensor.sizes() == parameter.sizes()
                                   ? part_of(lying_as(tensor, parameter), piece)
                                   : tensor);
    own.set(piece.tensor, name, part);
  }
  whole.clear();
}

void ShardedOptimizer::step(const GradientOf& gradient_of) {
  drop_gathered();
  for (const layout::Piece& piece : parameters_.own())
    parts_[piece.tensor].mutable_grad() = gradient_of(piece);
  {
    const OwnParts own(optimizer_, parameters_.parameters(), parts_);
    optim::step(optimizer_);
  }
  for (const layout::Piece& piece : parameters_.own())
    parts_[piece.tensor].mutable_grad() = torch::Tensor();
}

std::vector<NamedTensor> ShardedOptimizer::fetch_state() {
  assemble(/*everywhere=*/false);
  OptimizerState whole(optimizer_, tensors());
  std::vector<NamedTensor> state;
  for (std::size_t i = 0; i < parts_.size(); ++i)
    if (keeper_of(i) == communicator_.rank())
      whole.name(i, parameters_.parameters()[i].name, state);
  whole.clear();
  return state;
}

void ShardedOptimizer::gather_state() {
  assemble(/*everywhere=*/true);
  gathered_ = true;
}

void ShardedOptimizer::drop_gathered() {
  if (std::exchange(gathered_, false)) OptimizerState(optimizer_, tensors()).clear();
}

// The rank that has most of a parameter.
int ShardedOptimizer::keeper_of(std::size_t parameter) const {
  const auto counts = parameters_.counts(parameter);
  return static_cast<int>(std::max_element(counts.begin(), counts.end()) - counts.begin());
}

// The state under the parameters themselves: everywhere, or each at its keeper.
void ShardedOptimizer::assemble(bool everywhere) {
  constexpr std::size_t kKinds = OptimizerState::kMostTensors;
  torch::NoGradGuard no_grad;
  drop_gathered();
  OptimizerState whole(optimizer_, tensors());
  const OptimizerState own(optimizer_, parts_);
  const OptimizerState::Counts all = own.most_counts(communicator_);
  OptimizerState::Counts here = all;
  for (std::size_t i = 0; i < here.size(); ++i)
    if (!everywhere && keeper_of(i / kKinds) != communicator_.rank()) here[i] = 0;
  whole.complete(here);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i] > 0)
      collect(own.tensor(i / kKinds, i % kKinds), whole.tensor(i / kKinds, i % kKinds), i / kKinds,
              everywhere);
}

// One tensor of the state, from what each rank has of it.
void ShardedOptimizer::collect(const torch::Tensor& own, const torch::Tensor& whole,
                               std::size_t parameter, bool everywhere) {
  const torch::Tensor& like = parameters_.parameters()[parameter].tensor;
  const auto on_the_host = torch::dtype(like.scalar_type());
  const auto counts = parameters_.counts(parameter);
  const std::size_t mine = counts[static_cast<std::size_t>(communicator_.rank())];
  // Some optimizers make it in torch's usual order, whatever the parameter's.
  const torch::Tensor leaving = own.defined()
                                    ? flat(lying_as(own, parts_[parameter])).to(torch::kCPU)
                                    : torch::zeros({static_cast<std::int64_t>(mine)}, on_the_host);
  const torch::Tensor arriving = torch::empty({whole.defined() ? whole.numel() : 0}, on_the_host);
  const Outcome outcome =
      everywhere ? communicator_.all_gather(buffer_of(leaving), buffer_of(arriving), counts)
                 : communicator_.gather(buffer_of(leaving), buffer_of(arriving),
                                        keeper_of(parameter), counts);
  outcome.or_throw("gathering the optimizer's state");
  if (whole.defined()) flat(whole).copy_(arriving);
}

}  // namespace asup::sync
