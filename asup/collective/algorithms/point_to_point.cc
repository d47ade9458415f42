#include "asup/collective/algorithms/point_to_point.h"

#include "asup/base/error.h"
#include "asup/collective/plan/build.h"

namespace asup::collective {
namespace {

void require_peer(int rank, const Spec& spec) {
  require(rank != spec.root, "rank {} cannot {} itself; name another rank", rank,
          spec.collective == Collective::send ? "send to" : "receive from");
}

}  // namespace

Plan send_message(int rank, const Spec& spec) {
  require_peer(rank, spec);
  return {.lanes = {{{send(spec.root, in(0, spec.count))}}}, .scratch = 0};
}

Plan recv_message(int rank, const Spec& spec) {
  require_peer(rank, spec);
  return {.lanes = {{{recv(spec.root, out(0, spec.count))}}}, .scratch = 0};
}

}  // namespace asup::collective
