#include "asup/net/membership/membership.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <vector>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/base/thread.h"
#include "asup/base/version.h"
#include "asup/net/membership/coordinator.h"
#include "asup/net/membership/doubted_links.h"
#include "asup/net/membership/key_exchange.h"
#include "asup/net/membership/parting.h"
#include "asup/net/membership/reach_coordinator.h"

namespace asup::net {
namespace {

using Kind = ControlFrame::Kind;

constexpr Seconds kHeartbeat{1};
constexpr Seconds kFlush{0.5};
constexpr Seconds kWhileInDoubt{0.2};  // between two looks at who answers
// The coordinator rules at once on who is late, when all have told it; these do within moments.
constexpr Seconds kTimeToRule{5};
// A member waits this much longer than the coordinator, which knows whose fault it is.
constexpr Seconds kGrace{5};
// The coordinator of a job that one joins is there already, or the job has ended.
constexpr Seconds kToAnswer{5};

Member complete(Member self, const JoinOptions& options) {
  self.rank = options.rank;
  self.server = options.roles().server(options.rank);
  self.pid = getpid();
  self.hostname = this_hostname();
  self.host = this_host();
  return self;
}

void warn_of_silence(const Member& member, Seconds silence) {
  log().warn("{} has been silent for {:.0f} s", member.describe(), silence.count());
}

std::unique_ptr<Coordinator> host_coordinator(const JoinOptions& options, Deadline deadline) {
  SocketAddress listen = coordinator_address(options, deadline);
  if (!options.interface.empty()) {
    const SocketAddress chosen = interface_address(options.interface);
    if (chosen.is_any()) listen = chosen.with_port(listen.port());
  }
  CoordinatorCallbacks callbacks;
  callbacks.on_late = warn_of_silence;
  return std::make_unique<Coordinator>(CoordinatorOptions{
      .listen = listen,
      .remedy =
          "rank 0 keeps the coordinator there; set ASUP_COORDINATOR=host:port (or MASTER_ADDR "
          "and MASTER_PORT, one less) to rank 0's host and a free port, on all ranks",
      .key = options.key,
      .tls = options.tls,
      .size = options.size,
      .servers = options.servers,
      .join_timeout = options.join_timeout,
      .rank = options.rank,
      .key_socket = options.key_socket,
      .callbacks = std::move(callbacks)});
}

// Where to reach a coordinator of our own, which may listen on all addresses.
SocketAddress own_coordinator(const Coordinator& coordinator) {
  const SocketAddress bound = resolve(parse_endpoint(coordinator.address(), "coordinator")).front();
  if (!bound.is_any()) return bound;
  const char* loopback = bound.family() == AF_INET6 ? "::1" : "127.0.0.1";
  return resolve({loopback, bound.port()}).front();
}

[[noreturn]] void throw_refusal(const std::string& body) {
  const Refusal refusal = parse_refusal(body);
  if (refusal.can_be_mended) throw BadInput(refusal.reason);
  throw JobFailed(refusal.reason);
}

RosterMessage wait_for_roster(ControlConnection& connection, Deadline deadline) {
  const ControlFrame frame = next_frame(connection, deadline);
  if (frame.kind == Kind::roster) return parse_roster(frame.body);
  if (frame.kind == Kind::closing)
    throw JobFailed("the coordinator closed before all ranks had joined");
  require(frame.kind == Kind::refused, "the coordinator sent a frame of kind {} before the roster",
          static_cast<int>(frame.kind));
  throw_refusal(frame.body);
}

RosterMessage wait_to_be_taken_in(ControlConnection& connection, Seconds patience) {
  const Deadline deadline = after(patience);
  try {
    return wait_for_roster(connection, deadline);
  } catch (const JobFailed&) {
    if (Clock::now() < deadline) throw;
    throw JobFailed(fmt::format(
        "the job did not take this process in within {:.3g} s. asup train does so after a step, if "
        "it keeps checkpoints; a longer --join-timeout gives it more time",
        patience.count()));
  }
}

}  // namespace

class Membership::State {
 public:
  // A job of one, which needs no coordinator.
  State(const JoinOptions& options, Member self) : key_(options.key) {
    self.id = 1;
    message_.roster = {1, {std::move(self)}};
  }

  State(const JoinOptions& options, Member self, std::unique_ptr<Coordinator> coordinator,
        ControlConnection connection, const Key& key)
      : key_(key),
        coordinator_(std::move(coordinator)),
        connection_(std::move(connection)),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    check(static_cast<bool>(wake_), "eventfd: {}", std::strerror(errno));
    connection_->send(Kind::hello, to_json(Hello{kControlVersion, kVersion, options.size,
                                                 options.servers, std::move(self), options.joins}));
    message_ = options.joins ? wait_to_be_taken_in(*connection_, options.join_timeout)
                             : wait_for_roster(*connection_, after(options.join_timeout + kGrace));
    require(options.joins || message_.roster.roles() == options.roles(),
            "the coordinator's roster has {}, not {}", message_.roster.roles().describe(),
            options.roles().describe());
    require(options.tls == TlsMode::automatic || options.tls == message_.tls,
            "this process was told --tls {}, but the job is under --tls {}: give all its processes "
            "the same (ASUP_TLS), or leave it out where they join",
            to_text(options.tls), to_text(message_.tls));
    coordinator_address_ = peer_address(connection_->fd());
    if (const auto rank = message_.coordinator_rank; rank && *rank < message_.roster.size())
      keeper_ = message_.roster.members[static_cast<std::size_t>(*rank)];
    self_id_ = this->self().id;
    agreed_ = ids_of_workers();
    thread_ = start_thread("asup-member", [this] { run(); });
  }

  ~State() { leave(); }

  const RosterMessage& message() const { return message_; }
  const Member& self() const {
    return message_.roster.members[static_cast<std::size_t>(message_.rank)];
  }
  bool newcomers() const { return newcomers_; }
  void refuse_newcomers(const std::string& why) {
    const std::lock_guard lock(mutex_);
    full_ = why;
    eventfd_write(wake_.get(), 1);
  }
  std::vector<Gone> gone() const {
    const std::lock_guard lock(mutex_);
    return gone_;
  }
  bool lost_coordinator() const {
    const std::lock_guard lock(mutex_);
    return done_;
  }
  std::string why_out() const {
    const std::lock_guard lock(mutex_);
    if (!left_out_.empty() || !lost_coordinator_) return left_out_;
    Parting parting{.before = static_cast<int>(agreed_.size())};
    for (const std::uint64_t id : agreed_) {
      const auto gone =
          std::ranges::find_if(gone_, [&](const Gone& each) { return each.member.id == id; });
      parting.left += gone == gone_.end() ? 1 : 0;
      parting.ended += gone != gone_.end() && gone->how != Gone::How::unknown ? 1 : 0;
    }
    return parting.why_not_go_on();
  }
  void agree(const std::vector<int>& workers) {
    const std::lock_guard lock(mutex_);
    agreed_ = ids_of(workers);
    missed_.emplace();  // nobody
    eventfd_write(wake_.get(), 1);
  }
  void miss(const std::vector<int>& workers) {
    const std::lock_guard lock(mutex_);
    missed_.emplace();
    for (const int rank : workers)
      missed_->push_back(message_.roster.members[static_cast<std::size_t>(rank)]);
    eventfd_write(wake_.get(), 1);
  }
  void tell_of_link(int rank, LinkNews news) {
    const std::lock_guard lock(mutex_);
    link_news_.emplace_back(message_.roster.members[static_cast<std::size_t>(rank)], news);
    eventfd_write(wake_.get(), 1);
  }

  std::optional<Roster> renew(const Member& self, Deadline deadline) {
    if (!thread_.joinable()) return std::nullopt;
    std::unique_lock lock(mutex_);
    request_ = to_json(Ready{self, agreed_});
    eventfd_write(wake_.get(), 1);
    answered_.wait_until(lock, deadline, [&] { return answer_ || done_ || !left_out_.empty(); });
    if (!left_out_.empty()) throw JobFailed(left_out_);
    if (done_ && !answer_) return std::nullopt;
    if (!answer_) throw JobFailed("the coordinator does not answer");
    const ControlFrame answer = *std::exchange(answer_, std::nullopt);
    if (answer.kind == Kind::closing) return std::nullopt;
    if (answer.kind == Kind::refused) throw_refusal(answer.body);
    message_ = parse_roster(answer.body);
    agreed_ = ids_of_workers();
    return message_.roster;
  }
  const Key& key() const { return key_; }

  void watch(MembershipCallbacks callbacks) {
    if (!thread_.joinable()) return;
    const std::lock_guard lock(mutex_);
    new_callbacks_ = std::move(callbacks);
    eventfd_write(wake_.get(), 1);
  }

  void leave() {
    if (thread_.joinable()) {
      {
        const std::lock_guard lock(mutex_);
        leaving_ = true;
        eventfd_write(wake_.get(), 1);
      }
      thread_.join();
    }
    coordinator_.reset();
  }

 private:
  std::vector<std::uint64_t> ids_of(const std::vector<int>& ranks) const {
    std::vector<std::uint64_t> ids;
    for (const int rank : ranks)
      ids.push_back(message_.roster.members[static_cast<std::size_t>(rank)].id);
    return ids;
  }
  std::vector<std::uint64_t> ids_of_workers() const {
    std::vector<std::uint64_t> ids;
    for (const Member& worker : message_.roster.workers()) ids.push_back(worker.id);
    return ids;
  }

  void run() {
    try {
      while (take_orders()) turn();
      say_goodbye();
    } catch (const std::exception& error) {  // a bug of ours must not end somebody's process
      log().error("the connection to the coordinator failed: {}", error.what());
      lose_coordinator(error.what());
    }
    end();
  }

  // Others must not wait for what this member no longer hears.
  void lose_coordinator(const char* why) {
    try {
      connection_->give_up(why);
      if (!std::exchange(closed_, true)) take_end();
      deliver();
    } catch (const std::exception& error) {
      log().error("nor can it be given up: {}", error.what());
    }
  }

  // Nothing more is heard.
  void end() {
    const std::lock_guard lock(mutex_);
    done_ = true;
    answered_.notify_all();
  }

  // What the user's thread asked for; false: to leave.
  bool take_orders() {
    eventfd_t count;
    eventfd_read(wake_.get(), &count);
    const std::lock_guard lock(mutex_);
    if (new_callbacks_) callbacks_ = *std::exchange(new_callbacks_, std::nullopt);
    if (request_) connection_->send(Kind::ready, *std::exchange(request_, std::nullopt));
    if (full_) connection_->send(Kind::full, *std::exchange(full_, std::nullopt));
    if (missed_) tell_of_the_late(*std::exchange(missed_, std::nullopt));
    for (const auto& [other, news] : std::exchange(link_news_, {}))
      if (!is_gone(other.id)) doubts_.take(other, news);
    return !leaving_;
  }

  void turn() {
    // First what has come already, with the roster or before somebody watched.
    while (const auto frame = connection_->receive()) take(*frame);
    if (!connection_->open() && !std::exchange(closed_, true)) take_end();
    if (closed_) end();
    look_after_links();
    look_after_the_late();
    deliver();
    if (Clock::now() >= next_heartbeat_) {
      if (!closed_) connection_->send(Kind::heartbeat);
      next_heartbeat_ = after(kHeartbeat);
    }
    wait(doubts_all_ ? std::min(next_heartbeat_, after(kWhileInDoubt)) : next_heartbeat_);
    connection_->on_ready();
  }

  void wait(Deadline deadline) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd fds[] = {{wake_.get(), POLLIN, 0},
                    {closed_ ? -1 : connection_->fd(), connection_->events(), 0}};
    poll(fds, 2, static_cast<int>(std::max<long>(left.count(), 0)));
  }

  void look_after_links() {
    const auto now = Clock::now();
    const bool silent = !closed_ && connection_->silence(now) >= kQuiet;
    if (silent && !probe_) probe_.emplace(*coordinator_address_);
    if (!silent) probe_.reset();
    doubts_all_ = silent || doubts_.any_quiet();
    doubts_all_ ? doubt_all() : doubts_.doubt_no_more();
    doubts_.look(now);
    if (probe_) probe_->look(now);
    if (probe_ && probe_->unreachable()) connection_->give_up("its host has not answered for 10 s");
    for (const Cut& cut : doubts_.untold())
      if (!closed_) connection_->send(Kind::cut, to_json(cut));
    if (!closed_) return;
    for (const Member& other : doubts_.cut())
      take_gone({other, Gone::How::unknown, "the link to it is cut"});
  }

  // needs: mutex_
  void tell_of_the_late(std::vector<Member> late) {
    if (late.empty() && late_.empty()) return;
    late_ = std::move(late);
    rules_by_ = after(kTimeToRule);
    Late words{{}, agreed_};
    for (const Member& member : late_) words.ids.push_back(member.id);
    connection_->send(Kind::late, to_json(words));
  }

  // Whoever keeps the coordinator may be late itself, and the coordinator with it.
  void look_after_the_late() {
    const bool with_keeper =
        keeper_ && std::ranges::any_of(late_, [&](const Member& m) { return m.id == keeper_->id; });
    if (with_keeper && !closed_ && Clock::now() >= rules_by_ && !is_known_to_be_gone(keeper_->id))
      connection_->give_up("the member that keeps it does not come");
    if (!closed_) return;
    for (const Member& member : late_)
      take_gone({member, Gone::How::unknown, "it did not come before the deadline (--timeout)"});
  }

  void doubt_all() {
    const std::lock_guard lock(mutex_);
    for (const Member& other : message_.roster.members)
      if (other.id != self_id_ && !is_gone(other.id)) doubts_.doubt(other);
  }

  void take(const ControlFrame& frame) {
    if (frame.kind == Kind::lost) take_loss(parse_loss(frame.body));
    if (frame.kind == Kind::left) take_gone({parse_member(frame.body), Gone::How::left});
    if (frame.kind == Kind::newcomers) newcomers_ = true;  // a heartbeat needs no answer
    if (frame.kind == Kind::roster || frame.kind == Kind::refused) take_answer(frame);
    if (frame.kind != Kind::closing) return;
    log().debug("the coordinator closed in good order");
    closed_ = true;
  }

  void take_loss(const Loss& loss) {
    if (loss.member.id != self_id_)
      return loss.ended ? take_gone({loss.member, Gone::How::ended})
                        : take_gone({loss.member, Gone::How::unknown, loss.why});
    const std::lock_guard lock(mutex_);
    left_out_ = fmt::format("the others go on without {}: {}", loss.member.describe(), loss.why);
    answered_.notify_all();
  }

  bool is_known_to_be_gone(std::uint64_t id) const {
    const std::lock_guard lock(mutex_);
    return is_gone(id);
  }

  // needs: mutex_
  bool is_gone(std::uint64_t id) const {
    return std::ranges::any_of(gone_, [&](const Gone& gone) { return gone.member.id == id; });
  }

  void take_gone(const Gone& gone) {
    const std::lock_guard lock(mutex_);
    doubts_.forget(gone.member.id);
    if (is_gone(gone.member.id)) return;
    gone_.push_back(gone);
    events_.push_back(gone);
  }

  void take_answer(const ControlFrame& frame) {
    const std::lock_guard lock(mutex_);
    if (frame.kind == Kind::roster) {  // what comes from now on is about the next generation
      newcomers_ = false;
      gone_.clear();
      events_.clear();
      doubts_.clear();
      link_news_.clear();
      missed_.emplace();  // nobody
    }
    answer_ = frame;
    answered_.notify_all();
  }

  // The coordinator ended without saying so, or is out of reach, and so is the member that kept it.
  void take_end() {
    {
      const std::lock_guard lock(mutex_);
      lost_coordinator_ = true;
    }
    if (keeper_)
      return connection_->ended_by_peer()
                 ? take_gone({*keeper_, Gone::How::ended})
                 : take_gone({*keeper_, Gone::How::unknown, connection_->why_closed()});
    log().warn("the launcher is gone ({}): from now on only links tell who is lost",
               connection_->why_closed());
  }

  // Events wait until somebody watches.
  void deliver() {
    if (!callbacks_) return;
    for (const Gone& gone : std::exchange(events_, {})) {
      if (gone.how == Gone::How::left && callbacks_->on_left) callbacks_->on_left(gone.member);
      if (gone.how != Gone::How::left && callbacks_->on_lost)
        callbacks_->on_lost(gone.member, gone.why);
    }
    const std::string why = why_out();
    if (!why.empty() && callbacks_->on_left_out && !std::exchange(told_out_, true))
      callbacks_->on_left_out(why);
  }

  void say_goodbye() {
    if (closed_) return;
    connection_->send(Kind::goodbye);
    const Deadline deadline = after(kFlush);
    while (connection_->open() && !connection_->all_sent() && Clock::now() < deadline) {
      wait(deadline);
      connection_->on_ready();
    }
  }

  // Constant after construction.
  const Key key_;
  std::uint64_t self_id_ = 1;

  RosterMessage message_;  // the user's thread's own

  std::unique_ptr<Coordinator> coordinator_;  // where this member keeps it

  // The thread's own, once it runs.
  std::optional<ControlConnection> connection_;
  std::optional<SocketAddress> coordinator_address_;
  std::optional<Member> keeper_;  // the member that keeps the coordinator; none: the launcher does
  std::optional<MembershipCallbacks> callbacks_;
  std::vector<Gone> events_;
  DoubtedLinks doubts_;
  bool doubts_all_ = false;         // something is quiet
  std::optional<HostProbe> probe_;  // of the coordinator's host, while it is silent
  bool told_out_ = false;
  Deadline next_heartbeat_{};
  std::vector<Member> late_;  // whom this one waits for in vain, as the coordinator was told
  Deadline rules_by_{};       // the coordinator, on them
  bool closed_ = false;

  std::atomic<bool> newcomers_ = false;

  const Fd wake_;
  mutable std::mutex mutex_;
  std::optional<MembershipCallbacks> new_callbacks_;  // protected by mutex_
  bool leaving_ = false;                              // protected by mutex_, as is what follows
  std::optional<std::string> request_;                // for the next generation
  std::optional<std::string> full_;                   // to be told
  std::optional<ControlFrame> answer_;
  std::vector<Gone> gone_;             // in this generation
  std::vector<std::uint64_t> agreed_;  // ids of the workers who last agreed to go on
  std::vector<std::pair<Member, LinkNews>> link_news_;
  std::optional<std::vector<Member>> missed_;  // anew: whom this one waits for in vain
  std::string left_out_;                       // why the others go on without this member
  bool lost_coordinator_ = false;              // it did not close in good order
  bool done_ = false;                          // no answer will come
  std::condition_variable answered_;

  std::thread thread_;
};

Membership Membership::join(const JoinOptions& options, Member self) {
  self = complete(std::move(self), options);
  if (options.coordinator.empty()) {
    check(options.size == 1, "a job of {} without a coordinator", options.size);
    return Membership(std::make_unique<State>(options, std::move(self)));
  }
  const Deadline deadline =
      after(options.joins ? std::min(options.join_timeout, kToAnswer) : options.join_timeout);
  std::unique_ptr<Coordinator> coordinator;
  Key key = options.key;
  JoinOptions there = options;
  if (options.host_coordinator) {
    coordinator = host_coordinator(options, deadline);
  } else if (!options.key_socket.empty()) {
    KeyOffer word = ask_for_key(options.key_socket, deadline);
    key = word.key;
    there.coordinator = std::move(word.coordinator);
  }
  const SocketAddress address =
      coordinator ? own_coordinator(*coordinator) : coordinator_address(there, deadline);
  ControlConnection connection =
      reach_coordinator(address, key, options.tls, self.describe(), deadline);
  return Membership(std::make_unique<State>(options, std::move(self), std::move(coordinator),
                                            std::move(connection), key));
}

Membership::Membership(std::unique_ptr<State> state) : state_(std::move(state)) {}
Membership::Membership(Membership&&) noexcept = default;
Membership& Membership::operator=(Membership&&) noexcept = default;
Membership::~Membership() = default;

const Roster& Membership::roster() const { return state_->message().roster; }
const Member& Membership::self() const { return state_->self(); }
const Key& Membership::key() const { return state_->key(); }
TlsMode Membership::tls() const { return state_->message().tls; }
bool Membership::newcomers() const { return state_->newcomers(); }
void Membership::refuse_newcomers(const std::string& why) { state_->refuse_newcomers(why); }
std::vector<Gone> Membership::gone() const { return state_->gone(); }
bool Membership::lost_coordinator() const { return state_->lost_coordinator(); }
std::string Membership::why_out() const { return state_->why_out(); }
void Membership::agree(const std::vector<int>& workers) { state_->agree(workers); }
void Membership::miss(const std::vector<int>& workers) { state_->miss(workers); }
void Membership::tell_of_link(int rank, LinkNews news) { state_->tell_of_link(rank, news); }
bool Membership::is_founder(const Member& member) const {
  return member.id <= static_cast<std::uint64_t>(state_->message().founders);
}
std::optional<Roster> Membership::renew(const Member& self, Deadline deadline) {
  return state_->renew(self, deadline);
}
void Membership::watch(MembershipCallbacks callbacks) { state_->watch(std::move(callbacks)); }
void Membership::leave() { state_->leave(); }

}  // namespace asup::net
