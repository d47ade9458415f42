#include "asup/net/membership/coordinator.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <map>
#include <set>
#include <vector>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/base/task_queue.h"
#include "asup/base/thread.h"
#include "asup/net/membership/admission.h"
#include "asup/net/membership/coordinator_peer.h"
#include "asup/net/membership/cut_links.h"
#include "asup/net/membership/key_exchange.h"
#include "asup/net/membership/late_reports.h"
#include "asup/net/membership/losses.h"

namespace asup::net {
namespace {

using Kind = ControlFrame::Kind;

// Connections that have not said who they are, besides one for each member: enough that a scanner
// does not keep members out, few enough that it does not eat the descriptors.
constexpr std::size_t kStrangers = 64;
constexpr Seconds kFlush{0.5};
constexpr Seconds kUntilItHears{600};  // who was left out while it could not be reached

using Peer = CoordinatorPeer;

template <typename Callback, typename... Args>
void call(const Callback& callback, const Args&... args) {
  if (callback) callback(args...);
}

}  // namespace

class Coordinator::Loop {
 public:
  explicit Loop(CoordinatorOptions options)
      : options_(std::move(options)),
        listener_(listen_on(options_.listen, options_.remedy)),
        address_(bound_address(listener_.get()).to_string()),
        key_socket_(options_.key_socket.empty() ? Fd() : open_key_socket(options_.key_socket)),
        admission_({options_.size - options_.servers, options_.servers}),
        next_id_(static_cast<std::uint64_t>(options_.size) + 1) {
    thread_ = start_thread("asup-coord", [this] { run(); });
  }

  ~Loop() { stop(); }

  const std::string& address() const { return address_; }

  void stop() {
    posted_.post([this] { stopping_ = true; });
    if (thread_.joinable()) thread_.join();
  }

  void process_ended(int rank, std::string why) {
    posted_.post([this, rank, why = std::move(why)] {
      ended_.emplace(rank, why);
      fail_if_someone_never_comes();
    });
  }

 private:
  using Peers = std::list<Peer>;

  void run() {
    while (!stopping_) {
      try {
        turn();
      } catch (const std::exception& error) {  // a bug of ours must not end somebody's process
        log().error("the coordinator failed: {}", error.what());
        if (failure_.empty()) fail(fmt::format("the coordinator failed: {}", error.what()));
        break;
      }
    }
    say_closing();
  }

  void turn() {
    wait();
    posted_.run_all();
    if (key_socket_) serve_key(key_socket_.get(), {options_.key, address_});
    for (Peer& peer : peers_)
      if (std::exchange(peer.ready, false)) serve(peer);
    accept_some();
    keep_time();
    bury();
  }

  void wait() {
    std::vector<pollfd> fds;
    for (const Peer& peer : peers_)
      fds.push_back({peer.connection.fd(), peer.connection.events(), 0});
    fds.push_back({posted_.fd(), POLLIN, 0});
    if (!accept_paused_) fds.push_back({listener_.get(), POLLIN, 0});
    if (key_socket_) fds.push_back({key_socket_.get(), POLLIN, 0});
    // Deadlines are kept to this tick.
    poll(fds.data(), fds.size(), peers_.empty() && !accept_paused_ ? -1 : 100);
    accept_paused_ = false;
    auto fd = fds.begin();
    for (Peer& peer : peers_) peer.ready = (fd++)->revents != 0;
  }

  void accept_some() {
    for (int i = 0; i < 64; ++i) {
      Fd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket) {
        // Out of descriptors: the connection stays in the queue and would wake us at once again.
        accept_paused_ = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
        return;
      }
      make_room();
      peers_.push_back(
          {ControlConnection(std::move(socket), options_.key, Side::acceptor, options_.tls),
           after(options_.hello_timeout)});
    }
  }

  // The oldest stranger goes when there are too many: members are done in a moment.
  void make_room() {
    const auto stranger = [](const Peer& peer) { return peer.is_stranger(); };
    const auto most = kStrangers + static_cast<std::size_t>(options_.size);
    const auto count = std::count_if(peers_.begin(), peers_.end(), stranger);
    if (static_cast<std::size_t>(count) < most) return;
    peers_.erase(std::find_if(peers_.begin(), peers_.end(), stranger));
  }

  void serve(Peer& peer) {
    peer.connection.on_ready();
    while (auto frame = peer.connection.receive()) {
      peer.heard = Clock::now();
      if (std::exchange(peer.late, false)) {
        log().info("{} is heard again", peer.member->describe());
        call(options_.callbacks.on_heard, *peer.member);
      }
      if (!peer.member) {
        if (!peer.refused && !peer.next) take_hello(peer, *frame);
      } else if (frame->kind == Kind::goodbye) {
        take_goodbye(peer);
      } else if (frame->kind == Kind::ready) {
        take_ready(peer, *frame);
      } else if (frame->kind == Kind::full) {
        take_full(frame->body);
      } else if (frame->kind == Kind::cut) {
        take_cut(peer, *frame);
      } else if (frame->kind == Kind::late) {
        take_late(peer, *frame);
      } else if (frame->kind != Kind::heartbeat) {
        peer.connection.breach(fmt::format("it sent a frame of kind {}, which no member sends",
                                           static_cast<int>(frame->kind)));
      }
    }
  }

  void take_hello(Peer& peer, const ControlFrame& frame) {
    try {
      require(frame.kind == Kind::hello, "the first frame is no hello");
      const Hello hello = parse_hello(frame.body);
      if (auto refusal = refusal_of(hello)) return refuse(peer, *refusal);
      if (hello.joins) return take_newcomer(peer, hello.member);
      peer.member = hello.member;
      if (!join_deadline_) join_deadline_ = after(options_.join_timeout);
      call(options_.callbacks.on_admitted, *peer.member);
    } catch (const BadInput& error) {
      return refuse(peer, {error.what(), true});
    }
    if (admission_.complete()) return send_roster();
    fail_if_someone_never_comes();
  }

  std::optional<Refusal> refusal_of(const Hello& hello) {
    if (!failure_.empty()) return Refusal{failure_, false};
    if (hello.joins) return admission_.refusal_of_version(hello);
    if (const Member* lost = losses_.lost(hello.member.rank))
      return Refusal{
          fmt::format("{} cannot take the place of {}, which was lost. Start it with asup run "
                      "--join, and the job takes it in with its next generation",
                      hello.member.describe(), lost->describe()),
          true};
    if (roster_)
      return Refusal{fmt::format("{} is too late: the job already has its {}",
                                 hello.member.describe(), roster_->roles().describe()),
                     true};
    return admission_.admit(hello);
  }

  void refuse(Peer& peer, const Refusal& refusal) {
    log().warn("refused: {}", refusal.reason);
    peer.connection.send(Kind::refused, to_json(refusal));
    peer.refused = true;
  }

  void send_roster() {
    for (Peer& peer : peers_)
      if (peer.member) peer.member->id = static_cast<std::uint64_t>(peer.member->rank) + 1;
    begin_generation(admission_.roster());
    if (!options_.stays_open) key_socket_.reset();
    if (newcomers_wait()) tell_all(Kind::newcomers);
  }

  void begin_generation(Roster roster) {
    roster_ = std::move(roster);
    losses_.begin(*roster_);
    cut_.clear();
    late_.clear();
    renewal_deadline_.reset();
    // First, so that who watches the members knows it before any of them acts on it.
    call(options_.callbacks.on_complete, *roster_);
    for (Peer& peer : peers_) {
      const auto& now = peer.next ? peer.next : peer.member;
      const Member* place = now ? roster_->find(now->id) : nullptr;
      if (!place) continue;
      peer.member = *place;
      peer.next.reset();
      peer.connection.send(Kind::roster,
                           to_json(RosterMessage{*roster_, peer.member->rank, options_.rank,
                                                 options_.size, options_.tls}));
    }
  }

  // It waits; those that are there say when they can take it in.
  void take_newcomer(Peer& peer, Member member) {
    if (!full_.empty()) return refuse(peer, {full_, true});
    peer.next = std::move(member);
    peer.next->server.reset();
    peer.next->id = next_id_++;
    log().info("{} on {} waits to join", peer.next->pid, peer.next->hostname);
    if (roster_) tell_all(Kind::newcomers);
  }

  void take_full(const std::string& why) {
    full_ = why;
    for (Peer& peer : peers_)
      if (!peer.member && std::exchange(peer.next, std::nullopt)) refuse(peer, {full_, true});
  }

  bool newcomers_wait() const {
    return std::any_of(peers_.begin(), peers_.end(),
                       [](const Peer& peer) { return !peer.member && peer.next; });
  }

  void take_ready(Peer& peer, const ControlFrame& frame) {
    Member next = *peer.member;
    try {
      const Ready said = parse_ready(frame.body);
      next.tcp_address = said.member.tcp_address;
      next.unix_address = said.member.unix_address;
      if (!next.server && !said.workers.empty()) losses_.agree(said.workers);
    } catch (const BadInput& error) {
      return peer.connection.breach(error.what());
    }
    peer.next = std::move(next);
    if (!peer.member->server && !renewal_deadline_)
      renewal_deadline_ = after(options_.join_timeout);
    renew_when_all_are_ready();
  }

  // Servers are ready whenever no worker is linked to them: whether those go on, they learn here.
  void renew_when_all_are_ready() {
    if (!roster_ || !failure_.empty()) return;
    std::vector<Member> staying, newcomers;
    bool a_worker_stays = false, a_server_waits = false;
    for (const Peer& peer : peers_) {
      if (peer.said_goodbye || peer.refused || !peer.connection.open()) continue;
      if (peer.member && !peer.member->server) a_worker_stays = true;
      if (peer.member && peer.member->server && peer.next) a_server_waits = true;
    }
    if (!a_worker_stays) return a_server_waits || newcomers_wait() ? end_of_work() : void();
    for (const Peer& peer : peers_) {
      if (peer.said_goodbye || peer.refused || !peer.connection.open()) continue;
      if (peer.member && !peer.next) return;
      if (peer.next) (peer.member ? staying : newcomers).push_back(*peer.next);
    }
    const auto servers = std::count_if(staying.begin(), staying.end(),
                                       [](const Member& member) { return member.server; });
    if (servers < options_.servers)
      return fail("a server was lost: without it there is no next generation");
    if (const std::string why = losses_.why_not_go_on(staying); !why.empty()) return fail(why);
    begin_generation(next_generation(roster_->generation + 1, std::move(staying), newcomers));
  }

  void take_cut(Peer& peer, const ControlFrame& frame) {
    try {
      const Cut cut = parse_cut(frame.body);
      const Peer* other = member_of(cut.id);
      // Who is ready for the next generation has closed its links.
      const bool counts = other && other != &peer && !other->next && !peer.next;
      if (roster_ && counts) cut_.add(peer.member->id, cut.id, cut.breach, Clock::now());
    } catch (const BadInput& error) {
      peer.connection.breach(error.what());
    }
  }

  // Those stay who are linked with each other.
  void leave_out_the_cut_off() {
    const std::set<std::uint64_t> ends = cut_.ends();
    for (const Peer& peer : peers_)
      if (peer.member && peer.in_doubt() && ends.contains(peer.member->id)) return;
    while (const auto choice = cut_.next(*roster_)) {
      cut_.forget(choice->id);
      if (Peer* peer = member_of(choice->id)) leave_out(*peer, choice->why);
    }
    cut_.clear();
  }

  void take_late(Peer& peer, const ControlFrame& frame) {
    try {
      const Late late = parse_late(frame.body);
      if (!roster_ || peer.member->server) return;
      if (!late.workers.empty()) losses_.agree(late.workers);
      late_.add(peer.member->id, {late.ids.begin(), late.ids.end()});
    } catch (const BadInput& error) {
      peer.connection.breach(error.what());
    }
  }

  // A process that is stopped, or too slow. needs: what has come from all has been read, since who
  // has told may have ended.
  void leave_out_the_late() {
    std::vector<Member> here;
    for (const Peer& peer : peers_)
      if (peer.is_open_member() && !peer.member->server) here.push_back(*peer.member);
    LateReports::Ids ids;
    for (const Member& member : here) ids.insert(member.id);
    const LateReports::Ids late = late_.due(ids, losses_.agreed());
    std::erase_if(here, [&](const Member& member) { return late.contains(member.id); });
    const bool may_go_on = here.empty() || losses_.why_not_go_on(here).empty();
    if (!may_go_on) return;
    for (const std::uint64_t id : late)
      if (Peer* peer = member_of(id))
        leave_out(*peer, "it did not come before the others' deadline (--timeout)", true);
  }

  // It hears of it, now or when it can be reached again.
  void leave_out(Peer& peer, const std::string& why, bool late = false) {
    const Loss loss{*peer.member, false, why, late};
    peer.connection.send(Kind::lost, to_json(loss));
    peer.part(after(kUntilItHears));
    report_loss(loss);
    renew_when_all_are_ready();
  }

  // Null where it is not there any more.
  Peer* member_of(std::uint64_t id) {
    for (Peer& peer : peers_)
      if (peer.is_open_member() && peer.member->id == id) return &peer;
    return nullptr;
  }

  // No worker is left: servers that wait for more of them can go, and newcomers come too late.
  void end_of_work() {
    for (Peer& peer : peers_) {
      if (peer.said_goodbye || peer.refused || !peer.next) continue;
      if (!peer.member) {
        refuse(peer, {"the job is over: all its workers have ended", false});
      } else if (peer.member->server) {
        peer.next.reset();
        peer.connection.send(Kind::closing);
      }
    }
  }

  void take_goodbye(Peer& peer) {
    if (std::exchange(peer.said_goodbye, true)) return;
    losses_.leave(*peer.member);
    cut_.forget(peer.member->id);
    tell_others(*peer.member, Kind::left, to_json(*peer.member));
    call(options_.callbacks.on_left, *peer.member);
    renew_when_all_are_ready();
  }

  void tell_all(Kind kind) {
    for (Peer& peer : peers_)
      if (peer.member) peer.connection.send(kind);
  }

  void tell_others(const Member& about, Kind kind, const std::string& body) {
    for (Peer& peer : peers_)
      if (peer.member && peer.member->id != about.id) peer.connection.send(kind, body);
  }

  void keep_time() {
    const auto now = Clock::now();
    if (assembling() && join_deadline_ && now >= *join_deadline_)
      fail(admission_.describe_missing(options_.join_timeout));
    if (renewal_deadline_ && now >= *renewal_deadline_) fail(describe_unready());
    if (roster_ && cut_.due(now)) leave_out_the_cut_off();
    if (roster_ && !late_.empty()) leave_out_the_late();
    for (Peer& peer : peers_) {
      if (!peer.is_open_member()) continue;
      const Seconds silence = now - peer.heard;
      if (roster_ && peer.is_out_of_reach(now)) {
        leave_out(peer, fmt::format("its host has not answered for {:.0f} s", silence.count()));
        continue;
      }
      if (peer.late) continue;
      if (silence < options_.late_after) continue;
      peer.late = true;
      call(options_.callbacks.on_late, *peer.member, silence);
    }
  }

  std::string describe_unready() {
    std::vector<int> unready;
    for (const Peer& peer : peers_)
      if (peer.member && !peer.next && !peer.said_goodbye) unready.push_back(peer.member->rank);
    renewal_deadline_.reset();
    return fmt::format("{} did not come to the next generation within {:.3g} s",
                       name_members(unready, roster_->roles()), options_.join_timeout.count());
  }

  bool assembling() const { return !roster_ && failure_.empty(); }

  // A process that ended without joining: whoever waits for it need not.
  void fail_if_someone_never_comes() {
    if (!assembling() || !admission_.begun()) return;
    for (const auto& [rank, why] : ended_)
      if (!admission_.has(rank)) return fail(why);
  }

  void fail(const std::string& reason) {
    failure_ = reason;
    key_socket_.reset();
    // First, since members end when they hear it, and who watches them should know why.
    call(options_.callbacks.on_failed, reason);
    for (Peer& peer : peers_)
      if (peer.member || peer.next)
        peer.connection.send(Kind::refused, to_json(Refusal{reason, false}));
  }

  // Takes out connections that have ended, or that never said who they are.
  void bury() {
    const auto now = Clock::now();
    bool member_gone = false;
    for (auto peer = peers_.begin(); peer != peers_.end();) {
      const bool stranger_is_done =
          !peer->member && ((now >= peer->deadline && !peer->next) ||
                            (peer->refused && !peer->left_out && peer->connection.all_sent()));
      if (peer->connection.open() && !stranger_is_done) {
        ++peer;
        continue;
      }
      if (peer->member && !peer->said_goodbye)
        report_loss(
            {*peer->member, peer->connection.ended_by_peer(), peer->connection.why_closed()},
            peer->connection.breached());
      member_gone = member_gone || peer->member;
      peer = peers_.erase(peer);
    }
    if (member_gone) renew_when_all_are_ready();
  }

  void report_loss(const Loss& loss, bool is_odd = true) {
    const Member& member = loss.member;
    if (assembling())
      return fail(is_odd ? fmt::format("{} was cut off: {}", member.describe(), loss.why)
                         : member.describe() + " ended while it waited for the others to join");
    if (!roster_) return;  // the job failed, and its members go
    log().log(is_odd ? spdlog::level::warn : spdlog::level::info, "lost {}: {}", member.describe(),
              loss.why);
    losses_.lose(loss);
    cut_.forget(member.id);
    tell_others(member, Kind::lost, to_json(loss));
    call(options_.callbacks.on_lost, loss);
  }

  void say_closing() {
    for (Peer& peer : peers_)
      if (peer.member || peer.next) peer.connection.send(Kind::closing);
    const Deadline deadline = after(kFlush);
    const auto unsent = [](const Peer& peer) {
      return (peer.member || peer.next) && peer.connection.open() && !peer.connection.all_sent();
    };
    while (Clock::now() < deadline && std::any_of(peers_.begin(), peers_.end(), unsent)) {
      wait();
      for (Peer& peer : peers_) peer.connection.on_ready();
    }
    peers_.clear();
  }

  // Constant after construction.
  const CoordinatorOptions options_;
  const Fd listener_;
  const std::string address_;

  Fd key_socket_;
  TaskQueue posted_;

  // The thread's own, as is key_socket_ once it runs.
  Admission admission_;
  Peers peers_;
  std::map<int, std::string> ended_;  // processes that ended, and how
  std::optional<Deadline> join_deadline_;
  std::optional<Deadline> renewal_deadline_;  // once a worker is ready for the next generation
  std::string full_;                          // why newcomers are refused; empty: they are not
  std::uint64_t next_id_;                     // of a newcomer
  std::optional<Roster> roster_;              // once all are there; of the generation
  Losses losses_;                             // of it
  CutLinks cut_;                              // between those who are left
  LateReports late_;                          // of those who are left
  std::string failure_;                       // once it is known that they never will be
  bool accept_paused_ = false;
  bool stopping_ = false;

  std::thread thread_;
};

Coordinator::Coordinator(CoordinatorOptions options)
    : loop_(std::make_unique<Loop>(std::move(options))) {}

Coordinator::~Coordinator() = default;

std::string Coordinator::address() const { return loop_->address(); }

void Coordinator::process_ended(int rank, std::string why) {
  loop_->process_ended(rank, std::move(why));
}

void Coordinator::stop() { loop_->stop(); }

}  // namespace asup::net
