#include "asup/net/rendezvous.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <vector>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/base/thread.h"
#include "asup/base/version.h"
#include "asup/net/coordinator.h"
#include "asup/net/meeting.h"
#include "asup/net/reach_coordinator.h"

namespace asup::net {
namespace {

using Kind = ControlFrame::Kind;

constexpr Seconds kHeartbeat{1};
constexpr Seconds kFlush{0.5};
// A member waits this much longer than the coordinator, which knows whose fault it is.
constexpr Seconds kGrace{5};

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
      .size = options.size,
      .servers = options.servers,
      .join_timeout = options.join_timeout,
      .rank = options.rank,
      .meeting = options.meeting,
      .callbacks = std::move(callbacks)});
}

// Where to reach a coordinator of our own, which may listen on all addresses.
SocketAddress own_coordinator(const Coordinator& coordinator) {
  const SocketAddress bound = resolve(parse_endpoint(coordinator.address(), "coordinator")).front();
  if (!bound.is_any()) return bound;
  const char* loopback = bound.family() == AF_INET6 ? "::1" : "127.0.0.1";
  return resolve({loopback, bound.port()}).front();
}

RosterMessage wait_for_roster(ControlConnection& connection, Deadline deadline) {
  const ControlFrame frame = next_frame(connection, deadline);
  if (frame.kind == Kind::roster) return parse_roster(frame.body);
  if (frame.kind == Kind::closing)
    throw JobFailed("the coordinator closed before all ranks had joined");
  require(frame.kind == Kind::refused, "the coordinator sent a frame of kind {} before the roster",
          static_cast<int>(frame.kind));
  const Refusal refusal = parse_refusal(frame.body);
  if (refusal.can_be_mended) throw BadInput(refusal.reason);
  throw JobFailed(refusal.reason);
}

}  // namespace

class Membership::State {
 public:
  // A job of one, which has nobody to meet.
  State(const JoinOptions& options, Member self) : key_(options.key) {
    self.id = 1;
    message_.roster = {1, {std::move(self)}};
  }

  State(const JoinOptions& options, Member self, std::unique_ptr<Coordinator> coordinator,
        ControlConnection connection, const Key& key)
      : rank_(options.rank),
        key_(key),
        coordinator_(std::move(coordinator)),
        connection_(std::move(connection)),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    check(static_cast<bool>(wake_), "eventfd: {}", std::strerror(errno));
    connection_->send(Kind::hello, to_json(Hello{kControlVersion, kVersion, options.size,
                                                 options.servers, std::move(self)}));
    message_ = wait_for_roster(*connection_, after(options.join_timeout + kGrace));
    require(message_.roster.roles() == options.roles(), "the coordinator's roster has {}, not {}",
            message_.roster.roles().describe(), options.roles().describe());
    thread_ = start_thread("asup-member", [this] { run(); });
  }

  ~State() { leave(); }

  const RosterMessage& message() const { return message_; }
  const Member& self() const { return message_.roster.members[static_cast<std::size_t>(rank_)]; }
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
  struct Event {
    bool lost;
    Member member;
  };

  void run() {
    try {
      while (take_orders()) turn();
      say_goodbye();
    } catch (const std::exception& error) {  // a bug of ours must not end somebody's process
      log().error("the connection to the coordinator failed: {}", error.what());
    }
  }

  // What the user's thread asked for; false: to leave.
  bool take_orders() {
    eventfd_t count;
    eventfd_read(wake_.get(), &count);
    const std::lock_guard lock(mutex_);
    if (new_callbacks_) callbacks_ = *std::exchange(new_callbacks_, std::nullopt);
    return !leaving_;
  }

  void turn() {
    // First what has come already, with the roster or before somebody watched.
    while (const auto frame = connection_->receive()) take(*frame);
    if (!connection_->open() && !std::exchange(closed_, true)) take_end();
    deliver();
    if (Clock::now() >= next_heartbeat_) {
      if (!closed_) connection_->send(Kind::heartbeat);
      next_heartbeat_ = after(kHeartbeat);
    }
    wait(next_heartbeat_);
    connection_->on_ready();
  }

  void wait(Deadline deadline) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd fds[] = {{wake_.get(), POLLIN, 0},
                    {closed_ ? -1 : connection_->fd(), connection_->events(), 0}};
    poll(fds, 2, static_cast<int>(std::max<long>(left.count(), 0)));
  }

  void take(const ControlFrame& frame) {
    if (frame.kind == Kind::lost) events_.push_back({true, parse_member(frame.body)});
    if (frame.kind == Kind::left) events_.push_back({false, parse_member(frame.body)});
    if (frame.kind != Kind::closing) return;
    log().debug("the coordinator closed in good order");
    closed_ = true;
  }

  // The coordinator ended without a word, and so has the member that kept it.
  void take_end() {
    if (message_.coordinator_rank) {
      const auto rank = static_cast<std::size_t>(*message_.coordinator_rank);
      if (rank < message_.roster.members.size())
        events_.push_back({true, message_.roster.members[rank]});
      return;
    }
    log().warn("the launcher is gone ({}): from now on only links tell who is lost",
               connection_->why_closed());
  }

  // Events wait until somebody watches.
  void deliver() {
    if (!callbacks_) return;
    for (const Event& event : std::exchange(events_, {})) {
      const auto& callback = event.lost ? callbacks_->on_lost : callbacks_->on_left;
      if (callback) callback(event.member);
    }
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
  const int rank_ = 0;
  const Key key_;
  RosterMessage message_;

  std::unique_ptr<Coordinator> coordinator_;  // where this member keeps it

  // The thread's own, once it runs.
  std::optional<ControlConnection> connection_;
  std::optional<MembershipCallbacks> callbacks_;
  std::vector<Event> events_;
  Deadline next_heartbeat_{};
  bool closed_ = false;

  const Fd wake_;
  std::mutex mutex_;
  std::optional<MembershipCallbacks> new_callbacks_;  // protected by mutex_
  bool leaving_ = false;                              // protected by mutex_

  std::thread thread_;
};

Membership Membership::join(const JoinOptions& options, Member self) {
  self = complete(std::move(self), options);
  if (options.coordinator.empty()) {
    check(options.size == 1, "a job of {} without a coordinator", options.size);
    return Membership(std::make_unique<State>(options, std::move(self)));
  }
  const Deadline deadline = after(options.join_timeout);
  std::unique_ptr<Coordinator> coordinator;
  Key key = options.key;
  JoinOptions there = options;
  if (options.host_coordinator) {
    coordinator = host_coordinator(options, deadline);
  } else if (!options.meeting.empty()) {
    MeetingWord word = ask_meeting(options.meeting, deadline);
    key = word.key;
    there.coordinator = std::move(word.coordinator);
  }
  const SocketAddress address =
      coordinator ? own_coordinator(*coordinator) : coordinator_address(there, deadline);
  ControlConnection connection = reach_coordinator(address, key, self.describe(), deadline);
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
void Membership::watch(MembershipCallbacks callbacks) { state_->watch(std::move(callbacks)); }
void Membership::leave() { state_->leave(); }

}  // namespace asup::net
