// How workers that go at their own pace hear of each other's progress: how many samples each has
// done, and which merge of all was called (a round).
//
// A worker tells one other after each step, in turn, what it knows of all (progress_vector.h): what
// one knows all know after some steps (gossip). A round is told to all at once. Called by
// the thread that trains; waits for nobody.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "asup/gossip/progress_vector.h"
#include "asup/gossip/service.h"
#include "asup/net/member_group.h"
#include "asup/net/transport/messenger.h"

namespace asup::gossip {

class GossipProgress : private Service {
 public:
  explicit GossipProgress(net::MemberGroup group);
  ~GossipProgress() override;

  // This worker has done so many samples; what is known of all.
  struct Known {
    std::uint64_t samples = 0;  // of all workers
    std::uint64_t round = 0;    // the last one that was called; 0: none
  };
  Known tell(std::uint64_t samples);

  // All workers are to take part in this round, counted from 1.
  void call_round(std::uint64_t round);

  // What all have agreed on in a round.
  void learn(const ProgressVector& counts);
  ProgressVector counts();

 private:
  net::Bytes room_for(int, net::ConstBytes, std::uint64_t) override { return {}; }
  void arrived(int member, net::ConstBytes head, net::Bytes payload) override;
  void gone(int member, net::LinkEnd end) override;
  void send(int worker);

  const net::MemberGroup group_;
  const int rank_;

  // Under the lock.
  ProgressVector counts_;
  std::vector<bool> gone_;
  int told_;  // the worker that was told last
  std::optional<net::Messenger> messenger_;
};

}  // namespace asup::gossip
