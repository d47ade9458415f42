#include "asup/launch/supervisor.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>

namespace asup::launch {
namespace {

// Ranks that lost a peer notice it within a second, and their own words say best what it meant.
constexpr Seconds kTimeForWords{1};

}  // namespace

bool Supervisor::finished() const {
  const bool all = std::all_of(ranks_.begin(), ranks_.end(), [](auto& r) { return r->finished(); });
  return all || (killed_ && Clock::now() >= give_up_at_);
}

void Supervisor::keep_time() {
  for (const auto& ranks : ranks_) {
    ranks->keep_time();
    ranks->pause_output(output_.full());
  }
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
  if (!lost_first_ && !stop_sent_) lost_first_ = rank;
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
  ends_.push_back(end);
  ends_.back().stopped = stop_sent_ || interrupted_.has_value();
  if (on_rank_end_) on_rank_end_(end);
  if (options_.verbose) output_.note(fmt::format("{}: {} {}", options_.name, end.who(), end.how()));
  if (!end.ok()) stop(SIGTERM, kTimeForWords);
}

void Supervisor::on_host_failed(const std::string& why) {
  if (failure_.empty()) failure_ = why;
  stop(SIGTERM, Seconds(0));
}

std::string Supervisor::blame(const RankEnd& end) const {
  const std::string file = output_.file_of(end.rank);
  return fmt::format("{} {}{}", end.who(), end.how(),
                     file.empty() ? "" : fmt::format("; its output is in {}", file));
}

JobResult Supervisor::result() const {
  if (interrupted_)
    return {128 + *interrupted_,
            fmt::format("ended by {}{}", signal_name(*interrupted_),
                        *interrupted_ == SIGINT ? " (Ctrl-C)" : ""),
            std::nullopt};
  const auto guilty = culprit(ends_, lost_first_);
  if (!failure_.empty()) return {1, failure_, guilty};
  if (guilty) return {1, blame(*guilty), guilty};
  if (killed_ && !finished()) return {1, "some ranks could not be ended", std::nullopt};
  return {};
}

}  // namespace asup::launch
