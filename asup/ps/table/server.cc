#include "asup/ps/table/server.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "asup/base/error.h"
#include "asup/base/log.h"

namespace asup::ps::table {
namespace {

constexpr std::size_t kMostStaged = 4;  // commits of a worker

std::vector<int> workers_of(const net::MemberGroup& group) {
  std::vector<int> workers(static_cast<std::size_t>(group.workers));
  std::iota(workers.begin(), workers.end(), 0);
  return workers;
}

std::uint64_t bytes_of(const Push& push, const TableSetup& setup) {
  return push.count * (sizeof(std::uint64_t) + setup.width * sizeof(float));
}

bool fits(const Push& push, const TableSetup& setup, std::uint64_t bytes) {
  return bytes <= kMostBytes && push.count <= kMostBytes && bytes_of(push, setup) == bytes;
}

}  // namespace

Server::Server(net::MemberGroup group)
    : group_(group),
      server_(group.server_of(group.mesh.rank())),
      sessions_(static_cast<std::size_t>(group.workers)) {
  const net::MeshLock lock(group_.mesh.loop());
  messenger_.emplace(group_.mesh, group_.id, workers_of(group_),
                     static_cast<net::Messenger::Handler&>(*this));
  messenger_->open();
}

Server::~Server() {
  const net::MeshLock lock(group_.mesh.loop());
  messenger_.reset();
}

template <typename Body>
void Server::send(int worker, const Body& body, std::vector<std::byte> payload) {
  messenger_->send_kept(worker, head_of(body), std::move(payload));
}

// One that all workers have said hello to.
Shard* Server::find(std::uint64_t table) const {
  return table < tables_.size() && tables_[table].welcomed ? tables_[table].shard.get() : nullptr;
}

net::Bytes Server::room_for(int member, net::ConstBytes head, std::uint64_t bytes) {
  Session& session = sessions_[static_cast<std::size_t>(member)];
  const auto push = read<Push>(head);
  if (!push || bytes == 0 || !session.here) return {};
  const Shard* shard = find(push->table);
  if (!shard || !fits(*push, shard->setup(), bytes)) return {};
  session.room.resize(bytes);
  return session.room;
}

void Server::arrived(int member, net::ConstBytes head, net::Bytes payload) {
  if (!sessions_[static_cast<std::size_t>(member)].here) return;  // refused, or it has left
  if (const std::string complaint = take(member, head, payload); !complaint.empty())
    refuse(member, complaint, /*tell_all=*/read<Hello>(head).has_value());
  settle();
}

std::string Server::take(int worker, net::ConstBytes head, net::ConstBytes payload) {
  if (const auto hello = read<Hello>(head)) return on_hello(worker, *hello, payload);
  if (const auto pull = read<Pull>(head)) return on_pull(worker, *pull, payload);
  if (const auto push = read<Push>(head)) return on_push(worker, *push, payload);
  if (const auto commit = read<Commit>(head)) return on_commit(worker, *commit, payload);
  if (const auto ask = read<Read>(head)) return on_read(worker, *ask);
  if (const auto write = read<Write>(head)) return on_write(worker, *write, payload);
  Session& session = sessions_[static_cast<std::size_t>(worker)];
  if (read<Meet>(head)) {
    session.meets = true;
  } else if (read<Leave>(head)) {
    session.here = false;
  } else {
    return "it says what no worker says of tables";
  }
  return "";
}

void Server::gone(int member, net::LinkEnd end) {
  Session& session = sessions_[static_cast<std::size_t>(member)];
  session.here = false;
  session.questions.clear();
  if (end == net::LinkEnd::lost) session.staged.clear();
  settle();
}

// The thread that serves knows of shards, not of tables: the workers hear of it.
void Server::failed(const std::string& why) {
  for (int worker = 0; worker < group_.workers; ++worker)
    if (sessions_[static_cast<std::size_t>(worker)].here) refuse(worker, why, /*tell_all=*/false);
}

// A table that not all want alike begins for nobody: then all are told.
void Server::refuse(int worker, const std::string& why, bool tell_all) {
  const std::string who = group_.mesh.roster().members[static_cast<std::size_t>(worker)].describe();
  log().warn("server {} refuses the rows of {}: {}", server_, who, why);
  Session& session = sessions_[static_cast<std::size_t>(worker)];
  session.here = false;
  session.coming = {};
  session.staged.clear();
  session.questions.clear();
  const auto say = [&](int to, bool own, const std::string& text) {
    const auto bytes = std::as_bytes(std::span(text));
    send(to, Refused{own ? 1u : 0u}, {bytes.begin(), bytes.end()});
  };
  say(worker, true, why);
  for (int other = 0; tell_all && other < group_.workers; ++other)
    if (other != worker) say(other, false, fmt::format("{}: {}", who, why));
}

std::string Server::on_hello(int worker, const Hello& hello, net::ConstBytes payload) {
  Session& session = sessions_[static_cast<std::size_t>(worker)];
  if (hello.table != session.greeted || hello.table > tables_.size())
    return fmt::format(
        "it says hello to table {} after {} tables: a worker has one Embeddings "
        "for a job",
        hello.table, session.greeted);
  try {
    const TableSetup setup =
        parse_setup({reinterpret_cast<const char*>(payload.data()), payload.size()});
    require_sense(setup);
    if (hello.table == tables_.size()) {
      if (!tables_.empty() && tables_[0].shard->setup().synchronous != setup.synchronous)
        return "its tables are of different paces";
      tables_.push_back({std::make_unique<Shard>(setup, server_, group_.servers)});
    }
    const std::string other = difference(tables_[hello.table].shard->setup(), setup);
    if (!other.empty())
      return fmt::format("this worker and another one want different tables: {}", other);
  } catch (const BadInput& error) {
    return error.what();
  }
  ++session.greeted;
  return "";
}

void Server::welcome_when_all_came() {
  if (tables_.empty() || tables_.back().welcomed) return;
  const bool all = std::ranges::all_of(sessions_, [&](const Session& session) {
    return !session.here || session.greeted == tables_.size();
  });
  if (!all) return;
  tables_.back().welcomed = true;
  for (int worker = 0; worker < group_.workers; ++worker) send(worker, Welcome{tables_.size() - 1});
}

std::string Server::on_pull(int worker, const Pull& pull, net::ConstBytes payload) {
  Session& session = sessions_[static_cast<std::size_t>(worker)];
  const Shard* shard = find(pull.table);
  if (!shard) return fmt::format("it asks for rows of table {}, which is not there", pull.table);
  std::vector<std::uint64_t> rows(payload.size() / sizeof(std::uint64_t));
  if (rows.size() * sizeof(std::uint64_t) != payload.size() ||
      rows.size() * shard->setup().width * sizeof(float) > kMostBytes)
    return fmt::format("it asks for rows by {} bytes", payload.size());
  if (!rows.empty()) std::memcpy(rows.data(), payload.data(), payload.size());
  if (!shard->has(rows))
    return fmt::format("it asks for rows of table {} that are not here, or not in order",
                       shard->setup().name);
  if (session.questions.size() >= kMostQuestions) return "it asks too much at once";
  session.questions.push_back({pull, std::move(rows)});
  return "";
}

std::string Server::on_push(int worker, const Push& push, net::ConstBytes payload) {
  Session& session = sessions_[static_cast<std::size_t>(worker)];
  const Shard* shard = find(push.table);
  if (!shard) return fmt::format("it pushes rows of table {}, which is not there", push.table);
  if (payload.data() != session.room.data() || !fits(push, shard->setup(), payload.size()))
    return fmt::format("it pushes {} rows of table {} in {} bytes", push.count, shard->setup().name,
                       payload.size());
  Chunk chunk{std::move(session.room), static_cast<std::size_t>(push.count)};
  session.room = {};
  if (chunk.count == 0) return "";
  const std::span rows(chunk.rows(), chunk.count);
  session.coming.chunks.resize(tables_.size());
  auto& chunks = session.coming.chunks[push.table];
  const bool ascends =
      chunks.empty() || chunks.back().rows()[chunks.back().count - 1] < rows.front();
  if (!ascends || !shard->has(rows))
    return fmt::format("it pushes rows of table {} that are not here, or not in order",
                       shard->setup().name);
  chunks.push_back(std::move(chunk));
  return "";
}

std::string Server::on_commit(int worker, const Commit& commit, net::ConstBytes payload) {
  Session& session = sessions_[static_cast<std::size_t>(worker)];
  if (tables_.empty() || !tables_.back().welcomed ||
      payload.size() != tables_.size() * sizeof(TableStep))
    return fmt::format("it commits a step of {} bytes, of {} tables", payload.size(),
                       tables_.size());
  if (session.staged.size() >= kMostStaged) return "it commits steps without waiting for others";
  Staged staged = std::exchange(session.coming, {});
  staged.samples = commit.samples;
  staged.chunks.resize(tables_.size());
  staged.steps.resize(tables_.size());
  std::memcpy(staged.steps.data(), payload.data(), payload.size());
  for (const TableStep& step : staged.steps)
    if (!std::isfinite(step.lr) || step.lr < 0)
      return fmt::format("it commits a step with a learning rate of {}", step.lr);
  session.staged.push_back(std::move(staged));
  ++session.commits;
  return "";
}

std::string Server::on_read(int worker, const Read& ask) {
  const Shard* shard = find(ask.table);
  if (!shard || ask.places.end > shard->rows() || ask.places.begin > ask.places.end)
    return fmt::format("it reads rows {} to {} of table {}, which are not here", ask.places.begin,
                       ask.places.end, ask.table);
  const std::uint64_t record = record_floats(shard->setup()) * sizeof(float);
  if (ask.places.size() > kMostBytes / record) return "it reads too much at once";
  std::vector<std::byte> records(ask.places.size() * record);
  shard->read_records(ask.places, reinterpret_cast<float*>(records.data()));
  send(worker, Answer{ask.question, shard->steps()}, std::move(records));
  return "";
}

std::string Server::on_write(int worker, const Write& write, net::ConstBytes payload) {
  Shard* shard = find(write.table);
  if (!shard || write.places.end > shard->rows() || write.places.begin > write.places.end ||
      payload.size() > kMostBytes ||
      payload.size() != write.places.size() * record_floats(shard->setup()) * sizeof(float))
    return fmt::format("it writes {} bytes to rows {} to {} of table {}, which do not fit",
                       payload.size(), write.places.begin, write.places.end, write.table);
  if (!std::isfinite(write.steps) || write.steps < 0)
    return fmt::format("it writes a table of {} steps", write.steps);
  shard->write_records(write.places, reinterpret_cast<const float*>(payload.data()));
  shard->set_steps(write.steps);
  send(worker, Answer{write.question, write.steps});
  return "";
}

// Does all that has become due.
void Server::settle() {
  welcome_when_all_came();
  if (!tables_.empty()) {
    if (tables_[0].shard->setup().synchronous)
      while (is_step_complete()) update_together();
    else
      for (int worker = 0; worker < group_.workers; ++worker)
        while (!sessions_[static_cast<std::size_t>(worker)].staged.empty()) update_alone(worker);
  }
  answer_questions();
  let_those_go_who_met();
}

bool Server::is_step_complete() const {
  const auto has_one = [](const Session& session) { return !session.staged.empty(); };
  return std::ranges::any_of(sessions_, has_one) &&
         std::ranges::all_of(
             sessions_, [&](const Session& session) { return !session.here || has_one(session); });
}

void Server::update_together() {
  double samples = 0;
  for (const Session& session : sessions_)
    if (!session.staged.empty()) samples += static_cast<double>(session.staged.front().samples);
  for (std::size_t table = 0; table < tables_.size(); ++table) {
    std::vector<Shard::Source> sources;
    bool trained = false;
    for (const Session& session : sessions_) {
      if (session.staged.empty() || session.staged.front().samples == 0) continue;
      const Staged& staged = session.staged.front();
      if (!staged.trains(table)) continue;
      trained = true;
      sources.push_back({staged.chunks[table], static_cast<double>(staged.samples) / samples,
                         staged.steps[table].lr});
    }
    if (trained) tables_[table].shard->update(sources, 1);
  }
  for (int worker = 0; worker < group_.workers; ++worker) {
    Session& session = sessions_[static_cast<std::size_t>(worker)];
    if (session.staged.empty()) continue;
    session.staged.pop_front();
    if (session.here) send(worker, Applied{++session.applied});
  }
}

// A push is the share of a step that its samples are of the last ones of all workers.
void Server::update_alone(int worker) {
  Session& session = sessions_[static_cast<std::size_t>(worker)];
  const Staged staged = std::move(session.staged.front());
  session.staged.pop_front();
  if (staged.samples > 0) {
    session.samples = staged.samples;
    const auto own = static_cast<double>(staged.samples);
    double step = 0;
    for (const Session& other : sessions_)
      if (other.here || &other == &session)
        step += other.samples > 0 ? static_cast<double>(other.samples) : own;
    for (std::size_t table = 0; table < tables_.size(); ++table) {
      if (!staged.trains(table)) continue;
      const Shard::Source source{staged.chunks[table], own / step, staged.steps[table].lr};
      tables_[table].shard->update({&source, 1}, own / step);
    }
  }
  if (session.here) send(worker, Applied{++session.applied});
}

void Server::answer_questions() {
  for (int worker = 0; worker < group_.workers; ++worker) {
    Session& session = sessions_[static_cast<std::size_t>(worker)];
    for (; session.here && session.staged.empty() && !session.questions.empty();
         session.questions.pop_front())
      answer(worker, session.questions.front().pull, session.questions.front().rows);
  }
}

void Server::answer(int worker, const Pull& pull, const std::vector<std::uint64_t>& rows) {
  const Shard& shard = *tables_[pull.table].shard;
  std::vector<std::byte> payload(rows.size() * shard.setup().width * sizeof(float));
  shard.read(rows, reinterpret_cast<float*>(payload.data()));
  send(worker, Answer{pull.question, shard.steps()}, std::move(payload));
}

void Server::let_those_go_who_met() {
  const auto first = std::ranges::find_if(sessions_, &Session::here);
  if (std::ranges::any_of(sessions_,
                          [](const Session& session) { return session.here && !session.meets; }))
    return;
  for (int worker = 0; worker < group_.workers; ++worker) {
    Session& session = sessions_[static_cast<std::size_t>(worker)];
    if (session.here && std::exchange(session.meets, false))
      send(worker, Met{static_cast<std::uint64_t>(first - sessions_.begin())});
  }
}

}  // namespace asup::ps::table
