#include "asup/ps/server.h"

#include <algorithm>
#include <cstring>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/base/thread.h"

namespace asup::ps {
namespace {

std::string text_of(net::ConstBytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// At most one of each, of so many.
std::set<int> workers_of(net::ConstBytes bytes, int most) {
  std::vector<std::int32_t> workers(bytes.size() / sizeof(std::int32_t));
  check(std::ssize(workers) <= most, "it has met {} workers of {}", workers.size(), most);
  if (!workers.empty())
    std::memcpy(workers.data(), bytes.data(), workers.size() * sizeof(std::int32_t));
  return {workers.begin(), workers.end()};
}

std::string name_of_member(const net::MemberGroup& group, int member) {
  return group.mesh.roster().members[static_cast<std::size_t>(member)].describe();
}

}  // namespace

Server::Server(net::MemberGroup group, const ServerOptions& options)
    : group_(group),
      options_(options),
      server_(group.server_of(group.mesh.rank())),
      pool_((options.threads > 0 ? options.threads : usable_cores()) - 1) {
  for (int worker = 0; worker < group.workers; ++worker)
    sessions_.push_back(std::make_unique<WorkerSession>(group_.mesh, worker));
  const net::MeshLock lock(group_.mesh.loop());
  messenger_.emplace(group_.mesh, group_.id, group_.members(),
                     static_cast<net::Messenger::Handler&>(*this));
  messenger_->open();
}

Server::~Server() {
  const net::MeshLock lock(group_.mesh.loop());
  // What the pool works on must stay until it is done.
  group_.mesh.loop().drive([&] { return !working_ || awaits_norm_; }, Deadline::max());
  messenger_.reset();
}

void Server::run() {
  const auto over = [&] { return std::ssize(gone_) == group_.workers || !failure_.empty(); };
  const net::MeshLock lock(group_.mesh.loop());
  while (!over()) {
    const Deadline until = next_wake();
    group_.mesh.loop().drive([&] { return over() || next_wake() < until; }, until);
    if (coordinator_ && Clock::now() >= coordinator_->wake()) coordinator_->tick();
    if (!welcomed_ && Clock::now() >= give_up_) complain_of_the_silent();
  }
  if (!failure_.empty()) throw JobFailed(failure_);
}

Deadline Server::next_wake() const {
  Deadline wake = welcomed_ ? Deadline::max() : give_up_;
  if (coordinator_) wake = std::min(wake, coordinator_->wake());
  return wake;
}

void Server::complain_of_the_silent() {
  std::string silent;
  for (int worker = 0; worker < group_.workers; ++worker)
    if (!session(worker).is_open())
      silent += fmt::format("{}{}", silent.empty() ? "" : ", ", name_of_member(group_, worker));
  failure_ = fmt::format("server {}: no hello from {} within {:g} s", server_, silent,
                         options_.patience.count());
}

void Server::send(int member, std::vector<std::byte> head, net::ConstBytes payload) {
  messenger_->send(member, head, payload);
}

void Server::send_text(int member, std::vector<std::byte> head, const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  messenger_->send_kept(member, head, {bytes.begin(), bytes.end()});
}

void Server::refuse(int worker, const std::string& why) {
  const std::string who = name_of_member(group_, worker);
  log().warn("server {} refuses {}: {}", server_, who, why);
  session(worker).close();
  send_text(worker, head_of(Refused{}), why);
  if (welcomed_) return;
  // Nothing can begin without it.
  for (int other = 0; other < group_.workers; ++other)
    if (other != worker) send_text(other, head_of(Refused{}), fmt::format("{}: {}", who, why));
}

net::Bytes Server::room_for(int member, net::ConstBytes head, std::uint64_t bytes) {
  if (!group_.is_worker(member) || bytes == 0) return {};
  if (const auto piece = read<Piece>(head)) return session(member).room_for(*piece, bytes);
  if (const auto known = read<Known>(head)) return session(member).room_for(*known, bytes);
  if (!initial_ || !session(member).is_open()) return {};
  if (const auto initial = read<Initial>(head)) return initial_->room_for(member, *initial, bytes);
  if (const auto updates = read<StateUpdates>(head))
    return initial_->room_for(member, *updates, bytes);
  if (const auto state = read<State>(head)) return initial_->room_for(member, *state, bytes);
  return {};
}

void Server::arrived(int member, net::ConstBytes head, net::Bytes payload) {
  const Kind kind = kind_of(head).value_or(Kind{});
  if (group_.is_worker(member)) {
    if (const auto hello = read<Hello>(head)) return on_hello(member, *hello, payload);
    if (const auto initial = read<Initial>(head)) return on_initial(member, *initial, payload);
    if (const auto piece = read<Piece>(head)) return on_piece(member, *piece, payload);
    if (const auto commit = read<Commit>(head)) return on_commit(member, *commit, payload);
    if (const auto known = read<Known>(head)) return on_known(member, *known, payload);
    if (const auto updates = read<StateUpdates>(head))
      return add_to_initial(member, *updates, payload);
    if (const auto state = read<State>(head)) return add_to_initial(member, *state, payload);
    if (kind == Kind::ask_state || kind == Kind::ask_state_updates)
      return on_question(member, head);
    if (kind == Kind::leave) return gone(member, net::LinkEnd::left);
    if (is_head() && kind == Kind::arrive)
      return coordinator_->arrived(member, workers_of(payload, group_.workers));
    if (is_head() && kind == Kind::ask_sync_point) return coordinator_->ask_sync_point();
    if (is_head() && kind == Kind::report)
      return send_text(member, head_of(Report{}), coordinator_->report());
    return refuse(member, "it sends what no worker sends here");
  }
  if (const auto staged = read<Staged>(head); staged && is_head())
    return coordinator_->staged(staged->worker, staged->push);
  if (const auto squares = read<Squares>(head); squares && is_head())
    return coordinator_->found(squares->version, {squares->pushes, squares->mean});
  if (const auto command_head = read<CommandHead>(head); command_head && member == group_.head()) {
    const auto command = read_command(*command_head, payload);
    check(command && welcomed_, "its command makes no sense, or comes too early");
    require_workers(*command, group_.workers);
    return on_command(*command);
  }
  if (const auto norm = read<Norm>(head)) return on_norm(group_.server_of(member), *norm);
  log().warn("server {}: {} sends what no server sends", server_, name_of_member(group_, member));
}

void Server::gone(int member, net::LinkEnd end) {
  if (!group_.is_worker(member)) {
    // When the work is over, servers leave one after the other.
    if (end == net::LinkEnd::lost)
      failure_ = fmt::format("{} was lost", name_of_member(group_, member));
    return;
  }
  if (!gone_.insert(member).second) return;  // it left before it ended
  session(member).close();
  questions_.erase(member);
  if (end == net::LinkEnd::lost && server_ == 0)  // one of them tells
    log().warn("{} was lost", name_of_member(group_, member));
  if (!coordinator_) return;
  const bool pushed = coordinator_->left(member);
  if (end != net::LinkEnd::lost && !pushed) return;
  // Nobody waits for work that will not come.
  for (const int other : coordinator_->team_of(member))
    if (session(other).is_open())
      refuse(other, fmt::format("{} {}, which had another part of its model",
                                name_of_member(group_, member),
                                end == net::LinkEnd::lost ? "was lost" : "has left"));
}

// A worker says what it trains.
void Server::on_hello(int worker, const Hello& hello, net::ConstBytes payload) {
  if (shard_ || session(worker).is_open()) return refuse(worker, "it greets a second time");
  if (hello.setup_bytes > payload.size() ||
      (payload.size() - hello.setup_bytes) % sizeof(Range) != 0)
    return refuse(worker, "its greeting makes no sense");
  const std::string text = text_of(payload.first(hello.setup_bytes));
  const auto tail = payload.subspan(hello.setup_bytes);
  std::vector<Range> ranges(tail.size() / sizeof(Range));
  if (!ranges.empty()) std::memcpy(ranges.data(), tail.data(), tail.size());
  try {
    const ServerSetup setup = parse_setup(text);
    require_sense(setup, group_.workers, group_.servers);
    if (!setup_) {
      setup_ = setup;
      coded_ = coded_parts(setup);
      initial_.emplace(shard_range(), *setup_);
      give_up_ = after(options_.patience);
    }
    if (const std::string other = difference(*setup_, setup); !other.empty())
      return refuse(worker,
                    fmt::format("this worker and another one train different things: {}", other));
    if (const auto complaint = session(worker).open(shard_range(), std::move(ranges),
                                                    hello.parameters, coded_, hello.first);
        !complaint.empty())
      return refuse(worker, complaint);
  } catch (const BadInput& error) {
    return refuse(worker, error.what());
  }
  make_shard_when_all_came();
}

// needs: setup_
Range Server::shard_range() const {
  return shards_of(*setup_, group_.servers)[static_cast<std::size_t>(server_)];
}

void Server::make_shard_when_all_came() {
  if (shard_ || std::any_of(sessions_.begin(), sessions_.end(),
                            [](const auto& session) { return !session->is_open(); }))
    return;
  std::vector<std::uint64_t> cuts;
  for (const auto& session : sessions_)
    for (const Range& range : session->ranges()) cuts.insert(cuts.end(), {range.begin, range.end});
  shard_ = std::make_unique<Shard>(shard_range(), *setup_, std::move(cuts));
  welcome_when_ready();
}

// The first parameters, which may come before the last worker has said what it trains.
void Server::on_initial(int worker, const Initial& initial, net::ConstBytes payload) {
  if (!session(worker).is_open()) return;  // refused
  const bool is_here = !initial.range.empty() && shard_range().contains(initial.range);
  if (initial.address.region == 0 || !is_here) return add_to_initial(worker, initial, payload);
  const std::uint64_t bytes = initial.range.size() * sizeof(float);
  const std::byte* data =
      group_.mesh.reach(worker, {initial.address.region, initial.address.offset}, bytes);
  if (!data)
    return refuse(worker,
                  fmt::format("its parameters should lie in region {} at {}, which is not theirs",
                              initial.address.region, initial.address.offset));
  add_to_initial(worker, initial, {data, bytes});
}

template <typename Part>
void Server::add_to_initial(int worker, const Part& part, net::ConstBytes payload) {
  if (!session(worker).is_open()) return;  // refused
  if (!initial_) return refuse(worker, "it sends what to begin with, and all have begun");
  if (const auto complaint = initial_->add(worker, part, payload); !complaint.empty())
    return refuse(worker, complaint);
  welcome_when_ready();
}

void Server::welcome_when_ready() {
  if (!shard_ || welcomed_ || !initial_->complete()) return;
  initial_->move_into(*shard_);
  initial_.reset();
  welcomed_ = true;
  if (server_ == 0)
    coordinator_.emplace(group_.workers, group_.servers, *setup_, version_,
                         static_cast<ServerCoordinator::Delegate&>(*this));
  for (int worker = 0; worker < group_.workers; ++worker) send(worker, head_of(Welcome{version_}));
}

void Server::on_piece(int worker, const Piece& piece, net::ConstBytes payload) {
  if (!session(worker).is_open()) return;
  if (const auto complaint = session(worker).add(piece, payload); !complaint.empty())
    refuse(worker, complaint);
}

void Server::on_commit(int worker, const Commit& commit, net::ConstBytes payload) {
  if (!session(worker).is_open()) return;
  if (!welcomed_) return refuse(worker, "it pushes before all have begun");
  if (payload.size() != setup_->rules.size() * sizeof(double))
    return refuse(worker, fmt::format("its push {} has {} bytes of learning rates, for {} groups",
                                      commit.push, payload.size(), setup_->rules.size()));
  std::vector<double> lr(setup_->rules.size());
  std::memcpy(lr.data(), payload.data(), payload.size());
  std::string complaint = session(worker).commit(commit, std::move(lr));
  if (complaint.empty() && is_head()) complaint = coordinator_->committed(worker, commit);
  if (!complaint.empty()) return refuse(worker, complaint);
  if (is_head())
    coordinator_->staged(worker, commit.push);
  else
    send(group_.head(), head_of(Staged{worker, commit.push}));
}

void Server::give_command(const Command& command) {
  for (int server = 1; server < group_.servers; ++server)
    messenger_->send_kept(group_.member_of_server(server), head_of(head_of_command(command)),
                          payload_of(command));
  on_command(command);
}

void Server::tell(int worker, const Release& release) { send(worker, head_of(release)); }

}  // namespace asup::ps
