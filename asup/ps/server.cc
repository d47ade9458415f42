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

std::set<int> workers_of(net::ConstBytes bytes) {
  std::vector<std::int32_t> workers(bytes.size() / sizeof(std::int32_t));
  if (!workers.empty())
    std::memcpy(workers.data(), bytes.data(), workers.size() * sizeof(std::int32_t));
  return {workers.begin(), workers.end()};
}

std::string name_of_member(const Team& team, int member) {
  return team.mesh.roster().members[static_cast<std::size_t>(member)].describe();
}

}  // namespace

Server::Server(Team team, const ServerOptions& options)
    : team_(team),
      options_(options),
      server_(team.server_of(team.mesh.rank())),
      crew_((options.threads > 0 ? options.threads : usable_cores()) - 1) {
  for (int worker = 0; worker < team.workers; ++worker)
    desks_.push_back(std::make_unique<Desk>(team_.mesh, worker));
  const net::Loop::Turn turn(team_.mesh.loop());
  mail_.emplace(team_.mesh, team_.id, team_.members(), static_cast<net::Mail::Handler&>(*this));
  mail_->open();
}

Server::~Server() {
  const net::Loop::Turn turn(team_.mesh.loop());
  // What the crew works on must stay until it is done.
  team_.mesh.loop().drive([&] { return !working_; }, Deadline::max());
  mail_.reset();
}

void Server::run() {
  const auto over = [&] { return std::ssize(gone_) == team_.workers || !failure_.empty(); };
  const net::Loop::Turn turn(team_.mesh.loop());
  while (!over()) {
    const Deadline until = next_wake();
    team_.mesh.loop().drive([&] { return over() || next_wake() < until; }, until);
    if (office_ && Clock::now() >= office_->wake()) office_->tick();
    if (!welcomed_ && Clock::now() >= give_up_) complain_of_the_silent();
  }
  if (!failure_.empty()) throw JobFailed(failure_);
}

Deadline Server::next_wake() const {
  Deadline wake = welcomed_ ? Deadline::max() : give_up_;
  if (office_) wake = std::min(wake, office_->wake());
  if (snapshot_) wake = std::min(wake, after(Seconds(0.01)));  // to see whether it is done
  return wake;
}

void Server::complain_of_the_silent() {
  std::string silent;
  for (int worker = 0; worker < team_.workers; ++worker)
    if (!desk(worker).is_open())
      silent += fmt::format("{}{}", silent.empty() ? "" : ", ", name_of_member(team_, worker));
  failure_ = fmt::format("server {}: no word from {} within {:g} s", server_, silent,
                         options_.patience.count());
}

void Server::send(int member, std::vector<std::byte> head, net::ConstBytes payload) {
  mail_->send(member, head, payload);
}

void Server::send_text(int member, std::vector<std::byte> head, const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  mail_->send_kept(member, head, {bytes.begin(), bytes.end()});
}

void Server::refuse(int worker, const std::string& why) {
  const std::string who = name_of_member(team_, worker);
  log().warn("server {} refuses {}: {}", server_, who, why);
  desk(worker).close();
  send_text(worker, head_of(Refused{}), why);
  if (welcomed_) return;
  // Nothing can begin without it.
  for (int other = 0; other < team_.workers; ++other)
    if (other != worker) send_text(other, head_of(Refused{}), fmt::format("{}: {}", who, why));
}

net::Bytes Server::room_for(int member, net::ConstBytes head, std::uint64_t bytes) {
  if (!team_.is_worker(member) || bytes == 0) return {};
  if (const auto piece = read<Piece>(head)) return desk(member).room_for(*piece, bytes);
  if (const auto initial = read<Initial>(head); initial && may_begin_with(*initial, bytes)) {
    first_ = Floats(initial->range.size());
    return std::as_writable_bytes(std::span(first_.data(), first_.size()));
  }
  return {};
}

void Server::arrived(int member, net::ConstBytes head, net::Bytes payload) {
  const Kind kind = kind_of(head).value_or(Kind{});
  if (team_.is_worker(member)) {
    if (const auto hello = read<Hello>(head)) return on_hello(member, *hello, payload);
    if (const auto initial = read<Initial>(head)) return on_initial(member, *initial, payload);
    if (const auto piece = read<Piece>(head)) return on_piece(member, *piece, payload);
    if (const auto commit = read<Commit>(head)) return on_commit(member, *commit);
    if (kind == Kind::leave) return gone(member, net::LinkEnd::left);
    if (is_head() && kind == Kind::arrive) return office_->arrived(member, workers_of(payload));
    if (is_head() && kind == Kind::ask_fence) return office_->ask_fence();
    if (is_head() && kind == Kind::save) return office_->save(member, text_of(payload));
    if (is_head() && kind == Kind::report)
      return send_text(member, head_of(Report{}), office_->report());
    return refuse(member, "it sends what no worker sends here");
  }
  if (const auto staged = read<Staged>(head); staged && is_head())
    return office_->staged(staged->worker, staged->push);
  if (kind == Kind::saved && is_head()) return office_->saved(text_of(payload));
  if (const auto order_head = read<OrderHead>(head); order_head && member == team_.head())
    if (const auto order = read_order(*order_head, payload)) return on_order(*order);
  log().warn("server {}: {} sends what no server sends", server_, name_of_member(team_, member));
}

void Server::gone(int member, net::LinkEnd end) {
  if (!team_.is_worker(member)) {
    // When the work is over, servers leave one after the other.
    if (end == net::LinkEnd::lost)
      failure_ = fmt::format("{} was lost", name_of_member(team_, member));
    return;
  }
  if (!gone_.insert(member).second) return;  // it left before it ended
  desk(member).close();
  if (end == net::LinkEnd::lost) log().warn("{} was lost", name_of_member(team_, member));
  if (office_) office_->left(member);
}

// A worker says what it trains.
void Server::on_hello(int worker, const Hello& hello, net::ConstBytes payload) {
  if (hello.setup_bytes > payload.size() ||
      (payload.size() - hello.setup_bytes) % sizeof(Range) != 0)
    return refuse(worker, "its greeting makes no sense");
  const std::string text = text_of(payload.first(hello.setup_bytes));
  const auto tail = payload.subspan(hello.setup_bytes);
  std::vector<Range> ranges(tail.size() / sizeof(Range));
  if (!ranges.empty()) std::memcpy(ranges.data(), tail.data(), tail.size());
  try {
    const Setup setup = parse_setup(text);
    require_sense(setup, team_.workers, team_.servers);
    if (!setup_) {
      setup_ = setup;
      give_up_ = after(options_.patience);
    }
    if (const std::string other = difference(*setup_, setup); !other.empty())
      return refuse(worker,
                    fmt::format("this worker and another one train different things: {}", other));
    const Range shard = shards_of(setup, team_.servers)[static_cast<std::size_t>(server_)];
    if (const auto complaint = desk(worker).open(shard, std::move(ranges), hello.parameters);
        !complaint.empty())
      return refuse(worker, complaint);
  } catch (const BadInput& error) {
    return refuse(worker, error.what());
  }
  make_shard_when_all_came();
}

void Server::make_shard_when_all_came() {
  if (shard_ ||
      std::any_of(desks_.begin(), desks_.end(), [](const auto& desk) { return !desk->is_open(); }))
    return;
  std::vector<std::uint64_t> cuts;
  for (const auto& desk : desks_)
    for (const Range& range : desk->ranges()) cuts.insert(cuts.end(), {range.begin, range.end});
  const Range range = shards_of(*setup_, team_.servers)[static_cast<std::size_t>(server_)];
  shard_ = std::make_unique<Shard>(range, setup_->rule, setup_->layout, std::move(cuts));
  try {
    if (!setup_->resume.empty())
      version_ = load_shard(*shard_, setup_->resume, setup_->layout.elements);
  } catch (const BadInput& error) {
    for (int worker = 0; worker < team_.workers; ++worker) refuse(worker, error.what());
    return;
  }
  welcome_when_ready();
}

// Parameters of this shard, from a worker that has said what it trains.
bool Server::may_begin_with(const Initial& initial, std::uint64_t bytes) const {
  if (!setup_ || first_.size() > 0) return false;
  const Range range = shards_of(*setup_, team_.servers)[static_cast<std::size_t>(server_)];
  return initial.range == range && bytes == range.size() * sizeof(float);
}

// The first parameters, which may come before the last worker has said what it trains.
void Server::on_initial(int worker, const Initial& initial, net::ConstBytes payload) {
  if (!desk(worker).is_open()) return;  // refused
  if (initial.place.region != 0) {
    const std::uint64_t bytes = initial.range.size() * sizeof(float);
    const std::byte* data =
        team_.mesh.reach(worker, {initial.place.region, initial.place.offset}, bytes);
    if (data && may_begin_with(initial, bytes)) {
      first_ = Floats(initial.range.size());
      std::memcpy(first_.data(), data, bytes);
      payload = std::as_bytes(std::span(first_.data(), first_.size()));
    }
  }
  if (first_.size() == 0 || payload.data() != std::as_bytes(std::span(first_.data(), 1)).data())
    return refuse(worker, fmt::format("its first parameters, elements {} to {}, are not those of "
                                      "this shard, or came before",
                                      initial.range.begin, initial.range.end));
  first_came_ = true;
  welcome_when_ready();
}

void Server::welcome_when_ready() {
  if (!shard_ || welcomed_) return;
  if (setup_->resume.empty()) {
    if (!first_came_) return;
    std::memcpy(shard_->parameters(), first_.data(), first_.size() * sizeof(float));
    first_ = Floats();
  }
  welcomed_ = true;
  if (server_ == 0)
    office_.emplace(team_.workers, team_.servers, *setup_, version_,
                    static_cast<HeadOffice::Staff&>(*this));
  for (int worker = 0; worker < team_.workers; ++worker) send(worker, head_of(Welcome{version_}));
}

void Server::on_piece(int worker, const Piece& piece, net::ConstBytes payload) {
  if (!desk(worker).is_open()) return;
  if (const auto complaint = desk(worker).add(piece, payload); !complaint.empty())
    refuse(worker, complaint);
}

void Server::on_commit(int worker, const Commit& commit) {
  if (!desk(worker).is_open()) return;
  std::string complaint = desk(worker).commit(commit);
  if (complaint.empty() && is_head()) complaint = office_->committed(worker, commit);
  if (!complaint.empty()) return refuse(worker, complaint);
  if (is_head())
    office_->staged(worker, commit.push);
  else
    send(team_.head(), head_of(Staged{worker, commit.push}));
}

void Server::give_order(const Order& order) {
  for (int server = 1; server < team_.servers; ++server)
    mail_->send_kept(team_.member_of_server(server), head_of(head_of_order(order)),
                     payload_of(order));
  on_order(order);
}

void Server::tell(int worker, const Release& release) { send(worker, head_of(release)); }

void Server::tell_saved(int worker, const std::string& complaint) {
  send_text(worker, head_of(Saved{}), complaint);
}

}  // namespace asup::ps
