#include "asup/sync/model/unshared.h"

#include "asup/sync/model/buffer_exchange.h"

namespace asup::sync {

std::string_view name_of(Unshared values) {
  switch (values) {
    case Unshared::average:
      return "average";
    case Unshared::first:
      return "first";
    case Unshared::own:
      return "own";
  }
  return "?";
}

void settle_unshared(Communicator& workers, const std::vector<NamedTensor>& tensors,
                     Unshared values) {
  if (tensors.empty() || values == Unshared::own) return;
  if (values == Unshared::first)
    broadcast_packed(workers, tensors);
  else
    average_packed(workers, tensors);
}

}  // namespace asup::sync
