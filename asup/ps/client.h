// A worker's side of the parameter server: pushes gradients, gets parameters and work.
//
//   Client client(group, setup, ranges, timeout);
//   … fill client.parameters() on the worker that provides the first ones …
//   client.begin(provides);
//   for (client.arrive();;) {
//     Release release = client.wait();          // the parameters are those of release.version
//     … backward; as gradients complete: client.push(range, gradient); …
//     client.commit(figures, lr);
//   }
//
// push() may be called from any thread, one at a time; all else is for the thread that trains.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "asup/net/member_group.h"
#include "asup/net/transport/messenger.h"
#include "asup/ps/coded_parts.h"
#include "asup/ps/message.h"
#include "asup/ps/server_setup.h"

namespace asup::ps {

class Client : private net::Messenger::Handler {
 public:
  // `ranges`: the parameters that this worker trains; none: all. They are cut where shards are; the
  // setup is the same on all workers. `part`: of the model, which is the worker's, where workers
  // have parts of it; all that is said of the flat space below is of this part of it, from 0 on.
  // Throws BadInput for a setup that cannot work.
  Client(net::MemberGroup group, const ServerSetup& setup, std::vector<Range> ranges,
         Seconds timeout, std::size_t part = 0);
  ~Client() override;  // leaves

  // The whole flat space, in memory that servers reach; what is not in the worker's ranges is never
  // read or written by them. Holding it keeps it alive.
  std::span<float> parameters() const;
  std::shared_ptr<net::ReachableMemory> memory() const { return memory_; }

  // The following throw JobFailed, naming the server, where one was lost or did not answer in time,
  // or refused what it was sent.

  // The state of the setup's rule, as the worker has it: elements of a slot, zeros between tensors,
  // and the steps that each tensor of the layout has had, with the share of one under way.
  using ReadState = std::function<void(std::size_t slot, Range range, float* to)>;
  using WriteState = std::function<void(std::size_t slot, Range range, const float* from)>;
  struct RuleState {
    std::vector<double> updates;
    ReadState read;
  };

  // Returns when all servers have heard from all workers and have parameters: those of the worker
  // that provides them (of each part, one does), with its state where the setup says so.
  void begin(bool provides, const RuleState& state = {});
  // Asks for parameters and work: first of all, and after every sync point, with the workers that
  // this one ended it with, itself included. Where others are lost, the answer may be the same sync
  // point again.
  void arrive(const std::vector<int>& met = {});
  // A part of the gradient, whose memory stays as it is until wait() returns. Together the parts
  // are this worker's ranges, each element once. `how`: what goes with elements that travel in a
  // code, by elements of the range, with a seed for all of them.
  void push(Range range, const float* gradient, const kernels::Encoding& how = {});
  // The gradient is complete; asks for parameters and work. `lr`: of each group of the setup.
  void commit(const Figures& figures, std::span<const double> lr);
  // The answer to arrive() or commit(): what to do next, with these parameters. Of those that
  // travel in a code it is what came of differences, which servers know to the bit.
  Release wait();
  // The same, as soon as it is known, while the parameters may be on their way: to prepare for it.
  Release wait_for_release();

  // Where workers lease samples: there is to be a sync point at the end of the step that is
  // being dealt out. Any worker, at any time.
  void ask_for_sync_point();
  // At a sync point, or when no worker has a push under way: tells `begin` how often each tensor of
  // the layout was updated, and then hands the state of the rule in this range to `write`, a piece
  // at a time. The slot of gathered gradients comes only where some step is under way.
  using BeginWrite = std::function<void(std::span<const double> updates)>;
  void fetch_state(Range range, const BeginWrite& begin, const WriteState& write);
  // The same for the parameters: the whole flat space, as servers have it, into parameters().
  void fetch_parameters();
  // The same while others push, between wait() and push(): each server's as they are just now.
  void fetch_parameters_now();
  // What servers know this worker to have, where parameters travel in a code: parameters() as
  // wait() left them. From this call to the next wait(), which goes on from here, it is kept apart
  // from them, so that they may be overwritten; fetch_parameters() does that.
  std::shared_ptr<std::vector<float>> known();
  // It was changed, to what a worker had that trained before: servers are told. After begin(),
  // between two steps.
  void tell_known();

  // What the head can tell of the pace, as JSON. One worker, at a sync point or after the end.
  std::string report();

  std::uint64_t bytes_moved() const { return bytes_moved_; }
  double wait_seconds() const { return wait_seconds_; }

 private:
  net::Bytes room_for(int member, net::ConstBytes head, std::uint64_t bytes) override;
  void arrived(int member, net::ConstBytes head, net::Bytes payload) override;
  void gone(int member, net::LinkEnd end) override;
  void failed(const std::string& why) override {
    if (failure_.empty()) failure_ = why;
  }

  Range on_servers(Range range) const {
    return {part_.begin + range.begin, part_.begin + range.end};
  }
  Range here(Range range) const { return {range.begin - part_.begin, range.end - part_.begin}; }
  RemoteAddress remote_address_of(const float* data, std::uint64_t elements);
  bool reaches_us(int member);
  template <typename Body>
  void send_elements(int member, Body body, const float* data);
  void push_coded(int server, Range piece, const float* gradient, const kernels::Encoding& how);
  std::string take_difference(const Difference& difference, net::ConstBytes code);
  void drive(const std::function<bool()>& done, const char* what);
  void send_state(const RuleState& state);
  std::vector<double> fetch_updates();
  void fetch_pieces(std::uint32_t slot, const std::vector<Range>& pieces, const WriteState& write);
  void fetch_parameter_pieces();
  void until_one_version(const std::function<void()>& fetch);
  void fetch_once(const std::function<void()>& fetch);
  void await_answers();
  bool is_answer(int server, net::ConstBytes head, std::uint64_t bytes) const;
  net::Bytes room_for_state(int server, net::ConstBytes head, std::uint64_t bytes);
  void take_state(int server, net::ConstBytes head, net::ConstBytes payload);
  std::string name_of_server(int server) const;

  // Constant after construction.
  const net::MemberGroup group_;
  const ServerSetup setup_;
  const Seconds timeout_;
  const std::vector<Range> shards_;
  const CodedParts coded_;
  const Range part_;                            // of the flat space, which this worker has
  std::vector<Range> kept_;                     // what of each shard lies in it
  std::size_t first_tensor_ = 0, tensors_ = 0;  // of the layout, that lie in it
  std::vector<std::vector<Range>> ranges_;      // this worker's, of each shard
  std::uint64_t elements_ = 0;                  // in them
  std::shared_ptr<net::ReachableMemory> memory_;

  // Under the lock.
  std::optional<net::Messenger> messenger_;
  int welcomes_ = 0;
  std::uint64_t push_ = 0;     // the number of the last one
  bool pushes_ = false;        // parts of the next one
  std::uint64_t awaited_ = 0;  // elements of parameters that are still to come
  std::optional<Release> release_;
  std::uint64_t version_ = 0;                  // of the parameters that came last
  std::shared_ptr<std::vector<float>> known_;  // kept apart; none: it is parameters()
  std::vector<float> decoded_;
  std::optional<std::string> answer_;  // to report()
  // What a server was asked of its state, until it answers.
  struct Question {
    bool open = false;
    std::optional<AskState> ask;  // none: how often tensors were updated
    std::vector<std::byte> answer;
  };
  std::vector<Question> questions_;             // by server
  std::optional<std::uint64_t> state_version_;  // of all answers
  bool versions_differ_ = false;                // between them
  std::string failure_;
  std::string departure_;  // of a server, which ends the work too

  std::uint64_t bytes_moved_ = 0;
  double wait_seconds_ = 0;
};

}  // namespace asup::ps
