// Who comes to a meeting of workers that go at their own pace, where a late one is not waited for.
//
// A worker that has come says so to all. The first of the workers waits until all others have, or
// until its patience ends, and then says who meets; what it says stands. Whoever is not among them
// goes on by itself, and comes to the next meeting. Used by the thread that trains.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "asup/base/clock.h"
#include "asup/net/mail.h"
#include "asup/pairwise/circle.h"

namespace asup::pairwise {

class Attendance : private net::Mail::Handler {
 public:
  explicit Attendance(Circle circle);
  ~Attendance() override;

  struct Meeting {
    std::uint64_t number = 0;  // this one, or the last that took place without this worker
    std::vector<int> workers;  // who meets, ascending; nobody: it takes place without this worker
  };

  // This worker has come to meeting `number`, counted from 1. `workers`: all there are, ascending.
  // The first of them says who meets, and waits no longer than its patience (zero: as long as it
  // takes); this one is ready to wait for that until the timeout. Where one of them is gone, all
  // are to meet, and will miss it. Throws JobFailed.
  Meeting come(std::uint64_t number, const std::vector<int>& workers, Seconds patience,
               Seconds timeout);

 private:
  net::Bytes room_for(int, net::ConstBytes, std::uint64_t) override { return {}; }
  void arrived(int member, net::ConstBytes head, net::Bytes payload) override;
  void gone(int member, net::LinkEnd end) override;
  void tell_all();
  bool someone_is_gone(const std::vector<int>& workers) const;

  const Circle circle_;
  const int rank_;

  // Under the turn. Numbers of meetings: none ever falls, so that of two the larger is the more
  // recent.
  struct Known {
    std::uint64_t come = 0;      // the last that this worker has come to
    std::uint64_t left_out = 0;  // the last that took place without it
  };
  std::vector<Known> known_;   // by worker
  std::uint64_t decided_ = 0;  // the last of which it is known who meets
  std::vector<bool> gone_;
  std::optional<net::Mail> mail_;
};

}  // namespace asup::pairwise
