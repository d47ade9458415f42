#include "asup/sync/gradients/gradient_hooks.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

namespace asup::sync {
namespace {

using torch::autograd::variable_list;

struct Before : torch::autograd::FunctionPreHook {
  Before(const GradientHooks::Callback& callback, std::size_t parameter)
      : callback_(callback), parameter_(parameter) {}
  variable_list operator()(const variable_list& gradients) override {
    callback_(parameter_);
    return gradients;
  }
  const GradientHooks::Callback& callback_;
  std::size_t parameter_;
};

struct After : torch::autograd::FunctionPostHook {
  After(const GradientHooks::Callback& callback, std::size_t parameter)
      : callback_(callback), parameter_(parameter) {}
  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    callback_(parameter_);
    return outputs;
  }
  const GradientHooks::Callback& callback_;
  std::size_t parameter_;
};

}  // namespace

GradientHooks::GradientHooks(const std::vector<NamedTensor>& parameters, Callback before,
                             Callback after)
    : before_(std::move(before)), after_(std::move(after)) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    auto accumulator = torch::autograd::impl::grad_accumulator(parameters[i].tensor);
    auto hook = std::make_unique<Before>(before_, i);
    const void* key = hook.get();
    accumulator->add_pre_hook(std::move(hook));
    const auto after_key = accumulator->add_post_hook(std::make_unique<After>(after_, i));
    hooked_.push_back({std::move(accumulator), key, after_key});
  }
}

GradientHooks::~GradientHooks() {
  for (Hooked& hooked : hooked_) {
    hooked.accumulator->del_post_hook(hooked.after);
    std::erase_if(hooked.accumulator->pre_hooks(),
                  [&](const auto& hook) { return hook.get() == hooked.before; });
  }
}

int GradientHooks::current_backward() { return torch::autograd::get_current_graph_task_id(); }

void GradientHooks::when_backward_ends(std::function<void()> action) {
  torch::autograd::Engine::get_default_engine().queue_callback(std::move(action));
}

}  // namespace asup::sync
