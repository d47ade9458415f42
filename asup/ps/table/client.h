// A worker's side of embedding tables that servers keep: pulls rows, pushes their gradients.
//
//   Client client(group_of(job), timeout);
//   std::size_t table = client.add(setup);                 // all workers, in the same order
//   DistinctRows distinct = distinct_rows(ids, setup.rows, servers);
//   client.pull(table, distinct, rows);
//   … the gradient of those rows …
//   client.push(table, distinct, gradient);
//   client.commit(samples, steps);
//
// For the thread that trains. Calls throw JobFailed, naming the server, where one was lost or did
// not answer in time, and BadInput where servers refuse what this worker has said.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "asup/base/clock.h"
#include "asup/net/transport/messenger.h"
#include "asup/ps/table/distinct_rows.h"
#include "asup/ps/table/message.h"
#include "asup/ps/table/setup.h"

namespace asup::ps::table {

class Client : private net::Messenger::Handler {
 public:
  Client(net::MemberGroup group, Seconds timeout);
  ~Client() override;  // leaves

  int servers() const { return group_.servers; }

  // Comes back when all workers have added it.
  std::size_t add(const TableSetup& setup);

  // `to`, `gradient`: the rows one after the other, in the order of `distinct`.
  void pull(std::size_t table, const DistinctRows& distinct, float* to);
  void push(std::size_t table, const DistinctRows& distinct, const float* gradient);
  // What was pushed is the gradient of a step, which counts by its samples. Waits until the commit
  // before this one is in the tables. `steps`: of each table.
  void commit(std::uint64_t samples, std::span<const TableStep> steps);

  // Returns on all workers when all of them have called it: the lowest of them, by its rank.
  int meet();

  // Whole records of rows [begin, end) of the table, one after the other, and the steps that it has
  // had. Between two meetings, where the others are not to change them.
  double read_records(std::size_t table, layout::Range rows, float* to);
  void write_records(std::size_t table, layout::Range rows, const float* from, double steps);

  double wait_seconds() const { return wait_seconds_; }
  std::uint64_t bytes_moved() const { return bytes_moved_; }

 private:
  net::Bytes room_for(int member, net::ConstBytes head, std::uint64_t bytes) override;
  void arrived(int member, net::ConstBytes head, net::Bytes payload) override;
  void gone(int member, net::LinkEnd end) override;
  void failed(const std::string& why) override {
    if (failure_.empty()) failure_ = why;
  }

  template <typename Body>
  void send(int server, const Body& body, std::vector<std::byte> payload = {});
  template <typename Body>
  void ask(int server, Body body, std::vector<std::byte> payload, float* to, std::uint64_t bytes);
  void await_answers();
  void drive(const std::function<bool()>& done, const char* what);
  std::string name_of(int member) const;

  // Constant after construction.
  const net::MemberGroup group_;
  const Seconds timeout_;

  std::vector<TableSetup> setups_;  // by table

  // Under the lock.
  std::optional<net::Messenger> messenger_;
  struct Pending {
    int server = 0;
    net::Bytes to;
  };
  std::map<std::uint64_t, Pending> pending_;  // by question
  std::vector<std::size_t> open_;             // questions, by server
  std::uint64_t questions_ = 0;
  double steps_ = 0;  // as the last answer has it
  int welcomes_ = 0, met_ = 0;
  int first_ = 0;  // of those who met, as server 0 says
  std::uint64_t commits_ = 0;
  std::vector<std::uint64_t> applied_;  // by server
  std::string failure_, departure_;
  bool failure_is_ours_ = false;

  std::uint64_t bytes_moved_ = 0;
  double wait_seconds_ = 0;
};

}  // namespace asup::ps::table
