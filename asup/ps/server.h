// One parameter server: keeps a shard of the model, takes pushes in, carries the head's commands
// out, and hands parameters out. The first server is the head too (server_coordinator.h).
//
// The thread that calls run() serves the links; updates of large shards run on a pool of threads
// beside it, one command at a time.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "asup/net/member_group.h"
#include "asup/net/transport/messenger.h"
#include "asup/ps/command.h"
#include "asup/ps/initial_shard.h"
#include "asup/ps/server_coordinator.h"
#include "asup/ps/server_setup.h"
#include "asup/ps/thread_pool.h"
#include "asup/ps/worker_session.h"

namespace asup::ps {

struct ServerOptions {
  int threads = 0;        // that update, its own included; 0: as many as there are cores
  Seconds patience{300};  // from the first worker that comes to the last
};

class Server : private net::Messenger::Handler, private ServerCoordinator::Delegate {
 public:
  Server(net::MemberGroup group, const ServerOptions& options);
  ~Server() override;

  // Serves until all workers have left or are lost. Throws JobFailed where it cannot go on: another
  // server was lost, the workers disagree about the model.
  void run();

 private:
  // From the links.
  net::Bytes room_for(int member, net::ConstBytes head, std::uint64_t bytes) override;
  void arrived(int member, net::ConstBytes head, net::Bytes payload) override;
  void gone(int member, net::LinkEnd end) override;
  bool progress() override;
  void failed(const std::string& why) override {
    if (failure_.empty()) failure_ = why;
  }

  void on_hello(int worker, const Hello& hello, net::ConstBytes payload);
  void on_initial(int worker, const Initial& initial, net::ConstBytes payload);
  template <typename Part>
  void add_to_initial(int worker, const Part& part, net::ConstBytes payload);
  void on_piece(int worker, const Piece& piece, net::ConstBytes payload);
  void on_commit(int worker, const Commit& commit, net::ConstBytes payload);
  void on_known(int worker, const Known& known, net::ConstBytes payload);
  void on_command(const Command& command);
  void on_norm(int server, const Norm& norm);
  Range shard_range() const;
  void make_shard_when_all_came();
  void welcome_when_ready();
  void refuse(int worker, const std::string& why);

  // From the head's coordinator, where it is here.
  void give_command(const Command& command) override;
  void tell(int worker, const Release& release) override;

  // Commands, one at a time.
  using Step = void (Server::*)();
  void carry_out(Step step);
  void post(Step step);
  void start_next_command();
  void make_job(const Command& command);
  void start_comparison();
  double clip_of(const Command& command);
  bool is_small() const;
  void do_small_command();
  void start_squares();
  void tell_norm();
  void go_on_when_norm_is_known();
  void start_measures();
  void start_update();
  void start_coding();
  void finish_command();
  void end_command();
  void tell_squares();
  void hand_out(int worker);
  void send_as_they_are(int worker, Range range);

  // Where parameters travel in a code: what each worker of a command gets.
  void plan_differences(const Command& command);
  void plan_whole(int worker, std::uint64_t version);
  void plan_difference(const std::vector<int>& workers, std::uint64_t version);
  void send_difference(int worker, const std::shared_ptr<CodedDifference>& difference);
  void share_shadow(int worker);

  // A worker asks for the state of the rule, with AskState or AskStateUpdates.
  void on_question(int worker, net::ConstBytes head);
  void answer_questions();
  std::string answer(int worker);

  Deadline next_wake() const;
  void complain_of_the_silent();
  WorkerSession& session(int worker) { return *sessions_[static_cast<std::size_t>(worker)]; }
  bool is_head() const { return coordinator_.has_value(); }
  void send(int member, std::vector<std::byte> head, net::ConstBytes payload = {});
  void send_text(int member, std::vector<std::byte> head, const std::string& text);

  // Constant after construction.
  const net::MemberGroup group_;
  const ServerOptions options_;
  const int server_;

  // Under the lock.
  std::optional<net::Messenger> messenger_;
  std::vector<std::unique_ptr<WorkerSession>> sessions_;  // by worker
  std::optional<ServerSetup> setup_;
  CodedParts coded_;  // of the setup
  std::unique_ptr<Shard> shard_;
  std::optional<InitialShard> initial_;  // while it comes
  bool welcomed_ = false;                // all workers are
  Deadline give_up_ = Deadline::max();   // where they are not by then
  std::set<int> gone_;                   // workers
  std::string failure_;

  std::deque<Command> commands_;  // the first is under way
  bool working_ = false;
  Clock::time_point began_;  // the command that it works at
  Shard::Job job_;
  // Of the command under way, where parameters travel in a code: by worker what it gets, null where
  // it has that already; workers that are not here get all as it is. Then each of them, a piece at
  // a time.
  std::map<int, std::shared_ptr<CodedDifference>> differences_;
  struct Coding {
    CodedDifference* difference = nullptr;
    std::size_t piece = 0;
    void run(const Shard& shard) const { difference->encode(piece, shard.parameters()); }
  };
  std::vector<Coding> codings_;
  bool awaits_norm_ = false;  // of other servers, for the command under way
  std::map<std::uint64_t, std::map<int, double>> norms_;  // by version and server
  std::uint64_t version_ = 0;
  struct Question {
    std::vector<std::byte> head;  // that waits; empty: none
    bool answer_leaves = false;
  };
  std::map<int, Question> questions_;  // by worker

  std::optional<ServerCoordinator> coordinator_;  // on the first server
  ThreadPool pool_;                               // last: it may work on all above
};

}  // namespace asup::ps
