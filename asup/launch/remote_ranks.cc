#include "asup/launch/remote_ranks.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>

#include "asup/base/error.h"
#include "asup/launch/process.h"

namespace asup::launch {
namespace {

constexpr std::size_t kLastWords = 5;

// Quotes for the shell on the other host.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; (begin = text.find_first_not_of(' ', begin)) != text.npos;) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

struct PipeEnds {
  Fd ours, theirs;
};

PipeEnds make_pipe(bool we_read) {
  int fds[2];
  check(pipe2(fds, O_CLOEXEC) == 0, "pipe: {}", std::strerror(errno));
  const int ours = we_read ? fds[0] : fds[1];
  fcntl(ours, F_SETFL, fcntl(ours, F_GETFL) | O_NONBLOCK);
  return {Fd(ours), Fd(we_read ? fds[1] : fds[0])};
}

}  // namespace

std::vector<std::string> ssh_command(const RemoteOptions& options) {
  std::vector<std::string> command = words_of(options.ssh);
  const std::string timeout = fmt::format("ConnectTimeout={:.0f}", options.connect_timeout.count());
  // No questions, since nobody sees them; no terminal; a connection that died is noticed.
  for (const std::string& word :
       {std::string("-T"), std::string("-o"), std::string("BatchMode=yes"), std::string("-o"),
        timeout, std::string("-o"), std::string("ServerAliveInterval=5"), std::string("-o"),
        std::string("ServerAliveCountMax=3"), options.host, std::string("--"),
        "exec " + quoted(options.asup) + " agent"})
    command.push_back(word);
  return command;
}

RemoteRanks::RemoteRanks(PollLoop& loop, RankObserver& observer, const RemoteOptions& options,
                         const HostJob& job)
    : loop_(loop),
      observer_(observer),
      host_(options.host),
      asup_(options.asup),
      roles_(job.roles()),
      hostname_(options.host) {
  for (const int member : job.members()) waiting_.insert(member);
  start_ssh(options);
  writer_ = std::make_unique<Writer>(loop_, in_.get());
  writer_->write(to_json(job) + "\n");
}

RemoteRanks::~RemoteRanks() {
  writer_.reset();
  in_.reset();  // the agent ends its ranks
  for (Fd* fd : {&out_, &err_})
    if (*fd) loop_.forget(fd->get());
  if (ended_ || pid_ < 0) return;
  kill(-pid_, SIGTERM);
  waitpid(pid_, nullptr, 0);
}

void RemoteRanks::start_ssh(const RemoteOptions& options) {
  PipeEnds in = make_pipe(false), out = make_pipe(true), err = make_pipe(true);
  ProcessOptions process;
  process.argv = ssh_command(options);
  process.environment = own_environment();
  process.in = in.theirs.get();
  process.out = out.theirs.get();
  process.err = err.theirs.get();
  pid_ = start_process(process);
  in_ = std::move(in.ours);
  out_ = std::move(out.ours);
  err_ = std::move(err.ours);
  loop_.watch_child(pid_, [this](int status) { on_ssh_ended(status); });
  loop_.watch(out_.get(), POLLIN, [this] { read_out(); });
  loop_.watch(err_.get(), POLLIN, [this] { read_err(); });
}

void RemoteRanks::read_out() {
  char buffer[32 * 1024];
  const ssize_t n = read(out_.get(), buffer, sizeof buffer);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const bool end = n <= 0;
  for (const std::string& line :
       end ? out_lines_.finish() : out_lines_.feed({buffer, static_cast<std::size_t>(n)}))
    take(line);
  if (end) close(out_);
}

void RemoteRanks::read_err() {
  char buffer[4 * 1024];
  const ssize_t n = read(err_.get(), buffer, sizeof buffer);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const bool end = n <= 0;
  for (std::string& line :
       end ? err_lines_.finish() : err_lines_.feed({buffer, static_cast<std::size_t>(n)}))
    remember(std::move(line));
  if (end) close(err_);
}

void RemoteRanks::take(const std::string& line) {
  const auto message = parse_agent_message(line);
  const bool expected = message && (greeted_ || message->kind == AgentMessage::Kind::greeting);
  if (!expected) return remember(line);  // a login script talks
  take(*message);
}

void RemoteRanks::take(const AgentMessage& message) {
  switch (message.kind) {
    case AgentMessage::Kind::greeting:
      greeted_ = true;
      hostname_ = message.text;
      if (message.protocol != kAgentProtocol) fail("runs another version of asup");
      return;
    case AgentMessage::Kind::started:
      return observer_.on_started(message.rank, message.pid, hostname_);
    case AgentMessage::Kind::output:
      return observer_.on_output(message.rank, message.stream, message.text);
    case AgentMessage::Kind::ended:
      waiting_.erase(message.rank);
      return observer_.on_ended({message.rank, message.pid, hostname_, message.status, false,
                                 roles_.server(message.rank), false, message.note});
    case AgentMessage::Kind::failed:
      return fail(message.text);
  }
}

void RemoteRanks::remember(std::string words) {
  if (words.empty()) return;
  words_.push_back(std::move(words));
  if (words_.size() > kLastWords) words_.pop_front();
}

void RemoteRanks::on_ssh_ended(int status) {
  ended_ = true;
  ssh_status_ = status;
  writer_.reset();
  in_.reset();
}

// Says why the host's ranks are gone once all that ssh had to say has been read.
void RemoteRanks::keep_time() {
  if (!finished() || waiting_.empty() || failed_) return;
  if (greeted_) return lose("is no longer in reach: " + last_words());
  const int code = WIFEXITED(ssh_status_) ? WEXITSTATUS(ssh_status_) : 0;
  if (code == 126 || code == 127)  // the shell there: no such program, or not one
    return fail(fmt::format("could not start {} (--remote-asup says where asup is there): {}",
                            asup_, last_words()));
  fail("could not be reached: " + last_words());
}

void RemoteRanks::close(Fd& fd) {
  loop_.forget(fd.get());
  fd.reset();
}

void RemoteRanks::fail(const std::string& why) {
  if (std::exchange(failed_, true)) return;
  waiting_.clear();
  observer_.on_host_failed(fmt::format("host {} {}", host_, why));
}

void RemoteRanks::lose(const std::string& why) {
  failed_ = true;
  const std::vector<int> lost(waiting_.begin(), waiting_.end());
  waiting_.clear();
  observer_.on_host_lost(fmt::format("host {} {}", host_, why), lost);
}

std::string RemoteRanks::last_words() const {
  std::string text;
  for (const std::string& words : words_) text += (text.empty() ? "" : "; ") + words;
  return text.empty() ? "ssh " + RankEnd{0, 0, "", ssh_status_, false}.how() : text;
}

void RemoteRanks::signal(int number) {
  if (ended_) return;
  if (greeted_ && writer_) return writer_->write(signal_line(number));
  // There is no agent yet to pass it on.
  kill(-pid_, SIGTERM);
}

void RemoteRanks::kill_rank(int rank) {
  if (!ended_ && greeted_ && writer_ && waiting_.contains(rank)) writer_->write(kill_line(rank));
}

void RemoteRanks::pause_output(bool paused) {
  if (out_) loop_.set_events(out_.get(), paused ? 0 : POLLIN);
}

}  // namespace asup::launch
