// A server's part of all embedding tables of a job: takes rows' gradients in, updates rows, and
// hands them out. It is there as long as the job, beside the model that the server keeps, if any.
//
// In bsp the k-th commits of all workers make one update, and a worker that has committed k times
// gets rows when k updates are done. In asp each commit is an update at once. A lost worker's
// commits count as far as updates have them, and nobody waits for it any more.
//
// Everything runs on the thread that serves the links, under the mesh's lock.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "asup/net/transport/messenger.h"
#include "asup/ps/table/message.h"
#include "asup/ps/table/shard.h"

namespace asup::ps::table {

class Server : private net::Messenger::Handler {
 public:
  explicit Server(net::MemberGroup group);
  ~Server() override;

 private:
  // A worker's gradient of a step.
  struct Staged {
    std::vector<std::vector<Chunk>> chunks;  // by table
    std::vector<TableStep> steps;            // by table
    std::uint64_t samples = 0;

    // Not those that were made after it.
    bool trains(std::size_t table) const {
      return table < steps.size() && steps[table].trained != 0;
    }
  };
  struct Question {
    Pull pull;
    std::vector<std::uint64_t> rows;
  };
  struct Session {
    bool here = true;           // may still say something
    std::uint64_t greeted = 0;  // tables
    std::uint64_t commits = 0, applied = 0;
    std::uint64_t samples = 0;       // of its last commit
    Staged coming;                   // of the next commit
    std::vector<std::byte> room;     // for the push that arrives
    std::deque<Staged> staged;       // complete
    std::deque<Question> questions;  // that wait for updates
    bool meets = false;
  };
  struct Table {
    std::unique_ptr<Shard> shard;
    bool welcomed = false;
  };

  // From the links.
  net::Bytes room_for(int member, net::ConstBytes head, std::uint64_t bytes) override;
  void arrived(int member, net::ConstBytes head, net::Bytes payload) override;
  void gone(int member, net::LinkEnd end) override;
  void failed(const std::string& why) override;

  // Complaints; empty where there is none.
  std::string on_hello(int worker, const Hello& hello, net::ConstBytes payload);
  std::string on_pull(int worker, const Pull& pull, net::ConstBytes payload);
  std::string on_push(int worker, const Push& push, net::ConstBytes payload);
  std::string on_commit(int worker, const Commit& commit, net::ConstBytes payload);
  std::string on_read(int worker, const Read& ask);
  std::string on_write(int worker, const Write& write, net::ConstBytes payload);
  std::string take(int worker, net::ConstBytes head, net::ConstBytes payload);

  void refuse(int worker, const std::string& why, bool tell_all);
  void settle();
  void welcome_when_all_came();
  bool is_step_complete() const;
  void update_together();
  void update_alone(int worker);
  void answer_questions();
  void let_those_go_who_met();
  void answer(int worker, const Pull& pull, const std::vector<std::uint64_t>& rows);
  Shard* find(std::uint64_t table) const;
  template <typename Body>
  void send(int worker, const Body& body, std::vector<std::byte> payload = {});

  // Constant after construction.
  const net::MemberGroup group_;
  const int server_;

  // Under the lock.
  std::optional<net::Messenger> messenger_;
  std::vector<Session> sessions_;  // by worker
  std::vector<Table> tables_;
};

}  // namespace asup::ps::table
