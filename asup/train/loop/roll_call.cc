#include "asup/train/loop/roll_call.h"

#include <algorithm>
#include <array>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/net/membership/roles.h"
#include "asup/sync/averaging/local_update_replica.h"

namespace asup::train {

RollCall::RollCall(RunState& run, int rank) : run_(run), rank_(rank) {
  for (const Word& word : hear_all()) workers_.push_back(static_cast<int>(word.rank));
}

// Who is past the barrier knows that all have done their work; of those who are not, when somebody
// is lost in it, nobody need do it again if one is.
void RollCall::meet(const std::function<void()>& together) {
  meet(
      [&] {
        together();
        run_.control().barrier().or_throw();
        return met_ + 1;
      },
      [] {});
}

std::int64_t RollCall::meet(const std::function<std::int64_t()>& hold,
                            const std::function<void()>& call_back) {
  std::int64_t held = 0;
  for (ahead_ = 0; held == 0 && ahead_ == 0;) try {
      held = hold();
    } catch (const JobFailed&) {
      call_back();
      if (!regroup()) throw;
    }
  met_ = std::max(held, ahead_);
  late_ = false;
  return met_;
}

void RollCall::missed(std::int64_t meeting) {
  met_ = meeting;
  late_ = true;
}

bool RollCall::rebuild() {
  return run_.control().rebuild().ok() &&
         (!run_.context().gradients || run_.context().gradients->rebuild().ok());
}

bool RollCall::regroup() {
  if (!rebuild()) return false;
  if (static_cast<std::size_t>(run_.control().size()) == workers_.size()) return false;
  std::vector<Word> words;
  try {
    words = hear_all();
    if (auto* replica = run_.context().local) replica->regroup();
  } catch (const JobFailed&) {
    return regroup();  // another one was lost meanwhile
  }
  std::vector<int> left;
  std::int64_t most = 0;  // of those who were in the last meeting
  for (const Word& word : words) {
    left.push_back(static_cast<int>(word.rank));
    if (!word.late) most = std::max(most, word.met);
  }
  if (late_) met_ = most;
  if (most > met_) ahead_ = most;
  std::vector<int> lost;
  std::set_difference(workers_.begin(), workers_.end(), left.begin(), left.end(),
                      std::back_inserter(lost));
  if (lost.front() == workers_.front()) {
    if (run_.context().server || !words.front().sees_folder)
      throw PeerLost(fmt::format(
          "rank {}, which keeps the run folder, was lost: resume from its last checkpoint",
          lost.front()));
    if (left.front() == rank_) run_.keep_folder();
  }
  workers_ = left;
  run_.lose(lost);
  if (run_.is_first_rank())
    log().warn("{} {} lost before step {}: {} of {} workers go on", net::name_ranks(lost),
               lost.size() == 1 ? "was" : "were", run_.step(), left.size(), run_.config().workers);
  return true;
}

// Of all who are in the control communicator.
std::vector<RollCall::Word> RollCall::hear_all() {
  std::array<std::int64_t, 4> own{rank_, met_, late_ ? 1 : 0, run_.sees_folder() ? 1 : 0};
  std::vector<std::int64_t> all(own.size() * static_cast<std::size_t>(run_.control().size()));
  run_.control().all_gather(buffer_of(std::span(own)), buffer_of(std::span(all))).or_throw();
  std::vector<Word> words;
  for (std::size_t i = 0; i < all.size(); i += own.size())
    words.push_back({all[i], all[i + 1], all[i + 2] != 0, all[i + 3] != 0});
  return words;
}

}  // namespace asup::train
