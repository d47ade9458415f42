#include "asup/parallel/tensor/saved_group.h"

#include "asup/base/error.h"

namespace asup::parallel {
namespace {

struct HeldGroup : torch::CustomClassHolder {
  explicit HeldGroup(TensorGroup of) : group(std::move(of)) {}
  TensorGroup group;
};

}  // namespace

c10::IValue held(const TensorGroup& group) {
  return c10::IValue::make_capsule(c10::make_intrusive<HeldGroup>(group));
}

TensorGroup held_group(const c10::IValue& value) {
  const auto capsule = value.toCapsule();
  return static_cast<const HeldGroup&>(*capsule).group;
}

void refuse_second_derivative(const char* what) {
  check(!torch::GradMode::is_enabled(),
        "{} has no second derivative: call backward without create_graph", what);
}

}  // namespace asup::parallel
