#include "asup/launch/agent.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "asup/base/error.h"
#include "asup/launch/agent_protocol.h"
#include "asup/launch/lines.h"
#include "asup/launch/local_ranks.h"
#include "asup/launch/signals.h"
#include "asup/launch/writer.h"
#include "asup/net/membership/address.h"

namespace asup::launch {
namespace {

constexpr std::size_t kLongestJob = 1 << 20;

class Agent : private RankObserver {
 public:
  Agent(int in, int out) : in_(in), writer_(loop_, out) {}

  int run() {
    writer_.write(greeting_line(net::this_hostname()));
    loop_.watch(signals_.fd(), POLLIN, [this] { take_signals(); });
    loop_.watch(in_, POLLIN, [this] { read_input(); });
    while (!done()) {
      loop_.run_once(after(Seconds(0.1)));
      ranks_.pause_output(writer_.full());
      ranks_.keep_time();
      if (kill_at_ && Clock::now() >= *kill_at_) ranks_.signal(SIGKILL);
    }
    flush();
    return failed_ ? 1 : 0;
  }

 private:
  bool done() const { return failed_ || (started_ ? ranks_.finished() : gone_); }

  void read_input() {
    char buffer[32 * 1024];
    const ssize_t n = read(in_, buffer, sizeof buffer);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) return end_ranks();
    pending_.append(buffer, static_cast<std::size_t>(n));
    for (std::size_t end; (end = pending_.find('\n')) != pending_.npos;) {
      const std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      take_line(line);
    }
    if (pending_.size() > kLongestJob) fail("the job description has no end");
  }

  void take_line(const std::string& line) {
    if (!started_) return start(line);
    if (const auto number = parse_signal_line(line)) ranks_.signal(*number);
    if (const auto rank = parse_kill_line(line)) ranks_.kill_rank(*rank);
  }

  void start(const std::string& line) {
    try {
      const HostJob job = parse_host_job(line);
      grace_ = job.grace;
      ranks_.start(job, [](int) { return RankOutput{}; });
      started_ = true;
    } catch (const Error& error) {
      fail(error.what());
    }
  }

  void fail(const std::string& why) {
    writer_.write(failed_line(why));
    failed_ = true;
  }

  // The launcher is gone, or this host is about to be.
  void end_ranks() {
    loop_.forget(in_);
    gone_ = true;
    if (kill_at_) return;
    ranks_.signal(SIGTERM);
    kill_at_ = after(grace_);
  }

  void take_signals() {
    for (const int number : signals_.take()) {
      if (number == SIGCHLD)
        loop_.reap();
      else
        end_ranks();
    }
  }

  void flush() {
    const Deadline deadline = after(Seconds(2));
    while (!writer_.empty() && !gone_ && Clock::now() < deadline) loop_.run_once(deadline);
  }

  void on_started(int rank, int pid, const std::string&) override {
    writer_.write(started_line(rank, pid));
  }
  void on_output(int rank, Stream stream, std::string_view bytes) override {
    // A message is far shorter than the longest line the launcher takes in one piece.
    constexpr std::size_t kPiece = 8 * 1024;
    do {
      writer_.write(output_line(rank, stream, bytes.substr(0, kPiece)));
      bytes.remove_prefix(std::min(kPiece, bytes.size()));
    } while (!bytes.empty());
  }
  void on_ended(const RankEnd& end) override { writer_.write(ended_line(end)); }
  void on_host_failed(const std::string& why) override { fail(why); }
  void on_host_lost(const std::string& why, const std::vector<int>&) override { fail(why); }

  const int in_;
  Signals signals_;
  PollLoop loop_;
  Writer writer_;
  LocalRanks ranks_{loop_, *this};
  std::string pending_;
  bool started_ = false, failed_ = false, gone_ = false;
  Seconds grace_{5};
  std::optional<Deadline> kill_at_;
};

}  // namespace

int run_agent(int in, int out) { return Agent(in, out).run(); }

}  // namespace asup::launch
