#include "asup/sync/sharded/operand_watch.h"

#include <vector>

namespace asup::sync {
namespace {

// torch takes a callback that is a plain function: what belongs to it is the thread's.
struct OfThread {
  std::vector<OperandWatch::Listener*> listeners;
  at::CallbackHandle callback = 0;
  // Of operators under way: of the program, and of each node of a backward under way, which itself
  // runs inside of an operator.
  std::vector<int> depths;
};

OfThread& of_thread() {
  thread_local OfThread state;
  return state;
}

bool is_node(const at::RecordFunction& function) {
  return function.scope() == at::RecordScope::BACKWARD_FUNCTION;
}

// Torch takes callbacks along to threads that work for this one, where nobody listens.
std::unique_ptr<at::ObserverContext> begins(const at::RecordFunction& function) {
  OfThread& here = of_thread();
  if (here.listeners.empty()) return nullptr;
  if (is_node(function)) {
    here.depths.push_back(0);
    return nullptr;
  }
  const bool nested = here.depths.back()++ > 0;
  for (OperandWatch::Listener* listener : here.listeners)
    listener->before(function.inputs(), nested);
  return nullptr;
}

void ends(const at::RecordFunction& function, at::ObserverContext*) {
  OfThread& here = of_thread();
  if (here.listeners.empty()) return;
  if (is_node(function))
    here.depths.pop_back();
  else
    --here.depths.back();
}

}  // namespace

OperandWatch::OperandWatch(Listener& listener) : listener_(listener) {
  OfThread& here = of_thread();
  here.listeners.push_back(&listener_);
  if (here.listeners.size() > 1) return;
  here.depths = {0};
  here.callback = at::addThreadLocalCallback(
      at::RecordFunctionCallback(begins, ends)
          .needsInputs(true)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

OperandWatch::~OperandWatch() {
  OfThread& here = of_thread();
  std::erase(here.listeners, &listener_);
  if (here.listeners.empty()) at::removeCallback(here.callback);
}

void for_each_tensor(OperandWatch::Operands operands,
                     const std::function<void(const torch::Tensor&)>& use) {
  for (const c10::IValue& operand : operands) {
    if (operand.isTensor())
      use(operand.toTensor());
    else if (operand.isTensorList())
      for (const torch::Tensor& each : operand.toTensorVector()) use(each);
    else if (operand.isList())
      for (const c10::IValue& each : operand.toList().vec())
        if (each.isTensor()) use(each.toTensor());
  }
}

}  // namespace asup::sync
