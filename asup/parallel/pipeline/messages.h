// What travels between the ranks of a pipeline in a step: activations and their gradients, by the
// point-to-point calls of a communicator.
//
// Between two ranks messages arrive in the order in which they were sent, which may be another than
// that in which they are needed. Every rank knows all schedules: it posts its receives in the order
// of the sender, some ahead of where they are needed, and keeps what came early. Before the first
// activation that enters a stage in a step goes its shape; all others of the step are alike, and so
// are their gradients.
//
// Used from the thread that trains; bytes move beside it.
#pragma once

#include <torch/torch.h>

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "asup/base/buffer.h"
#include "asup/collective/communicator.h"
#include "asup/parallel/schedule/schedule.h"
#include "asup/tensors/tensors.h"

namespace asup::parallel {

// Shape and type of a tensor, as they travel.
class TensorHead {
 public:
  static constexpr std::size_t kMostDimensions = 8;
  static constexpr std::int64_t kMostElements = std::int64_t{1} << 40;

  TensorHead() = default;
  // Throws BadInput for more dimensions than that.
  explicit TensorHead(const torch::Tensor& tensor);

  // Of one that has come: what no tensor has, "" where a tensor may have all of it.
  std::string fault() const;
  // Throws JobFailed, which names the rank that it is from, where there is a fault.
  void require_sound(std::string_view doing, int from) const;
  torch::Tensor empty() const;  // on the CPU; needs: no fault()
  Buffer buffer() { return buffer_of(std::span(values_)); }
  bool operator==(const TensorHead&) const = default;

 private:
  std::array<std::int64_t, kMostDimensions + 2> values_{};  // type, dimensions, sizes
};

// A tensor of any shape, to who waits for one. `doing`: for messages.
void send_tensor(Communicator& communicator, const torch::Tensor& tensor, int to,
                 const std::string& doing);
torch::Tensor recv_tensor(Communicator& communicator, int from, const std::string& doing);

class Messages {
 public:
  // `schedules`: of all ranks. The communicator must outlive it.
  Messages(Communicator& communicator, const PipelineSpec& spec,
           const std::vector<Schedule>& schedules);
  // Where messages are under way, the communicator is given up.
  ~Messages();
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  // A step begins, with the messages of the schedules.
  void begin(std::int64_t step);
  // The same messages come once more, of micro-batches that are counted from `first` on, and the
  // step goes on. needs: between two ranks, messages of one kind in each direction
  void expect(int first);
  // The tensor leaves beside what follows. All of these throw JobFailed, which names the rank that
  // was lost or late, and the micro-batch.
  void send(const Action& action, const torch::Tensor& tensor);
  // Waits for it.
  torch::Tensor recv(const Action& action);
  // Posts some of the receives to come, as far as their shapes are known.
  void post();
  // How many have come that recv() has not been asked for.
  std::int64_t early() const;
  // All has left.
  void end();

 private:
  using Key = std::tuple<Action::Op, int, int>;
  struct Incoming {
    Action action;        // the recv
    bool begins = false;  // its shape comes before it
  };
  struct Peer {
    int rank = 0;
    std::vector<Incoming> messages;   // of the schedules, in the order they are sent
    std::deque<Incoming> expected{};  // not posted yet
    // The shape that comes next; its memory stays where it is.
    struct ExpectedHead {
      TensorHead head;
      Work work;
    };
    std::unique_ptr<ExpectedHead> head;
  };
  struct Posted {
    torch::Tensor tensor;
    Work work;
  };
  struct Sent {
    torch::Tensor tensor;
    std::unique_ptr<TensorHead> head;
    Work work;
    Action action;
  };

  static Key key_of(const Action& action) { return {action.op, action.stage, action.micro_batch}; }
  std::string doing(const Action& action) const;
  bool post_next(Peer& peer, bool waits);
  bool has_room(const Peer& peer) const;
  const TensorHead* head_of(const Action& recv) const;
  void forget_sent();

  // Constant after construction.
  Communicator& communicator_;
  const PipelineSpec spec_;
  std::vector<Peer> peers_;  // those that anything comes from; `expected` and `head` change

  // Of the step under way.
  std::int64_t step_ = 0;
  std::map<Key, Posted> posted_;
  std::map<int, TensorHead> entering_, leaving_;  // activations, by stage
  std::deque<Sent> sent_;
};

}  // namespace asup::parallel
