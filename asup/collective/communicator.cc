#include "asup/collective/communicator.h"

namespace asup {

using collective::Collective;

namespace {

Call call_of(Collective collective, Buffer input, Buffer output) {
  Call call;
  call.collective = collective;
  call.input = input;
  call.output = output;
  return call;
}

Call reduction(Buffer data, ReduceOp op) {
  Call call = call_of(Collective::all_reduce, data, data);
  call.op = op;
  return call;
}

Call to_peer(Collective collective, Buffer data, int peer) {
  Call call = call_of(collective, data, data);
  call.root = peer;
  return call;
}

}  // namespace

Outcome Communicator::all_reduce(Buffer data, ReduceOp op) { return run(reduction(data, op)); }

Work Communicator::start_all_reduce(Buffer data, ReduceOp op) { return start(reduction(data, op)); }

Outcome Communicator::reduce_scatter(Buffer input, Buffer output, ReduceOp op,
                                     std::vector<std::size_t> counts) {
  Call call = call_of(Collective::reduce_scatter, input, output);
  call.op = op;
  call.counts = std::move(counts);
  return run(std::move(call));
}

Outcome Communicator::all_gather(Buffer input, Buffer output, std::vector<std::size_t> counts) {
  Call call = call_of(Collective::all_gather, input, output);
  call.counts = std::move(counts);
  return run(std::move(call));
}

Outcome Communicator::broadcast(Buffer data, int root) {
  Call call = call_of(Collective::broadcast, data, data);
  call.root = root;
  return run(std::move(call));
}

Outcome Communicator::barrier() { return run(call_of(Collective::barrier, {}, {})); }

Outcome Communicator::send(Buffer data, int peer) {
  return run(to_peer(Collective::send, data, peer));
}

Outcome Communicator::recv(Buffer data, int peer) {
  return run(to_peer(Collective::recv, data, peer));
}

Work Communicator::start_send(Buffer data, int peer) {
  return start(to_peer(Collective::send, data, peer));
}

Work Communicator::start_recv(Buffer data, int peer) {
  return start(to_peer(Collective::recv, data, peer));
}

}  // namespace asup
