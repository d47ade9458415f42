// How a server carries out commands, one after the other.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "asup/base/error.h"
#include "asup/ps/server.h"

namespace asup::ps {
namespace {

// Smaller shards are updated by the thread that serves the links: handing over takes longer.
constexpr std::uint64_t kSmall = 64 * 1024;

// Parameters leave in messages of so many elements, so that the first of them are there early.
constexpr std::uint64_t kLetter = 512 * 1024;

// Updates of which other servers may tell before they are made here, or though they never are: more
// than servers can be apart.
constexpr std::size_t kMostNorms = 16;

// What a gradient of this norm is multiplied with so that it is at most `most`.
double clip_factor(double norm, double most) {
  return most > 0 && std::isfinite(norm) && norm > most ? most / norm : 1;
}

}  // namespace

void Server::on_command(const Command& command) {
  commands_.push_back(command);
  if (!working_) carry_out(&Server::start_next_command);
}

// A step that fails ends the server. The pool works at nothing then: it is started last.
void Server::carry_out(Step step) {
  try {
    (this->*step)();
  } catch (const std::exception& error) {
    working_ = false;
    commands_.clear();
    failed(fmt::format("server {}: {}", server_, reason_of(error)));
  }
}

// For the pool's threads.
void Server::post(Step step) {
  group_.mesh.loop().post([this, step] { carry_out(step); });
}

// Small commands are done when this returns, large ones when finish_command() has been called.
void Server::start_next_command() {
  while (!commands_.empty() && !working_) {
    make_job(commands_.front());
    working_ = true;
    began_ = Clock::now();
    if (!is_small()) {
      start_comparison();
    } else if (job_.clip > 0) {
      start_squares();
    } else {
      do_small_command();
      continue;
    }
    group_.mesh.let_movers_go_on();  // progress() helps, also where no link has moved
  }
}

bool Server::is_small() const { return shard_->range().size() <= kSmall; }

void Server::do_small_command() {
  for (std::size_t part = 0; part < job_.compared.size(); ++part) shard_->compare(job_, part);
  for (std::size_t part = 0; part < shard_->measures(job_); ++part) shard_->measure(job_, part);
  for (std::size_t part = 0; part < shard_->parts(); ++part) shard_->run(job_, part);
  for (const Coding& coding : codings_) coding.run(*shard_);
  finish_command();
}

// Of an update that averages several gradients. One alone has a norm that its worker knows, unless
// a code has changed it.
double Server::clip_of(const Command& command) {
  double least = 0;
  if (job_.sources.size() < 2 && !coded_.any()) return least;
  for (const Command::PushRef& part : command.parts) {
    if (!session(part.worker).has_push(part.number)) continue;
    const double clip = session(part.worker).figures(part.number).clip;
    if (clip > 0) least = least > 0 ? std::min(least, clip) : clip;
  }
  return least;
}

void Server::start_comparison() {
  if (job_.compared.empty()) return start_squares();
  pool_.start(
      job_.compared.size(), [this](std::size_t part) { shard_->compare(job_, part); },
      [this] { post(&Server::start_squares); });
}

void Server::start_squares() {
  if (job_.clip == 0) return start_measures();
  if (is_small()) {
    for (std::size_t part = 0; part < shard_->parts(); ++part) shard_->add_squares(job_, part);
    return tell_norm();
  }
  pool_.start(
      shard_->parts(), [this](std::size_t part) { shard_->add_squares(job_, part); },
      [this] { post(&Server::tell_norm); });
}

void Server::tell_norm() {
  const double squares = std::accumulate(job_.squares.begin(), job_.squares.end(), 0.0);
  const std::uint64_t version = commands_.front().version;
  norms_[version][server_] = squares;
  for (int server = 0; server < group_.servers; ++server)
    if (server != server_) send(group_.member_of_server(server), head_of(Norm{version, squares}));
  awaits_norm_ = true;
  go_on_when_norm_is_known();
}

// One that is ahead may tell of a command that has not come here yet.
void Server::on_norm(int server, const Norm& norm) {
  check(norms_.size() < kMostNorms || norms_.contains(norm.version),
        "it tells the norm of update {}, after {} that nobody makes", norm.version, kMostNorms);
  norms_[norm.version][server] = norm.squares;
  if (awaits_norm_) carry_out(&Server::go_on_when_norm_is_known);
}

// Added up in the order of servers: all have the same bits.
void Server::go_on_when_norm_is_known() {
  const auto found = norms_.find(commands_.front().version);
  if (found == norms_.end() || std::ssize(found->second) < group_.servers) return;
  double squares = 0;
  for (const auto& [server, sum] : found->second) squares += sum;
  norms_.erase(found);
  awaits_norm_ = false;
  job_.factor = clip_factor(std::sqrt(squares), job_.clip);
  if (!is_small()) return start_measures();
  do_small_command();
  start_next_command();
}

void Server::make_job(const Command& command) {
  for (const Command::PushRef& push : command.dropped)
    session(push.worker).forget_push(push.number);
  job_ = {};
  job_.gain = command.gain;
  job_.share = command.share;
  job_.compares = command.compares;
  job_.compensation = setup_->compensation;
  for (const Command::PushRef& part : command.parts) {
    WorkerSession& from = session(part.worker);
    check(from.has_push(part.number), "it is to apply push {} of rank {}, which it does not have",
          part.number, part.worker);
    const bool stale = from.figures(part.number).version + 1 != command.version;
    const bool compensates = setup_->compensation > 0 && stale;
    job_.sources.push_back({part.weight, from.lr(part.number), from.gradient(part.number),
                            compensates ? from.seen(part.number) : nullptr});
  }
  job_.clip = clip_of(command);
  if (job_.sources.size() == 1 && !coded_.any()) {
    const Figures& figures = session(command.parts[0].worker).figures(command.parts[0].number);
    job_.sources[0].scale = clip_factor(figures.norm, figures.clip);
  }
  for (const int worker : command.released) {
    std::vector<std::uint64_t> parts;
    for (const Command::PushRef& part : command.parts)
      if (part.worker == worker) parts.push_back(part.number);
    WorkerSession& to = session(worker);
    to.set_pushes_aside(parts, setup_->compensation > 0);
    if (!to.is_open() || coded_.any()) continue;
    job_.targets.push_back({to.ranges(), to.target()});
    if (setup_->compensation > 0 && !to.writes_in_place())
      job_.targets.push_back({to.ranges(), to.backup()});
  }
  if (coded_.any()) plan_differences(command);
  if (!job_.sources.empty()) shard_->begin(job_);
}

void Server::start_measures() {
  if (shard_->measures(job_) == 0) return start_update();
  pool_.start(
      shard_->measures(job_), [this](std::size_t part) { shard_->measure(job_, part); },
      [this] { post(&Server::start_update); });
}

void Server::start_update() {
  if (job_.sources.empty() && job_.targets.empty() && codings_.empty()) {
    finish_command();
    return;
  }
  pool_.start(
      shard_->parts(), [this](std::size_t part) { shard_->run(job_, part); },
      [this] { post(&Server::start_coding); });
}

// The update is done.
void Server::start_coding() {
  if (codings_.empty()) return end_command();
  pool_.start(
      codings_.size(), [this](std::size_t part) { codings_[part].run(*shard_); },
      [this] { post(&Server::end_command); });
}

void Server::end_command() {
  finish_command();
  start_next_command();
}

void Server::finish_command() {
  const Command command = std::move(commands_.front());
  commands_.pop_front();
  working_ = false;
  version_ = command.version;
  if (is_head() && !command.parts.empty()) coordinator_->updated(seconds_since(began_));
  if (command.compares) tell_squares();
  for (const Command::PushRef& push : command.parts) session(push.worker).forget_push(push.number);
  for (const int worker : command.released)
    if (session(worker).is_open()) hand_out(worker);
  answer_questions();
}

void Server::tell_squares() {
  NoiseSquares sum;
  for (const NoiseSquares& part : job_.compared) sum += part;
  if (is_head())
    coordinator_->found(version_, sum);
  else
    send(group_.head(), head_of(Squares{version_, sum.pushes, sum.mean}));
}

// Lets the worker have what was written for it. Backward makes the last layers' gradients first
// and the flat space has them first; the next forward needs the first layers: the end goes first.
void Server::hand_out(int worker) {
  const auto found = differences_.find(worker);
  const bool is_whole = found == differences_.end();
  const auto& ranges = is_whole ? session(worker).ranges() : session(worker).plain_ranges();
  for (auto range = ranges.rbegin(); range != ranges.rend(); ++range)
    send_as_they_are(worker, *range);
  if (!is_whole) send_difference(worker, found->second);
}

void Server::send_as_they_are(int worker, Range range) {
  WorkerSession& to = session(worker);
  if (to.writes_in_place()) return send(worker, head_of(Parameters{version_, range}));
  for (std::uint64_t end = range.end; end > range.begin;) {
    const std::uint64_t begin = end - std::min(kLetter, end - range.begin);
    const float* data = to.target() + (begin - shard_->range().begin);
    send(worker, head_of(Parameters{version_, {begin, end}}),
         std::as_bytes(std::span(data, end - begin)));
    end = begin;
  }
}

// Beside the links: does a part of the update under way.
bool Server::progress() { return working_ && pool_.help(); }

}  // namespace asup::ps
