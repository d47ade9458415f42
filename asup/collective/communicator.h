// The interface to collectives on a group of ranks.
//
// Every rank makes the same calls in the same order; a mismatch is found and both calls printed.
// Calls may come from any thread, but one communicator's order of calls is the caller's to keep.
// The plan executor over a mesh (mesh_communicator.h) is one implementation.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "asup/base/buffer.h"
#include "asup/base/clock.h"
#include "asup/base/error.h"
#include "asup/collective/coding.h"
#include "asup/collective/plan/plan.h"

namespace asup {

// A call under way. Copies share it. Dropping it does not cancel the call: the buffers must stay
// until it is done.
class Work {
 public:
  class State {
   public:
    virtual ~State() = default;
    virtual bool done() const = 0;
    virtual Outcome wait() = 0;
  };

  Work() = default;
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

  bool done() const { return !state_ || state_->done(); }
  // Blocks until the call is done or failed; the deadline is the call's own.
  Outcome wait() { return state_ ? state_->wait() : Outcome(); }

 private:
  std::shared_ptr<State> state_;
};

// Waits until all of them are done or failed, since they may share memory; the first failure.
Outcome wait_for_all(std::span<Work> works);

// One call, as this rank makes it.
struct Call {
  collective::Collective collective = collective::Collective::all_reduce;
  Buffer input;
  Buffer output;  // of an all_gather, the input may be this rank's block of it
  ReduceOp op = ReduceOp::sum;
  int root = 0;                     // of a call that has one; the peer of a send or recv
  std::vector<std::size_t> counts;  // blocks, as Spec::counts has them; empty: even
  std::string algorithm;            // empty: chosen
  std::vector<Buffer>
      parts;           // of an all_reduce in place: the input and output, instead of one buffer
  Coding coding{};     // of an all_reduce
  Seconds timeout{0};  // zero: the communicator's
  // Whenever the call has taken so long again, the others are asked where they are, and it ends as
  // late where one does not answer within as long; at its deadline nobody is asked any more. Zero:
  // they are asked at the deadline alone.
  Seconds silence{0};
};

// Memory that links reach directly where all ranks share a host. Freed with its owner, on each rank
// by itself.
class SharedMemory {
 public:
  virtual ~SharedMemory() = default;
  virtual std::span<std::byte> bytes() = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Starts a call; it runs beside the caller.
  virtual Work start(Call call) = 0;
  // Runs a call on the caller's own thread where the mesh is idle.
  virtual Outcome run(Call call) = 0;

  // Zeroed memory for buffers of collectives, aligned to 4096 bytes. Collective: all ranks call it,
  // in the same order as other calls.
  virtual std::unique_ptr<SharedMemory> allocate(std::size_t bytes) = 0;

  // A communicator of the ranks that pass the same `color` (>= 0), ordered by `key`, then by rank;
  // null on ranks that pass a negative color. Collective.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;

  // After a call has failed because a member was lost, or left, or came too late: the members that
  // are still there agree on who is left and go on, in the same order, as a group of their own,
  // with new ranks. Every one of them calls it; a call under way ends with an outcome that says so.
  // What was sent before is dropped. Not ok: this rank was left out, or others did not come before
  // the deadline (zero: the communicator's own); then it is still broken, and may be tried again.
  virtual Outcome rebuild(Seconds timeout = Seconds(0)) = 0;

  // This rank will come to no further call: those who are in one with it, now or later, end as late
  // at once instead of waiting. It is broken then, as after a failure.
  virtual void abandon() = 0;

  // Bytes this rank has sent to peers or written into and read out of their memory, so far.
  virtual std::uint64_t bytes_moved() const = 0;

  Outcome all_reduce(Buffer data, ReduceOp op = ReduceOp::sum);
  Work start_all_reduce(Buffer data, ReduceOp op = ReduceOp::sum, Coding coding = {});
  // Many buffers of one dtype as if they were one: they are copied together, reduced by one call,
  // and copied back. As many small calls cost many times as much.
  Outcome all_reduce_together(std::vector<Buffer> parts, ReduceOp op = ReduceOp::sum);
  Work start_all_reduce_together(std::vector<Buffer> parts, ReduceOp op = ReduceOp::sum);
  Outcome reduce_scatter(Buffer input, Buffer output, ReduceOp op = ReduceOp::sum,
                         std::vector<std::size_t> counts = {});
  Outcome all_gather(Buffer input, Buffer output, std::vector<std::size_t> counts = {});
  Outcome broadcast(Buffer data, int root = 0);
  // The root's data becomes the reduction of all; the others keep theirs.
  Outcome reduce(Buffer data, int root = 0, ReduceOp op = ReduceOp::sum);
  // `output` counts on the root alone. Without `counts`, all blocks are of input's size.
  Outcome gather(Buffer input, Buffer output, int root = 0, std::vector<std::size_t> counts = {});
  // `input` counts on the root alone. Without `counts`, all blocks are of output's size.
  Outcome scatter(Buffer input, Buffer output, int root = 0, std::vector<std::size_t> counts = {});
  // The input is cut into a block for each rank, of one size where the count can be divided, else
  // the first ones longer by one; the output is the blocks from each.
  Outcome all_to_all(Buffer input, Buffer output);
  // The same with blocks of any size: `leaving[r]` elements to rank r, `arriving[r]` from it. Ranks
  // tell each other the sizes first. Throws BadInput on all of them where they do not match.
  Outcome all_to_all_v(Buffer input, std::vector<std::size_t> leaving, Buffer output,
                       std::vector<std::size_t> arriving);
  Outcome barrier();
  Outcome send(Buffer data, int peer);
  Outcome recv(Buffer data, int peer);
  Work start_send(Buffer data, int peer);
  Work start_recv(Buffer data, int peer);
};

}  // namespace asup
