#include "asup/net/job.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <thread>

#include "asup/base/error.h"
#include "asup/net/membership/address.h"
#include "asup/net/membership/failure_note.h"
#include "asup/net/membership/membership.h"
#include "asup/net/membership/parting.h"
#include "asup/net/transport/inproc/wire.h"
#include "asup/net/transport/link_setup.h"
#include "asup/net/transport/mesh.h"
#include "asup/net/transport/mpi/join.h"

namespace asup {

using net::Gone;
using net::JoinOptions;
using net::LinkKind;
using net::Roster;

namespace {

// The coordinator rules on a link that is cut within some 15 s, and on whoever ended at once.
constexpr Seconds kTimeForWords{20};
// To end by SIGKILL, where it waits for nothing but a disk that is slow.
constexpr Seconds kTimeToEnd{10};

}  // namespace

struct Job::State {
  JoinOptions options;
  std::unique_ptr<net::Membership> membership;  // null in a job of one
  std::mutex mesh_mutex;  // makes and ends it: the membership's thread looks, too
  std::unique_ptr<net::Mesh> mesh;
  std::uint64_t communicators = 0;
  std::uint64_t services = 0;

  // Links all members of the roster.
  void link(const Roster& roster, const net::Listeners& listeners, Deadline deadline) {
    options.rank = membership->self().rank;
    options.size = roster.size();
    options.servers = roster.roles().servers;
    auto made = std::make_unique<net::Mesh>(
        roster, options.rank,
        net::connect_all(roster, options.rank, membership->key(), options.links, membership->tls(),
                         listeners, deadline, [&](const auto& missing, bool refused) {
                           return is_vain(missing, refused);
                         }));
    communicators = services = 0;
    watch(std::move(made));
  }

  // A worker that left in good order was linked before; others may miss one that was lost, and
  // listen no more since they are on their way to the next generation.
  bool is_vain(const std::vector<int>& missing, bool refused) const {
    return std::ranges::any_of(membership->gone(), [&](const Gone& gone) {
      return std::ranges::find(missing, gone.member.rank) != missing.end() ||
             (refused && gone.how != Gone::How::left);
    });
  }

  // The mesh tells the membership of its links, and that one says whose end is certain.
  void watch(std::unique_ptr<net::Mesh> made) {
    {
      const net::MeshLock lock(made->loop());
      made->watch(
          [&all = *membership](int rank, net::LinkNews news) { all.tell_of_link(rank, news); },
          [&all = *membership](const std::vector<int>& ranks) { all.miss(ranks); });
    }
    const std::lock_guard lock(mesh_mutex);
    mesh = std::move(made);
    for (const Gone& gone : membership->gone())
      if (gone.how != Gone::How::left) lose(gone.member, gone.why);
    if (const std::string why = membership->why_out(); !why.empty()) lose_all(why);
    membership->watch(
        {.on_lost = [this](const net::Member& member,
                           const std::string& why) { with_mesh([&] { lose(member, why); }); },
         .on_left = {},
         .on_left_out = [this](const std::string& why) { with_mesh([&] { lose_all(why); }); }});
  }

  void with_mesh(const std::function<void()>& action) {
    const std::lock_guard lock(mesh_mutex);
    if (mesh) action();
  }
  void lose(const net::Member& member, const std::string& why) {
    if (const net::Member* place = mesh->roster().find(member.id)) lose(place->rank, why);
  }
  void lose_all(const std::string& why) {
    for (int rank = 0; rank < mesh->size(); ++rank) lose(rank, why);
  }
  void lose(int rank, const std::string& why) {
    mesh->loop().post([&all = *mesh, rank, why] { all.lose(rank, why); });
  }

  // Whoever tells of a loss meanwhile waits, and then finds none.
  void close_mesh() {
    std::unique_ptr<net::Mesh> old;
    {
      const std::lock_guard lock(mesh_mutex);
      old = std::move(mesh);
    }
  }

  // What the coordinator says of all these, or that it says nothing any more.
  std::vector<Gone> words_about(const std::vector<int>& ranks) const {
    const Deadline deadline = after(kTimeForWords);
    for (;;) {
      const auto gone = membership->gone();
      const auto is_known = [&](int rank) {
        return std::ranges::any_of(gone, [&](const Gone& g) { return g.member.rank == rank; });
      };
      const bool told = std::ranges::all_of(ranks, is_known) || !membership->why_out().empty();
      if (told || Clock::now() >= deadline) return gone;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  // What they may be about to write here would spoil what is done without them.
  void end_processes(const std::vector<int>& ranks) const {
    const Deadline deadline = after(kTimeToEnd);
    for (const int rank : ranks)
      if (!mesh->end_process(rank, deadline))
        throw JobFailed(fmt::format(
            "{} may still run, reaches memory of this process, and could not be ended: end it, and "
            "resume from the last checkpoint",
            mesh->roster().members[static_cast<std::size_t>(rank)].describe()));
  }

  ~State() {
    close_mesh();
    if (membership) membership->leave();
  }
};

namespace {

using Wires = std::vector<std::unique_ptr<net::Wire>>;

// A member waits this much longer for the others than the coordinator, which knows whose fault it
// is.
constexpr Seconds kGrace{5};

net::Member self_of(const JoinOptions& options) {
  net::Member self;
  self.rank = options.rank;
  self.server = options.roles().server(options.rank);
  self.hostname = net::this_hostname();
  self.pid = getpid();
  self.host = net::this_host();
  return self;
}

net::Member self_at(const net::Listeners& listeners, const JoinOptions& options) {
  net::Member self = self_of(options);
  self.tcp_address = listeners.tcp_address();
  self.unix_address = listeners.unix_address();
  return self;
}

// Threads of one process need no coordinator: they know each other by rank.
Roster roster_of_threads(const JoinOptions& options) {
  Roster roster;
  roster.generation = 1;
  for (int rank = 0; rank < options.size; ++rank) {
    net::Member member = self_of(options);
    member.rank = rank;
    member.server = options.roles().server(rank);
    member.id = static_cast<std::uint64_t>(rank) + 1;
    roster.members.push_back(std::move(member));
  }
  return roster;
}

Wires wires_of_threads(const JoinOptions& options) {
  check(options.hub != nullptr || options.size == 1, "in-process links need a hub");
  Wires wires(static_cast<std::size_t>(options.size));
  const Deadline deadline = after(options.join_timeout);
  for (int peer = 0; peer < options.size; ++peer) {
    if (peer == options.rank) continue;
    auto& wire = wires[static_cast<std::size_t>(peer)];
    wire = options.hub->connect(1, options.rank, peer, deadline);
    if (!wire)
      throw JobFailed(fmt::format("{} did not come before the deadline",
                                  net::name_member(peer, options.roles().server(peer))));
  }
  return wires;
}

}  // namespace

Job Job::join() {
  net::tell_of_uncaught_exceptions("");
  const JoinOptions options = net::identity_from(net::process_environment());
  if (options.launcher != "none" && !options.joins)
    net::tell_of_uncaught_exceptions(
        net::name_member(options.rank, options.roles().server(options.rank)));
  return join(options);
}

Job Job::join(const JoinOptions& options) {
  require(options.servers >= 0 && options.servers < options.size,
          "a job of {} members cannot have {} servers: at least one member must train",
          options.size, options.servers);
  auto state = std::make_unique<State>();
  state->options = options;
  if ((options.size == 1 && options.coordinator.empty()) || options.links == LinkKind::inproc) {
    state->mesh = std::make_unique<net::Mesh>(roster_of_threads(options), options.rank,
                                              wires_of_threads(options));
    return Job(std::move(state));
  }
  if (options.links == LinkKind::mpi) {
    net::MpiMembers all = net::join_by_mpi(options, self_of(options));
    state->mesh =
        std::make_unique<net::Mesh>(std::move(all.roster), options.rank, std::move(all.wires));
    return Job(std::move(state));
  }
  const Deadline deadline = after(options.join_timeout);
  const net::Listeners listeners(options);
  state->membership = std::make_unique<net::Membership>(
      net::Membership::join(options, self_at(listeners, options)));
  // A newcomer has waited for the others first.
  const Seconds patience = options.join_timeout;
  state->link(state->membership->roster(), listeners, options.joins ? after(patience) : deadline);
  return Job(std::move(state));
}

bool Job::newcomers() const { return state_->membership && state_->membership->newcomers(); }

void Job::refuse_newcomers(const std::string& why) {
  if (state_->membership) state_->membership->refuse_newcomers(why);
}

bool Job::can_go_on_without_the_lost() const {
  if (!state_->membership) return false;
  std::vector<int> lost;
  if (state_->mesh) {
    const net::MeshLock lock(state_->mesh->loop());
    lost = state_->mesh->lost();
  }
  auto gone = state_->words_about(lost);
  // Another may have told of a loss that the coordinator has yet to find out.
  for (const Deadline deadline = after(kTimeForWords); gone.empty() && Clock::now() < deadline;
       std::this_thread::sleep_for(std::chrono::milliseconds(10)))
    gone = state_->membership->gone();
  std::erase_if(gone, [](const Gone& each) { return each.member.server.has_value(); });
  const bool any = state_->options.goes_on_after_loss;
  return state_->membership->why_out().empty() && !gone.empty() &&
         std::ranges::none_of(gone, [&](const Gone& each) {
           return !any && state_->membership->is_founder(each.member);
         });
}

void Job::go_on_with(const std::vector<int>& left, const std::vector<int>& before) {
  net::Parting parting{.before = static_cast<int>(before.size()),
                       .left = static_cast<int>(left.size())};
  std::vector<int> lost;  // of whom it is not known that they have ended
  if (state_->membership) {
    std::ranges::set_difference(before, left, std::back_inserter(lost));
    for (const Gone& gone : state_->words_about(lost))
      if (gone.how != Gone::How::unknown)
        parting.ended += static_cast<int>(std::erase(lost, gone.member.rank));
    require_place();
    parting.with_coordinator = !state_->membership->lost_coordinator();
  }
  if (const std::string why = parting.why_not_go_on(); !why.empty()) throw JobFailed(why);
  state_->end_processes(lost);
  if (state_->membership) state_->membership->agree(left);
}

void Job::require_place() const {
  const std::string why = state_->membership ? state_->membership->why_out() : "";
  if (!why.empty()) throw JobFailed(why);
}

// A newcomer may be lost while all link up: then the others begin another generation at once. Who
// had linked up with it already misses it later, and comes to the same.
bool Job::renew() {
  if (!state_->membership) return false;
  const JoinOptions& options = state_->options;
  for (;;) {
    state_->close_mesh();
    const net::Listeners listeners(options);
    const Deadline deadline = after(options.join_timeout + kGrace);
    const auto roster = state_->membership->renew(self_at(listeners, options), deadline);
    if (!roster) return false;
    try {
      state_->link(*roster, listeners, after(options.join_timeout));
      return true;
    } catch (const PeerLost&) {
      if (!can_go_on_without_the_lost()) throw;
    }
  }
}

Job::Job(std::unique_ptr<State> state) : state_(std::move(state)) {}
Job::Job(Job&&) noexcept = default;
Job& Job::operator=(Job&&) noexcept = default;
Job::~Job() = default;

int Job::rank() const {
  require(!is_server(),
          "{} has no rank among the workers: where Job::is_server() says so, a program must serve",
          net::name_member(member(), state_->options.roles().server(member())));
  return member();
}
int Job::size() const { return state_->options.roles().workers; }
int Job::servers() const { return state_->options.servers; }
bool Job::is_server() const { return state_->options.is_server(); }
int Job::member() const { return state_->mesh->rank(); }
const Roster& Job::roster() const { return state_->mesh->roster(); }
const JoinOptions& Job::options() const { return state_->options; }
net::Mesh& Job::mesh() { return *state_->mesh; }
void Job::wait_for_workers_to_leave() {
  net::Mesh& mesh = *state_->mesh;
  const net::MeshLock lock(mesh.loop());
  const auto all_left = [&] {
    for (int worker = 0; worker < size(); ++worker)
      if (worker != mesh.rank() && mesh.end_of(worker) == net::LinkEnd::open) return false;
    return true;
  };
  mesh.loop().drive(all_left, Deadline::max());
}

std::uint64_t Job::next_communicator_id() {
  return roster().generation << 24 | ++state_->communicators;
}
std::uint64_t Job::next_service_id() {
  return roster().generation << 24 | std::uint64_t{1} << 23 | ++state_->services;
}

}  // namespace asup
