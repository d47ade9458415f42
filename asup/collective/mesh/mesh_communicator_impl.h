// The communicator that runs verified plans over a mesh's links: the class behind
// make_communicator, for the files that implement it.
//
// mesh_communicator.cc makes a PendingCall of each call, progress.cc carries it out, timeouts.cc
// finds out why one does not end, and rebuild.cc goes on with those who are left. Calls come from
// the caller's thread; what runs under the mesh's lock (net/transport/loop.h) says so.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "asup/collective/execute/pending_call.h"
#include "asup/collective/execute/prepared.h"
#include "asup/collective/execute/scratch.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/collective/mesh/survivors.h"
#include "asup/collective/tuning/chooser.h"

namespace asup::collective {

class MeshCommunicator : public Communicator, private net::Mesh::Mover {
 public:
  MeshCommunicator(net::Mesh& mesh, std::uint64_t id, std::vector<int> members, int rank,
                   CommunicatorOptions options);
  ~MeshCommunicator() override;

  int rank() const override { return group_.rank; }
  int size() const override { return group_.size(); }
  Work start(Call call) override;
  Outcome run(Call call) override;
  std::unique_ptr<SharedMemory> allocate(std::size_t bytes) override;
  std::unique_ptr<Communicator> split(int color, int key) override;
  void abandon() override;
  Outcome rebuild(Seconds timeout) override;
  std::uint64_t bytes_moved() const override { return bytes_moved_.load(); }

 private:
  using PendingCallPtr = std::shared_ptr<PendingCall>;
  using Queue = std::deque<PendingCallPtr>;

  void look_at_the_group();
  void fill(PendingCall& pending, Call& call);
  TimelineLabels labels_of(const PendingCall& pending) const;
  bool find_places(const Call& call, Envelope& places) const;
  Prepared prepare(const Call& call, bool in_reach);
  std::uint64_t next_sequence(const Call& call);
  void set_stage(PendingCall& pending);
  void coalesced(PendingCall& pending, Call& call);
  const std::shared_ptr<SharedMemory>& at_least(std::size_t bytes,
                                                std::shared_ptr<SharedMemory>& memory);
  void enqueue(const PendingCallPtr& pending);
  void enqueue_posted(const PendingCallPtr& pending);

  bool progress() override;
  bool busy() override { return pending_ > 0; }
  void on_note(int rank, std::uint32_t kind, std::string_view text) override;
  void failed(const std::string& why) override;

  bool progress_queue(Queue& queue);
  void begin(PendingCall& pending);
  void trace(TraceEvent::Kind kind, const PendingCall& pending) const;
  void look_for_trouble(PendingCall& pending);
  void look_for_the_gone(PendingCall& pending);
  void look_at_the_clock(PendingCall& pending);
  void ask_where_they_are(PendingCall& pending);
  void end_late(PendingCall& pending);
  std::vector<int> whom_all_wait_for(const PendingCall& pending) const;
  std::optional<int> waits_for() const;
  void hear_where_it_is(std::size_t peer, std::string_view text);
  void fail(Outcome why);
  void hear_who_is_left(int member, const Survivors::View& view);
  bool agree(Survivors& survivors, std::set<int>& gone);
  Outcome adopt(const Survivors& survivors);
  std::string name_of_member(int rank) const;
  std::string names_of(const std::vector<int>& ranks) const;

  net::Mesh& mesh_;
  const std::uint64_t lineage_;  // our first id, by which control messages find us when rebuilt
  Group group_;
  const CommunicatorOptions options_;
  bool shares_memory_ = true;
  std::vector<int> hosts_;  // by rank; empty where all are on one

  // The caller's.
  std::uint64_t sequence_ = 0;
  std::map<int, std::uint64_t> sent_, received_;  // point-to-point calls, by peer
  std::uint64_t splits_ = 0;
  PreparedCalls prepared_;
  std::optional<tuning::Chooser> chooser_;
  std::shared_ptr<SharedMemory> stage_;      // of the calls that need one, one after the other
  std::shared_ptr<SharedMemory> coalesced_;  // and of those with parts

  // Under the lock. Queue 0 holds collectives; each peer has one for sends and one for receives.
  std::map<int, Queue> queues_;
  std::size_t pending_ = 0;
  Scratch scratch_, coded_;    // of the collective under way
  std::uint64_t started_ = 0;  // collectives
  Outcome broken_;
  std::uint64_t generation_ = 0;          // how often it was rebuilt
  Survivors* survivors_ = nullptr;        // while it is being rebuilt
  std::map<int, Survivors::View> views_;  // the last of each member since it was rebuilt

  std::atomic<std::uint64_t> bytes_moved_{0};
};

}  // namespace asup::collective
