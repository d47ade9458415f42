#include "asup/launch/local_ranks.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "asup/base/error.h"
#include "asup/launch/process.h"
#include "asup/net/membership/address.h"

namespace asup::launch {

LocalRanks::LocalRanks(PollLoop& loop, RankObserver& observer)
    : loop_(loop), observer_(observer), hostname_(net::this_hostname()) {}

void LocalRanks::start(const HostJob& job, const Outputs& outputs) {
  grace_ = job.grace;
  const Fd key = net::make_key_fd(job.key);
  for (const int member : job.members()) {
    ranks_.push_back(std::make_unique<Rank>(member, job.roles().server(member)));
    start_rank(*ranks_.back(), job, outputs(member), key.get());
  }
}

LocalRanks::~LocalRanks() {
  for (const auto& rank : ranks_) {
    for (const Pipe& pipe : rank->pipes)
      if (pipe.fd) loop_.forget(pipe.fd.get());
    if (rank->pid < 0) continue;
    kill(-rank->pid, SIGKILL);
    if (!rank->ended) waitpid(rank->pid, nullptr, 0);
  }
  while (waitpid(-1, nullptr, WNOHANG) > 0) {  // orphans of the groups just killed
  }
}

void LocalRanks::start_rank(Rank& rank, const HostJob& job, const RankOutput& output, int key_fd) {
  ProcessOptions options;
  options.argv = rank.server ? job.server_program : job.program;
  options.directory = job.directory;
  rank.note = net::make_note_fd();
  options.environment = job.environment_of(rank.rank, own_environment());
  set_variable(options.environment, "ASUP_KEY_FD", std::to_string(key_fd));
  set_variable(options.environment, "ASUP_NOTE_FD", std::to_string(rank.note.get()));
  options.keep = {key_fd, rank.note.get()};
  Fd out, err;
  if (!output.file.empty()) {
    out = Fd(open(output.file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
    require(static_cast<bool>(out), "{}: {}", output.file, std::strerror(errno));
    options.out = options.err = out.get();
  } else if (!output.inherit) {
    out = add_pipe(rank, Stream::out);
    err = add_pipe(rank, Stream::err);
    options.out = out.get();
    options.err = err.get();
  }
  rank.pid = start_process(options);
  guard_.protect(rank.pid);
  loop_.watch_child(rank.pid, [this, &rank](int status) { on_ended(rank, status); });
  observer_.on_started(rank.rank, rank.pid, hostname_);
}

// The end for the child; ours is kept.
Fd LocalRanks::add_pipe(Rank& rank, Stream stream) {
  int fds[2];
  check(pipe2(fds, O_CLOEXEC) == 0, "pipe: {}", std::strerror(errno));
  fcntl(fds[0], F_SETFL, O_NONBLOCK);
  rank.pipes.push_back({Fd(fds[0]), stream});
  loop_.watch(fds[0], POLLIN, [this, &rank, stream] { read_pipe(rank, stream); });
  return Fd(fds[1]);
}

void LocalRanks::read_pipe(Rank& rank, Stream stream) {
  auto pipe = std::find_if(rank.pipes.begin(), rank.pipes.end(),
                           [&](const Pipe& p) { return p.stream == stream; });
  if (!pipe->fd) return;
  char buffer[32 * 1024];
  const ssize_t n = read(pipe->fd.get(), buffer, sizeof buffer);
  if (n > 0) return observer_.on_output(rank.rank, stream, {buffer, static_cast<std::size_t>(n)});
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  close_pipe(rank, *pipe);
}

void LocalRanks::close_pipe(Rank& rank, Pipe& pipe) {
  loop_.forget(pipe.fd.get());
  pipe.fd.reset();
  observer_.on_output(rank.rank, pipe.stream, {});
}

void LocalRanks::on_ended(Rank& rank, int status) {
  rank.ended = true;
  rank.kill_at = after(grace_);
  kill(-rank.pid, SIGTERM);  // what it has left behind
  RankEnd end{rank.rank, rank.pid, hostname_, status, false, rank.server};
  if (!end.ok()) end.note = net::read_note(rank.note.get());
  observer_.on_ended(end);
  sweep(rank);
}

// Ends what is left of an ended rank's group, and then its output: a process that has moved to
// another group may hold the pipe for ever.
void LocalRanks::sweep(Rank& rank) {
  if (!rank.ended || rank.group_gone) return;
  const bool gone = kill(-rank.pid, 0) != 0 && errno == ESRCH;
  if (!gone && Clock::now() < rank.kill_at) return;
  if (!gone) kill(-rank.pid, SIGKILL);
  rank.group_gone = true;
  guard_.release(rank.pid);
}

void LocalRanks::keep_time() {
  for (const auto& rank : ranks_) {
    sweep(*rank);
    if (!rank->group_gone) continue;
    for (Pipe& pipe : rank->pipes) {
      pollfd fd{pipe.fd.get(), POLLIN, 0};
      if (pipe.fd && poll(&fd, 1, 0) == 0) close_pipe(*rank, pipe);  // all that came has been read
    }
  }
}

void LocalRanks::signal(int number) {
  for (const auto& rank : ranks_)
    if (!rank->group_gone) kill(-rank->pid, number);
}

void LocalRanks::kill_rank(int rank) {
  for (const auto& each : ranks_)
    if (each->rank == rank && !each->group_gone) kill(-each->pid, SIGKILL);
}

bool LocalRanks::finished() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const auto& rank) {
    return rank->group_gone && std::none_of(rank->pipes.begin(), rank->pipes.end(),
                                            [](const Pipe& pipe) { return bool(pipe.fd); });
  });
}

void LocalRanks::pause_output(bool paused) {
  for (const auto& rank : ranks_)
    for (const Pipe& pipe : rank->pipes)
      if (pipe.fd) loop_.set_events(pipe.fd.get(), paused ? 0 : POLLIN);
}

}  // namespace asup::launch
