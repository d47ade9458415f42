#include "asup/distribute/torch_operators.h"

#include <ATen/record_function.h>

#include <memory>

#include "asup/base/timeline.h"

namespace asup {
namespace {

struct Began : at::ObserverContext {
  Clock::time_point at = Clock::now();
};

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction&) {
  if (!TimelineThread::current()) return nullptr;
  return std::make_unique<Began>();
}

void end(const at::RecordFunction& function, at::ObserverContext* context) {
  TimelineThread* const thread = TimelineThread::current();
  if (!thread || !context) return;
  TimelineTrack& track = thread->operations();
  record_span(track, Activity::operation, static_cast<const Began*>(context)->at, thread->labels(),
              track.keep(function.name()));
}

std::uint64_t begin_to_watch() {
  at::RecordFunctionCallback callback(begin, end);
  callback.scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION});
  return at::addThreadLocalCallback(callback);
}

}  // namespace

TorchOperators::TorchOperators() : handle_(begin_to_watch()) {}

TorchOperators::~TorchOperators() { at::removeCallback(handle_); }

}  // namespace asup
