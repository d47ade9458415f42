// How workers that go at their own pace share the samples of a job: the first of them deals them
// out (dealt_samples.h), and the others ask it for their next ones. It answers while its training
// thread computes, so that nobody waits for more than a message there and back; nor for that where
// they asked ahead of time.
//
// Called by the thread that trains; messages are answered by whichever thread has the mesh's lock.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "asup/base/clock.h"
#include "asup/gossip/dealt_samples.h"
#include "asup/gossip/service.h"
#include "asup/net/member_group.h"
#include "asup/net/transport/messenger.h"

namespace asup::gossip {

class SampleDealer : private Service {
 public:
  explicit SampleDealer(net::MemberGroup group);
  ~SampleDealer() override;

  // From now on this worker deals, and these; the same on all, who ask for nothing meanwhile.
  void begin(int dealer, DealtSamples samples);
  int dealer() const { return dealer_; }
  bool deals() const { return dealer_ == rank_; }

  // This worker's next samples, see DealtSamples::deal(); those that it asked for ahead, where it
  // gets some. Nothing too where the one that deals is lost. Throws JobFailed where it does not
  // answer.
  std::optional<SampleRun> ask(std::uint64_t count, std::uint64_t limit, Seconds timeout);
  // It has done so many, the first of those that it has.
  void finish(std::uint64_t count);

  // Asks without waiting, see DealtSamples::deal_ahead(), unless an answer is still to come.
  void ask_ahead(std::uint64_t count, std::uint64_t steps, std::uint64_t limit);
  // What has come of it.
  std::optional<SampleRun> take_ahead();
  // The same when the answer is there: after it this worker gets nothing that it does not ask for.
  std::optional<SampleRun> await_ahead(Seconds timeout);

  // On the one that deals, see DealtSamples; elsewhere 0.
  std::uint64_t dealt();
  std::vector<std::uint64_t> finished_by_worker();
  void lose(int worker);

 private:
  std::optional<SampleRun> await_answer(Deadline deadline, Seconds timeout);
  net::Bytes room_for(int, net::ConstBytes, std::uint64_t) override { return {}; }
  void arrived(int member, net::ConstBytes head, net::Bytes payload) override;
  void gone(int member, net::LinkEnd) override { samples_.lose(member); }

  const net::MemberGroup group_;
  const int rank_;

  // Under the lock.
  int dealer_ = 0;
  DealtSamples samples_;             // of the one that deals
  std::uint64_t asked_ = 0;          // times
  std::uint64_t answered_ = 0;       // of them
  std::optional<SampleRun> answer_;  // the last one, until it is taken
  std::optional<net::Messenger> messenger_;
};

}  // namespace asup::gossip
