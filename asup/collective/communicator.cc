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

Call reduction(std::vector<Buffer> parts, ReduceOp op) {
  Call call = reduction(Buffer(), op);
  call.parts = std::move(parts);
  return call;
}

Call to_peer(Collective collective, Buffer data, int peer) {
  Call call = call_of(collective, data, data);
  call.root = peer;
  return call;
}

// With a root, where one side may have no buffer: nothing is of the other's dtype.
Call rooted(Collective collective, Buffer input, Buffer output, int root,
            std::vector<std::size_t> counts) {
  if (!input.data && input.count == 0) input.dtype = output.dtype;
  if (!output.data && output.count == 0) output.dtype = input.dtype;
  Call call = call_of(collective, input, output);
  call.root = root;
  call.counts = std::move(counts);
  return call;
}

// What every rank says in an all_to_all_v: to each how much leaves, and how much comes from each.
class Announcements {
 public:
  explicit Announcements(int ranks)
      : ranks_(static_cast<std::size_t>(ranks)), values_(ranks_ * ranks_ * 2) {}

  Buffer buffer() { return buffer_of(std::span(values_)); }
  std::size_t leaving(std::size_t from, std::size_t to) const { return at(from, to); }
  std::size_t arriving(std::size_t to, std::size_t from) const { return at(to, ranks_ + from); }

  void require_agreement() const {
    for (std::size_t from = 0; from < ranks_; ++from) {
      for (std::size_t to = 0; to < ranks_; ++to) {
        require(leaving(from, to) == arriving(to, from),
                "all_to_all_v: rank {} sends {} elements to rank {}, which expects {}; `arriving` "
                "of the one must be `leaving` of the other",
                from, leaving(from, to), to, arriving(to, from));
      }
    }
  }

  std::vector<std::size_t> matrix() const {
    std::vector<std::size_t> counts;
    for (std::size_t from = 0; from < ranks_; ++from)
      for (std::size_t to = 0; to < ranks_; ++to) counts.push_back(leaving(from, to));
    return counts;
  }

 private:
  std::size_t at(std::size_t rank, std::size_t column) const {
    return static_cast<std::size_t>(values_[rank * ranks_ * 2 + column]);
  }

  std::size_t ranks_;
  std::vector<std::int64_t> values_;
};

// Refuses what this rank can see for itself, before any other is told of it.
void require_blocks(const char* which, const std::vector<std::size_t>& blocks, int ranks,
                    const Buffer& buffer) {
  require(blocks.size() == static_cast<std::size_t>(ranks),
          "all_to_all_v among {} ranks got {} sizes of {} blocks; give one for each rank", ranks,
          blocks.size(), which);
  std::size_t room = buffer.count;
  for (const std::size_t block : blocks) {
    require(block <= room, "all_to_all_v: the {} blocks are more than their buffer's {} elements",
            which, buffer.count);
    room -= block;
  }
}

}  // namespace

Outcome wait_for_all(std::span<Work> works) {
  Outcome failure;
  for (Work& work : works) {
    Outcome outcome = work.wait();
    if (failure.ok()) failure = std::move(outcome);
  }
  return failure;
}

Outcome Communicator::all_reduce(Buffer data, ReduceOp op) { return run(reduction(data, op)); }

Work Communicator::start_all_reduce(Buffer data, ReduceOp op, Coding coding) {
  Call call = reduction(data, op);
  call.coding = coding;
  return start(std::move(call));
}

Outcome Communicator::all_reduce_together(std::vector<Buffer> parts, ReduceOp op) {
  return run(reduction(std::move(parts), op));
}

Work Communicator::start_all_reduce_together(std::vector<Buffer> parts, ReduceOp op) {
  return start(reduction(std::move(parts), op));
}

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

Outcome Communicator::reduce(Buffer data, int root, ReduceOp op) {
  Call call = call_of(Collective::reduce, data, data);
  call.root = root;
  call.op = op;
  return run(std::move(call));
}

Outcome Communicator::gather(Buffer input, Buffer output, int root,
                             std::vector<std::size_t> counts) {
  return run(rooted(Collective::gather, input, output, root, std::move(counts)));
}

Outcome Communicator::scatter(Buffer input, Buffer output, int root,
                              std::vector<std::size_t> counts) {
  return run(rooted(Collective::scatter, input, output, root, std::move(counts)));
}

Outcome Communicator::all_to_all(Buffer input, Buffer output) {
  return run(call_of(Collective::all_to_all, input, output));
}

Outcome Communicator::all_to_all_v(Buffer input, std::vector<std::size_t> leaving, Buffer output,
                                   std::vector<std::size_t> arriving) {
  require_blocks("leaving", leaving, size(), input);
  require_blocks("arriving", arriving, size(), output);
  std::vector<std::int64_t> mine(leaving.begin(), leaving.end());
  mine.insert(mine.end(), arriving.begin(), arriving.end());
  Announcements all(size());
  const Outcome told = all_gather(buffer_of(std::span(mine)), all.buffer());
  if (!told.ok()) return told;
  all.require_agreement();
  Call call = call_of(Collective::all_to_all, input, output);
  call.counts = all.matrix();
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
