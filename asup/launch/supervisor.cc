#include "asup/launch/supervisor.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>

namespace asup::launch {
namespace {

// Ranks that lost a peer notice it soon, and their own words say best what it meant.
constexpr Seconds kTimeForWords{2};
// Who is told that the others go on without it ends by itself, and says so; one that is stopped may
// hold the lock of a folder that the others are to write.
constexpr Seconds kTimeToHear{2};
// A start that takes no longer needs no words.
constexpr Seconds kQuickStart{2};

}  // namespace

Supervisor::Supervisor(const LaunchOptions& options, const net::Roles& roles, Output& output)
    : options_(options), roles_(roles), output_(output), start_news_at_(after(kQuickStart)) {
  for (int rank = 0; rank < roles.members(); ++rank) running_.insert(rank);
}

bool Supervisor::finished() const {
  const bool all = std::all_of(ranks_.begin(), ranks_.end(), [](auto& r) { return r->finished(); });
  return (all && !guests_alone_go_on()) || (killed_ && Clock::now() >= give_up_at_);
}

// The job is theirs now, and needs its coordinator and its servers until they have ended.
bool Supervisor::guests_alone_go_on() const {
  return guests_ > 0 && static_cast<int>(let_go_.size()) >= roles_.workers && !stop_signal_ &&
         !interrupted_;
}

void Supervisor::keep_time() {
  guests_went_on_ = guests_went_on_ || guests_alone_go_on();
  for (const auto& ranks : ranks_) {
    ranks->keep_time();
    ranks->pause_output(output_.full());
  }
  tell_of_start();
  end_servers_left_over();
  end_the_silent();
  end_the_excluded();
  if (!stop_signal_ || killed_) return;
  if (!stop_sent_ && Clock::now() >= stop_at_) {
    stop_sent_ = true;
    signal_all(*stop_signal_);
  }
  if (Clock::now() < kill_at_) return;
  killed_ = true;
  give_up_at_ = after(options_.grace);
  signal_all(SIGKILL);
}

void Supervisor::stop(int number, Seconds pause) {
  if (stop_signal_) return;
  stop_signal_ = number;
  stop_at_ = after(pause);
  kill_at_ = after(pause + options_.grace);
}

void Supervisor::signal_all(int number) {
  for (const auto& ranks : ranks_) ranks->signal(number);
}

void Supervisor::take_signal(int number) {
  if (interrupted_) {  // the second one: no more patience
    kill_at_ = Clock::now();
    return;
  }
  interrupted_ = number;
  stop_signal_.reset();
  stop_sent_ = false;
  stop(number, Seconds(0));
}

void Supervisor::take_join_failure(const std::string& why) {
  if (stop_signal_) return;  // an end that we caused, or that explains itself
  failure_ = why;
  stop(SIGTERM, kTimeForWords);
}

void Supervisor::take_loss(int rank) {
  if (!stop_sent_) missed_.push_back(rank);
}

// One that has ended meanwhile has been told of.
void Supervisor::take_exclusion(int rank, const std::string& why, bool late) {
  take_loss(rank);
  if (!running_.contains(rank)) return;
  if (!can_do_without({rank})) return late ? on_host_failed(why) : void();
  if (late) count_ended(rank);
  excluded_.emplace(rank, late ? after(kTimeToHear) : Deadline::max());
  let_go({rank}, why);
}

void Supervisor::on_started(int rank, int pid, const std::string& hostname) {
  if (options_.verbose)
    output_.note(fmt::format("{}: {} is pid {} on {}", options_.name,
                             net::name_member(rank, roles_.server(rank)), pid, hostname));
}

void Supervisor::on_output(int rank, Stream stream, std::string_view bytes) {
  output_.take(rank, stream, bytes);
}

void Supervisor::on_ended(const RankEnd& end) {
  if (before_rank_end_) before_rank_end_();
  ends_.push_back(end);
  ends_.back().stopped = stop_sent_ || interrupted_.has_value();
  count_ended(end.rank);
  if (on_rank_end_) on_rank_end_(end);
  const std::string what = end.describe();
  if (excluded_.erase(end.rank) > 0) {
    ends_.back().excused = true;
    if (end.ok()) std::erase(let_go_, end.rank);  // it was among those who went on
    if (options_.verbose || !end.killed()) output_.note(fmt::format("{}: {}", options_.name, what));
    return;
  }
  if (!end.ok() && can_do_without({end.rank})) {
    ends_.back().excused = true;
    return let_go({end.rank}, what);
  }
  if (options_.verbose) output_.note(fmt::format("{}: {}", options_.name, what));
  if (!end.ok()) stop(SIGTERM, kTimeForWords);
}

void Supervisor::on_host_failed(const std::string& why) {
  if (failure_.empty()) failure_ = why;
  stop(SIGTERM, Seconds(0));
}

void Supervisor::on_host_lost(const std::string& why, const std::vector<int>& ranks) {
  for (const int rank : ranks) count_ended(rank);
  std::vector<int> lost;  // that the coordinator has not told of
  for (const int rank : ranks)
    if (excluded_.erase(rank) == 0) lost.push_back(rank);
  if (lost.empty()) return;
  const std::string all = fmt::format("{}; with it went {}", why, net::name_members(lost, roles_));
  if (!can_do_without(lost)) return on_host_failed(all);
  let_go(lost, all);
}

// Only workers, and only once all have joined: before, the others wait for them.
bool Supervisor::can_do_without(const std::vector<int>& ranks) const {
  return options_.on_loss == OnLoss::go_on && joined_ && !stop_signal_ &&
         std::none_of(ranks.begin(), ranks.end(), [&](int rank) { return roles_.server(rank); });
}

void Supervisor::let_go(const std::vector<int>& ranks, const std::string& why) {
  let_go_.insert(let_go_.end(), ranks.begin(), ranks.end());
  output_.note(
      fmt::format("{}: {}{}", options_.name, why, servers_due_ ? "" : "; the others go on"));
}

void Supervisor::take_guests(std::size_t count) {
  guests_ = count;
  look_for_workers();
}

void Supervisor::count_ended(int rank) {
  running_.erase(rank);
  look_for_workers();
}

void Supervisor::look_for_workers() {
  const bool own = !running_.empty() && !roles_.server(*running_.begin());  // workers come first
  const bool working = own || guests_ > 0;
  if (!working && !servers_due_) servers_due_ = after(options_.grace);
}

// Others than those of a program that is known to join are told of once the first has joined: many
// programs never do.
void Supervisor::tell_of_start() {
  const bool are_expected = options_.program_joins || admitted_ > 0;
  if (joined_ || stop_signal_ || !are_expected || Clock::now() < start_news_at_) return;
  const std::string all = roles_.servers > 0 ? roles_.describe()
                                             : fmt::format("{} worker{}", roles_.workers,
                                                           roles_.workers == 1 ? "" : "s");
  output_.note(start_told_ ? fmt::format("{}: {} of {} have joined", options_.name, admitted_, all)
                           : fmt::format("{}: starting {} …", options_.name, all));
  start_told_ = true;
  start_news_at_ = after(options_.start_news);
}

void Supervisor::end_servers_left_over() {
  if (!servers_due_ || running_.empty() || stop_signal_ || Clock::now() < *servers_due_) return;
  const std::vector<int> left(running_.begin(), running_.end());
  output_.note(fmt::format("{}: {} did not end within {:.3g} s of the last worker, and {} killed",
                           options_.name, net::name_members(left, roles_), options_.grace.count(),
                           left.size() == 1 ? "is" : "are"));
  stop(SIGKILL, Seconds(0));
}

// The others have ended because they waited for those in vain, or are lost; now nobody is left to
// do so, and a halted process would keep the job for ever.
void Supervisor::end_the_silent() {
  std::vector<int> left;
  for (const int rank : running_)
    if (!roles_.server(rank)) left.push_back(rank);
  const bool all_silent =
      !left.empty() && !let_go_.empty() && !stop_signal_ &&
      std::all_of(left.begin(), left.end(), [&](int rank) { return silent_.count(rank) > 0; });
  if (!all_silent) return silent_due_.reset();
  if (!silent_due_) silent_due_ = after(options_.call_timeout);
  if (Clock::now() < *silent_due_) return;
  failure_ = fmt::format("{} {} silent, and no other worker is left",
                         net::name_members(left, roles_), left.size() == 1 ? "is" : "are");
  stop(SIGKILL, Seconds(0));
}

// A process that is stopped does not hear; and when the job is over there is nothing to wait for.
void Supervisor::end_the_excluded() {
  const bool over = running_.empty() || roles_.server(*running_.begin());
  for (auto& [rank, due] : excluded_) {
    const bool is_killed = due == Deadline::max();
    if (is_killed || (!over && Clock::now() < due)) continue;
    due = Deadline::max();
    for (const auto& ranks : ranks_) ranks->kill_rank(rank);
  }
}

std::string Supervisor::blame(const RankEnd& end) const {
  const std::string file = output_.file_of(end.rank);
  return fmt::format("{}{}", end.describe(),
                     file.empty() ? "" : fmt::format("; its output is in {}", file));
}

JobResult Supervisor::result() const {
  if (interrupted_)
    return {128 + *interrupted_,
            fmt::format("ended by {}{}", signal_name(*interrupted_),
                        *interrupted_ == SIGINT ? " (Ctrl-C)" : ""),
            std::nullopt};
  const auto guilty = culprit(ends_, missed_);
  // Ranks that never joined may have said why.
  if (guilty && (failure_.empty() || guilty->note))
    return {guilty->job_status(), blame(*guilty), guilty};
  if (!failure_.empty()) return {1, failure_, guilty};
  if (killed_ && !finished()) return {1, "some ranks could not be ended", std::nullopt};
  return let_go_.empty() ? JobResult{} : result_without_the_lost();
}

JobResult Supervisor::result_without_the_lost() const {
  const std::string who = net::name_members(let_go_, roles_);
  const auto lost = static_cast<int>(let_go_.size());
  if (lost < roles_.workers)
    return {0,
            fmt::format("done, but {} of {} workers {} lost: {}", lost, roles_.workers,
                        lost == 1 ? "was" : "were", who),
            std::nullopt};
  std::vector<RankEnd> ends = ends_;
  for (RankEnd& end : ends) end.excused = false;
  const auto first = culprit(ends, missed_);
  const std::string left =
      guests_went_on_ ? "all workers that it began with were lost; those that had joined went on, "
                        "and their launcher says how they ended"
                      : "no worker is left";
  return {first ? first->job_status() : 1,
          fmt::format("{}; {}", left, first ? blame(*first) : who + " are lost"), first};
}

}  // namespace asup::launch
