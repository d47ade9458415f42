#include "asup/ps/table/client.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "asup/base/error.h"

namespace asup::ps::table {
namespace {

std::vector<int> servers_of(const net::MemberGroup& group) {
  std::vector<int> servers(static_cast<std::size_t>(group.servers));
  std::iota(servers.begin(), servers.end(), group.member_of_server(0));
  return servers;
}

template <typename T>
std::vector<std::byte> bytes_of(std::span<const T> items) {
  const auto bytes = std::as_bytes(items);
  return {bytes.begin(), bytes.end()};
}

// Some of a server's rows.
struct Piece {
  std::size_t begin = 0, end = 0;  // among the distinct rows
};
std::vector<Piece> pieces_of(const DistinctRows& distinct, int server, std::size_t row_bytes) {
  const auto at = static_cast<std::size_t>(server);
  const std::size_t most = std::max<std::size_t>(1, kMostBytes / row_bytes);
  std::vector<Piece> pieces;
  for (std::size_t begin = distinct.begins[at]; begin < distinct.begins[at + 1]; begin += most)
    pieces.push_back({begin, std::min(begin + most, distinct.begins[at + 1])});
  return pieces;
}

// The places on a server of rows [begin, end) of the table.
Range places_of(layout::Range rows, int server, int servers) {
  return {rows_on(rows.begin, server, servers), rows_on(rows.end, server, servers)};
}

}  // namespace

Client::Client(net::MemberGroup group, Seconds timeout)
    : group_(group),
      timeout_(timeout),
      open_(static_cast<std::size_t>(group.servers)),
      applied_(static_cast<std::size_t>(group.servers)) {
  const net::MeshLock lock(group_.mesh.loop());
  messenger_.emplace(group_.mesh, group_.id, servers_of(group_),
                     static_cast<net::Messenger::Handler&>(*this));
  messenger_->open();
}

Client::~Client() {
  const net::MeshLock lock(group_.mesh.loop());
  for (int server = 0; server < group_.servers; ++server) send(server, Leave{});
  group_.mesh.loop().drive([&] { return !messenger_->has_unsent(); }, after(Seconds(1)));
  messenger_.reset();
}

std::string Client::name_of(int member) const {
  return group_.mesh.roster().members[static_cast<std::size_t>(member)].describe();
}

template <typename Body>
void Client::send(int server, const Body& body, std::vector<std::byte> payload) {
  bytes_moved_ += payload.size();
  messenger_->send_kept(group_.member_of_server(server), head_of(body), std::move(payload));
}

// Needs the lock.
void Client::drive(const std::function<bool()>& done, const char* what) {
  const auto start = Clock::now();
  auto& loop = group_.mesh.loop();
  const bool came = loop.drive([&] { return done() || !failure_.empty() || !departure_.empty(); },
                               after(timeout_));
  wait_seconds_ += seconds_since(start);
  if (came && failure_.empty() && departure_.empty()) return;
  // Servers leave when they lose one: that one is to be named.
  if (failure_.empty() && !departure_.empty()) {
    loop.drive([&] { return !failure_.empty(); }, after(Seconds(1)));
    if (failure_.empty()) failure_ = departure_;
  }
  messenger_->abandon();  // nothing is written to the caller's memory any more
  pending_.clear();
  if (failure_.empty()) failure_ = fmt::format("no {} within {:g} s", what, timeout_.count());
  if (failure_is_ours_) throw BadInput(failure_);
  throw JobFailed(failure_);
}

std::size_t Client::add(const TableSetup& setup) {
  require_sense(setup);
  const net::MeshLock lock(group_.mesh.loop());
  welcomes_ = 0;
  const std::string text = to_text(setup);
  for (int server = 0; server < group_.servers; ++server)
    send(server, Hello{setups_.size()}, bytes_of(std::span(text.data(), text.size())));
  drive([&] { return welcomes_ == group_.servers; },
        "welcome from the servers, which wait until every worker has made the same table,");
  setups_.push_back(setup);
  return setups_.size() - 1;
}

// Needs the lock. `body.question` is filled in.
template <typename Body>
void Client::ask(int server, Body body, std::vector<std::byte> payload, float* to,
                 std::uint64_t bytes) {
  auto& open = open_[static_cast<std::size_t>(server)];
  drive([&] { return open < kMostQuestions; }, "answer from the servers");
  ++open;
  body.question = ++questions_;
  pending_[body.question] = {server, {reinterpret_cast<std::byte*>(to), bytes}};
  bytes_moved_ += bytes;
  send(server, body, std::move(payload));
}

void Client::await_answers() {
  drive([&] { return pending_.empty(); },
        "rows from the servers, which may wait for other workers' gradients,");
}

void Client::pull(std::size_t table, const DistinctRows& distinct, float* to) {
  const std::size_t width = setups_[table].width;
  const net::MeshLock lock(group_.mesh.loop());
  const std::span<const std::uint64_t> rows(distinct.rows);
  const std::size_t row_bytes = std::max(sizeof(std::uint64_t), width * sizeof(float));
  for (int server = 0; server < group_.servers; ++server)
    for (const auto& [begin, end] : pieces_of(distinct, server, row_bytes))
      ask(server, Pull{0, table}, bytes_of(rows.subspan(begin, end - begin)), to + begin * width,
          (end - begin) * width * sizeof(float));
  await_answers();
}

void Client::push(std::size_t table, const DistinctRows& distinct, const float* gradient) {
  const std::size_t width = setups_[table].width;
  const net::MeshLock lock(group_.mesh.loop());
  for (int server = 0; server < group_.servers; ++server)
    for (const auto& [begin, end] :
         pieces_of(distinct, server, sizeof(std::uint64_t) + width * sizeof(float))) {
      const std::size_t count = end - begin, numbers = count * sizeof(std::uint64_t);
      std::vector<std::byte> payload(numbers + count * width * sizeof(float));
      std::memcpy(payload.data(), distinct.rows.data() + begin, numbers);
      std::memcpy(payload.data() + numbers, gradient + begin * width, payload.size() - numbers);
      send(server, Push{table, count}, std::move(payload));
    }
}

void Client::commit(std::uint64_t samples, std::span<const TableStep> steps) {
  const net::MeshLock lock(group_.mesh.loop());
  for (int server = 0; server < group_.servers; ++server)
    send(server, Commit{samples}, bytes_of(steps));
  ++commits_;
  drive(
      [&] {
        return std::ranges::all_of(applied_,
                                   [&](std::uint64_t applied) { return applied + 1 >= commits_; });
      },
      "update of tables by the servers, which may wait for other workers' gradients,");
}

int Client::meet() {
  const net::MeshLock lock(group_.mesh.loop());
  met_ = 0;
  for (int server = 0; server < group_.servers; ++server) send(server, Meet{});
  drive([&] { return met_ == group_.servers; },
        "meeting of all workers, who save and load tables together,");
  return first_;
}

double Client::read_records(std::size_t table, layout::Range rows, float* to) {
  const std::size_t record = record_floats(setups_[table]);
  const int servers = group_.servers;
  std::vector<std::vector<float>> parts;
  const net::MeshLock lock(group_.mesh.loop());
  for (int server = 0; server < servers; ++server) {
    const Range places = places_of(rows, server, servers);
    parts.emplace_back(places.size() * record);
    ask(server, Read{0, table, places}, {}, parts.back().data(),
        parts.back().size() * sizeof(float));
  }
  await_answers();
  for (std::uint64_t row = rows.begin; row < rows.end; ++row, to += record) {
    const int server = server_of(row, servers);
    const std::uint64_t at = place_of(row, servers) - rows_on(rows.begin, server, servers);
    std::memcpy(to, parts[static_cast<std::size_t>(server)].data() + at * record,
                record * sizeof(float));
  }
  return steps_;
}

void Client::write_records(std::size_t table, layout::Range rows, const float* from, double steps) {
  const std::size_t record = record_floats(setups_[table]);
  const int servers = group_.servers;
  const net::MeshLock lock(group_.mesh.loop());
  for (int server = 0; server < servers; ++server) {
    const Range places = places_of(rows, server, servers);
    std::vector<float> part(places.size() * record);
    for (std::uint64_t place = places.begin; place < places.end; ++place)
      std::memcpy(part.data() + (place - places.begin) * record,
                  from + (row_at(place, server, servers) - rows.begin) * record,
                  record * sizeof(float));
    ask(server, Write{0, table, places, steps}, bytes_of(std::span<const float>(part)), nullptr, 0);
  }
  await_answers();
}

net::Bytes Client::room_for(int member, net::ConstBytes head, std::uint64_t bytes) {
  const auto answer = read<Answer>(head);
  if (!answer || bytes == 0) return {};
  const auto found = pending_.find(answer->question);
  if (found == pending_.end() || found->second.server != group_.server_of(member) ||
      found->second.to.size() != bytes)
    return {};
  return found->second.to;
}

void Client::arrived(int member, net::ConstBytes head, net::Bytes payload) {
  const int server = group_.server_of(member);
  if (const auto answer = read<Answer>(head)) {
    const auto found = pending_.find(answer->question);
    if (found == pending_.end() || found->second.server != server ||
        found->second.to.size() != payload.size()) {
      failure_ = fmt::format("{} answers what it was not asked", name_of(member));
      return;
    }
    pending_.erase(found);
    --open_[static_cast<std::size_t>(server)];
    steps_ = answer->steps;
  } else if (read<Welcome>(head)) {
    ++welcomes_;
  } else if (const auto applied = read<Applied>(head)) {
    applied_[static_cast<std::size_t>(server)] = applied->commits;
  } else if (const auto met = read<Met>(head)) {
    ++met_;
    if (server == 0) first_ = static_cast<int>(met->first);
  } else if (const auto refused = read<Refused>(head)) {
    failure_is_ours_ = refused->own != 0;
    failure_ =
        fmt::format("{}: {}", name_of(member),
                    std::string(reinterpret_cast<const char*>(payload.data()), payload.size()));
  }
}

void Client::gone(int member, net::LinkEnd end) {
  if (end == net::LinkEnd::left)
    departure_ = fmt::format("{} has left the job", name_of(member));
  else if (failure_.empty())
    failure_ = fmt::format("{} was lost", name_of(member));
}

}  // namespace asup::ps::table
