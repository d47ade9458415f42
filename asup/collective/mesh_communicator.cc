#include "asup/collective/mesh_communicator.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <sstream>
#include <tuple>

#include "asup/collective/build.h"
#include "asup/collective/call.h"
#include "asup/collective/choose.h"
#include "asup/collective/plan_cache.h"
#include "asup/collective/ticket.h"

namespace asup {
namespace {

using collective::Collective;
using collective::Envelope;
using collective::Spec;
using collective::Ticket;
using TicketPtr = std::shared_ptr<Ticket>;

bool is_point_to_point(Collective collective) {
  return collective == Collective::send || collective == Collective::recv;
}

// What members tell each other about a communicator, outside its channels.
enum NoteKind : std::uint32_t {
  kFailed = 1,  // text: the outcome, as write_outcome() puts it
  kWhere = 2,   // how many calls have you started?
  kHere = 3     // text: the number
};

constexpr Seconds kAnswerTime{1};

// "1 2,5 the message": kind, ranks, message.
std::string write_outcome(const Outcome& outcome) {
  std::string ranks;
  for (const int rank : outcome.ranks())
    ranks += fmt::format("{}{}", ranks.empty() ? "" : ",", rank);
  return fmt::format("{} {} {}", static_cast<int>(outcome.kind()), ranks, outcome.message());
}

Outcome read_outcome(std::string_view text) {
  std::istringstream in{std::string(text)};
  int kind = 0;
  in >> kind;
  in.get();
  std::vector<int> ranks;
  for (int rank = 0; in.peek() != ' ' && in >> rank;) {
    ranks.push_back(rank);
    if (in.peek() == ',') in.get();
  }
  in.clear();
  in.get();
  std::string message;
  std::getline(in, message, '\0');
  const bool known = kind > 0 && kind <= static_cast<int>(Outcome::Kind::broken);
  return {known ? static_cast<Outcome::Kind>(kind) : Outcome::Kind::broken, message, ranks};
}

class MemoryOfMesh : public SharedMemory {
 public:
  MemoryOfMesh(net::Mesh& mesh, std::size_t bytes) : memory_(mesh.allocate(bytes)) {}
  std::span<std::byte> bytes() override { return memory_->bytes(); }

 private:
  std::unique_ptr<net::ReachableMemory> memory_;
};

// The number of each member's host, by rank in the group; none where all are on one.
std::vector<int> hosts_of(const std::vector<int>& members, const net::Roster& roster,
                          const std::vector<int>& given) {
  std::vector<int> hosts;
  for (const int member : members) {
    int host = 0;  // the first member on the same host
    const auto same = [&](int other) {
      const auto a = static_cast<std::size_t>(member), b = static_cast<std::size_t>(other);
      return given.empty() ? roster.members[a].host == roster.members[b].host
                           : given[a] == given[b];
    };
    while (!same(members[static_cast<std::size_t>(host)])) ++host;
    hosts.push_back(host);
  }
  const bool one = std::count(hosts.begin(), hosts.end(), 0) == std::ssize(hosts);
  return one ? std::vector<int>() : hosts;
}

class MeshCommunicator : public Communicator, private net::Mesh::Mover {
 public:
  MeshCommunicator(net::Mesh& mesh, std::uint64_t id, std::vector<int> members, int rank,
                   CommunicatorOptions options);
  ~MeshCommunicator() override;

  int rank() const override { return group_.rank; }
  int size() const override { return group_.size(); }
  Work start(Call call) override;
  Outcome run(Call call) override;
  std::unique_ptr<SharedMemory> allocate(std::size_t bytes) override;
  std::unique_ptr<Communicator> split(int color, int key) override;
  std::uint64_t bytes_moved() const override { return bytes_moved_.load(); }

 private:
  using Queue = std::deque<TicketPtr>;

  TicketPtr make_ticket(Call& call);
  bool reachable(const Call& call, const Spec& spec, Envelope& envelope) const;
  std::uint64_t next_sequence(const Call& call);
  void set_stage(Ticket& ticket);
  void enqueue(TicketPtr ticket);

  bool progress() override;
  bool busy() override { return tickets_ > 0; }
  void on_note(int rank, std::uint32_t kind, std::string_view text) override;

  bool progress_queue(Queue& queue);
  void begin(Ticket& ticket);
  void trace(collective::TraceEvent::Kind kind, const Ticket& ticket) const;
  void look_for_trouble(Ticket& ticket);
  void look_for_the_gone(Ticket& ticket);
  void look_at_the_clock(Ticket& ticket);
  void end_late(Ticket& ticket);
  void fail(Outcome why);
  std::string name_of_member(int rank) const;

  net::Mesh& mesh_;
  collective::Group group_;
  const CommunicatorOptions options_;
  bool shares_memory_ = true;
  const std::vector<int> hosts_;  // by rank; empty where all are on one

  // The caller's.
  std::uint64_t sequence_ = 0;
  std::map<int, std::uint64_t> sent_, received_;  // point-to-point calls, by peer
  std::uint64_t splits_ = 0;
  collective::PlanCache plans_;
  std::shared_ptr<SharedMemory> stage_;  // of the calls that need one, one after the other

  // Under the turn. Queue 0 holds collectives; each peer has one for sends and one for receives.
  std::map<int, Queue> queues_;
  std::size_t tickets_ = 0;
  std::uint64_t started_ = 0;  // collectives
  Outcome broken_;

  std::atomic<std::uint64_t> bytes_moved_{0};
};

MeshCommunicator::MeshCommunicator(net::Mesh& mesh, std::uint64_t id, std::vector<int> members,
                                   int rank, CommunicatorOptions options)
    : mesh_(mesh),
      group_{mesh, id, rank, std::move(members), options.trace},
      options_(std::move(options)),
      hosts_(hosts_of(group_.members, mesh.roster(), options_.hosts)),
      plans_(rank) {
  const net::Loop::Turn turn(mesh_.loop());
  for (int peer = 0; peer < size(); ++peer)
    if (peer != rank) shares_memory_ &= group_.link(peer).wire().abilities().shares_memory;
  mesh_.add(id, *this);
}

MeshCommunicator::~MeshCommunicator() {
  const net::Loop::Turn turn(mesh_.loop());
  mesh_.loop().run_posted();
  if (tickets_ > 0) fail({Outcome::Kind::broken, "the communicator was destroyed"});
  mesh_.remove(group_.id);
}

Work MeshCommunicator::start(Call call) {
  auto ticket = make_ticket(call);
  mesh_.loop().post([this, ticket] { enqueue(ticket); });
  return Work(ticket);
}

Outcome MeshCommunicator::run(Call call) {
  auto ticket = make_ticket(call);
  const net::Loop::Turn turn(mesh_.loop());
  mesh_.loop().run_posted();  // calls that were started before come first
  enqueue(ticket);
  mesh_.loop().drive([&] { return ticket->done(); }, Deadline::max());
  return ticket->outcome;
}

std::unique_ptr<SharedMemory> MeshCommunicator::allocate(std::size_t bytes) {
  return std::make_unique<MemoryOfMesh>(mesh_, bytes);
}

std::unique_ptr<Communicator> MeshCommunicator::split(int color, int key) {
  struct Choice {
    std::int32_t color, key;
  };
  const Choice mine{color, key};
  std::vector<Choice> choices(static_cast<std::size_t>(size()));
  const auto bytes_of = [](auto& values) {
    return Buffer{const_cast<void*>(static_cast<const void*>(values.data())),
                  values.size() * sizeof(Choice), Dtype::u8};
  };
  std::array<Choice, 1> own{mine};
  all_gather(bytes_of(own), bytes_of(choices)).or_throw();
  const std::uint64_t number = ++splits_;
  if (color < 0) return nullptr;

  std::vector<std::tuple<int, int>> order;  // key, rank here
  for (int r = 0; r < size(); ++r)
    if (const Choice& choice = choices[static_cast<std::size_t>(r)]; choice.color == color)
      order.emplace_back(choice.key, r);
  std::sort(order.begin(), order.end());
  std::vector<int> members;
  int rank = 0;
  for (const auto& [choice_key, r] : order) {
    if (r == group_.rank) rank = static_cast<int>(members.size());
    members.push_back(group_.members[static_cast<std::size_t>(r)]);
  }
  // The same on all members, and apart from every communicator that a Job counts.
  const auto id =
      std::uint64_t{1} << 47 |
      (std::uint64_t{collective::hash_of(fmt::format("{}/{}/{}", group_.id, number, color))});
  return std::make_unique<MeshCommunicator>(mesh_, id, std::move(members), rank, options_);
}

TicketPtr MeshCommunicator::make_ticket(Call& call) {
  auto ticket = std::make_shared<Ticket>(mesh_.loop());
  ticket->spec = collective::spec_of(call, size());
  ticket->spec.hosts = hosts_;
  Spec& spec = ticket->spec;
  collective::require_valid(spec);
  for (const Buffer* buffer : {&call.input, &call.output}) {
    require(buffer->data || buffer->count == 0, "{}: a null buffer of {} elements",
            name_of(call.collective), buffer->count);
    require(buffer->device == DeviceKind::cpu, "{}: buffers must be in CPU memory",
            name_of(call.collective));
    require(buffer->count <= std::numeric_limits<std::int64_t>::max() / 8,
            "{}: {} elements are more than memory holds", name_of(call.collective), buffer->count);
  }
  require(call.input.dtype == call.output.dtype, "{}: input is {}, output is {}",
          name_of(call.collective), name_of(call.input.dtype), name_of(call.output.dtype));
  for (const auto& [area, buffer] : {std::pair(collective::Area::input, &call.input),
                                     std::pair(collective::Area::output, &call.output)}) {
    const std::size_t needed = spec.elements(area, rank());
    require(buffer->count >= needed, "{}: {} has {} elements, {} are needed",
            name_of(call.collective), area == collective::Area::input ? "input" : "output",
            buffer->count, needed);
  }
  require(!is_point_to_point(call.collective) || call.root != rank(), "{}: rank {} to itself",
          name_of(call.collective), rank());

  Envelope& envelope = ticket->envelope;
  envelope.dtype = call.output.dtype;
  spec.shared = reachable(call, spec, envelope);
  spec.stage = shares_memory_ && size() > 1;
  const std::string_view wanted =
      call.algorithm.empty() && call.collective == Collective::all_reduce
          ? std::string_view(options_.algorithm)
          : std::string_view(call.algorithm);
  const collective::Algorithm& algorithm = collective::choose(spec, wanted);
  ticket->plan = plans_.plan_for(algorithm, spec);
  if (ticket->plan->stage > 0) set_stage(*ticket);
  envelope.sequence = next_sequence(call);
  envelope.count = spec.count;
  envelope.algorithm = collective::hash_of(algorithm.name);
  envelope.counts = collective::hash_of(std::span<const std::size_t>(spec.counts));
  envelope.root = spec.root;
  envelope.collective = spec.collective;
  envelope.op = call.op;
  envelope.flags = static_cast<std::uint8_t>((spec.in_place ? Envelope::kInPlace : 0) |
                                             (spec.shared ? Envelope::kShared : 0));
  ticket->operands.input = static_cast<std::byte*>(call.input.data);
  ticket->operands.output = static_cast<std::byte*>(call.output.data);
  ticket->first_lane = is_point_to_point(call.collective) ? collective::kPointToPointLane : 0;
  ticket->deadline = after(call.timeout.count() > 0 ? call.timeout : options_.timeout);
  return ticket;
}

// Whether this rank's buffers lie in memory that the others reach, and where.
bool MeshCommunicator::reachable(const Call& call, const Spec& spec, Envelope& envelope) const {
  if (!shares_memory_ || size() == 1 || is_point_to_point(call.collective) ||
      !collective::everyone_has_elements(spec))
    return false;
  const auto input = mesh_.place_of(call.input.data, call.input.bytes());
  const auto output = mesh_.place_of(call.output.data, call.output.bytes());
  envelope.input_region = input.region;
  envelope.input_offset = input.offset;
  envelope.output_region = output.region;
  envelope.output_offset = output.offset;
  return (input.region != 0 || call.input.count == 0) &&
         (output.region != 0 || call.output.count == 0);
}

// A call that needs a larger stage gets a new one; those under way keep theirs.
void MeshCommunicator::set_stage(Ticket& ticket) {
  const std::size_t bytes = ticket.plan->stage * size_of(ticket.envelope.dtype);
  if (!stage_ || stage_->bytes().size() < bytes) stage_ = allocate(bytes);
  ticket.stage = stage_;
  ticket.operands.stage = stage_->bytes().data();
  ticket.envelope.stage_region = mesh_.place_of(stage_->bytes().data(), bytes).region;
}

std::uint64_t MeshCommunicator::next_sequence(const Call& call) {
  if (call.collective == Collective::send) return ++sent_[call.root];
  if (call.collective == Collective::recv) return ++received_[call.root];
  return ++sequence_;
}

void MeshCommunicator::enqueue(TicketPtr ticket) {
  if (!broken_.ok()) {
    ticket->finish(broken_);
    return;
  }
  const Collective kind = ticket->envelope.collective;
  if (!is_point_to_point(kind)) ++started_;
  const int queue =
      is_point_to_point(kind) ? 1 + 2 * ticket->spec.root + (kind == Collective::recv ? 1 : 0) : 0;
  queues_[queue].push_back(std::move(ticket));
  ++tickets_;
}

bool MeshCommunicator::progress() {
  bool moved = false;
  for (auto& [number, queue] : queues_)
    while (!queue.empty() && progress_queue(queue)) moved = true;
  return moved;
}

// Moves the first call of the queue; true when anything did.
bool MeshCommunicator::progress_queue(Queue& queue) {
  const TicketPtr ticket = queue.front();
  try {
    if (!ticket->execution) begin(*ticket);
    const bool moved = ticket->execution->advance();
    if (ticket->execution->done()) {
      bytes_moved_ += ticket->execution->bytes_moved();
      trace(collective::TraceEvent::Kind::end, *ticket);
      queue.pop_front();
      --tickets_;
      ticket->finish({});
      return true;
    }
    if (!moved || !ticket->execution->mismatch().empty()) look_for_trouble(*ticket);
    return moved && !ticket->done();
  } catch (const std::exception& error) {
    fail({Outcome::Kind::broken, fmt::format("rank {}: {}", rank(), error.what())});
    return false;
  }
}

void MeshCommunicator::begin(Ticket& ticket) {
  ticket.scratch.resize(ticket.plan->scratch * size_of(ticket.envelope.dtype));
  ticket.operands.scratch = ticket.scratch.data();
  ticket.execution.emplace(group_, ticket.spec, ticket.envelope, *ticket.plan, ticket.operands,
                           ticket.first_lane);
  trace(collective::TraceEvent::Kind::begin, ticket);
}

void MeshCommunicator::trace(collective::TraceEvent::Kind kind, const Ticket& ticket) const {
  if (group_.trace)
    group_.trace(
        {kind, group_.id, ticket.envelope.sequence, &ticket.spec, ticket.plan.get(), 0, 0, 0});
}

void MeshCommunicator::look_for_trouble(Ticket& ticket) {
  if (const std::string& mismatch = ticket.execution->mismatch(); !mismatch.empty()) {
    fail({Outcome::Kind::mismatch, "ranks call different things: " + mismatch});
    return;
  }
  if (ticket.endings_seen != mesh_.endings()) look_for_the_gone(ticket);
  if (!ticket.done()) look_at_the_clock(ticket);
}

// A lost member breaks every communicator it is in; one that left only breaks a call that still
// waits for it.
void MeshCommunicator::look_for_the_gone(Ticket& ticket) {
  ticket.endings_seen = mesh_.endings();
  const std::vector<int> waiting = ticket.execution->waiting_for();
  for (int peer = 0; peer < size(); ++peer) {
    const auto end = mesh_.end_of(group_.members[static_cast<std::size_t>(peer)]);
    const bool waited_for = std::count(waiting.begin(), waiting.end(), peer) > 0;
    if (end == net::LinkEnd::lost || (end == net::LinkEnd::left && waited_for)) {
      fail({Outcome::Kind::lost,
            fmt::format("{} {} during {}", name_of_member(peer),
                        end == net::LinkEnd::lost ? "was lost" : "left the job",
                        ticket.envelope.describe()),
            {peer}});
      return;
    }
  }
  // Rounds to come may still meet a member that left: look again then.
  for (int peer = 0; peer < size(); ++peer)
    if (mesh_.end_of(group_.members[static_cast<std::size_t>(peer)]) != net::LinkEnd::open)
      ticket.endings_seen = ~std::uint64_t{0};
}

// At the deadline the others are asked where they are, so that those who did not come are named and
// not those who wait like us.
void MeshCommunicator::look_at_the_clock(Ticket& ticket) {
  const auto now = mesh_.loop().now();
  if (now < ticket.deadline) return;
  if (!ticket.asked) {
    ticket.asked = true;
    ticket.answers_due = now + std::chrono::duration_cast<Clock::duration>(kAnswerTime);
    ticket.answers.assign(group_.members.size(), Ticket::kNoAnswer);
    ticket.answers[static_cast<std::size_t>(rank())] = started_;
    for (int peer = 0; peer < size(); ++peer)
      if (peer != rank())
        mesh_.send_note(group_.members[static_cast<std::size_t>(peer)], group_.id, kWhere, {});
    return;
  }
  const bool all_answered =
      std::count(ticket.answers.begin(), ticket.answers.end(), Ticket::kNoAnswer) == 0;
  if (all_answered || now >= ticket.answers_due) end_late(ticket);
}

void MeshCommunicator::end_late(Ticket& ticket) {
  std::vector<int> late;
  const bool collective = !is_point_to_point(ticket.envelope.collective);
  for (int peer = 0; peer < size(); ++peer) {
    const std::uint64_t answer = ticket.answers[static_cast<std::size_t>(peer)];
    if (answer == Ticket::kNoAnswer || (collective && answer < ticket.envelope.sequence))
      late.push_back(peer);
  }
  if (late.empty()) late = ticket.execution->waiting_for();
  std::string names;
  for (const int peer : late)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of_member(peer));
  fail({Outcome::Kind::late,
        fmt::format("{} did not come to {} before the deadline", names, ticket.envelope.describe()),
        late});
}

void MeshCommunicator::on_note(int rank, std::uint32_t kind, std::string_view text) {
  const auto place = std::find(group_.members.begin(), group_.members.end(), rank);
  if (place == group_.members.end()) return;
  const auto peer = static_cast<std::size_t>(place - group_.members.begin());
  switch (kind) {
    case kFailed:
      fail(read_outcome(text));
      break;
    case kWhere:
      mesh_.send_note(rank, group_.id, kHere, std::to_string(started_));
      break;
    case kHere:
      for (auto& [number, queue] : queues_)
        for (const TicketPtr& ticket : queue)
          if (ticket->asked) ticket->answers[peer] = std::stoull(std::string(text));
      break;
    default:
      break;
  }
}

// Ends every call, now and later, with `why`, and passes it on, so that all ranks tell the same
// story even when the first to know leaves before the others have looked.
void MeshCommunicator::fail(Outcome why) {
  if (!broken_.ok()) return;
  broken_ = why;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    for (int lane = 0; lane < collective::kMaxLanes; ++lane)
      group_.link(peer).forget(collective::channel_of(group_.id, lane));
    group_.link(peer).forget(collective::channel_of(group_.id, collective::kPointToPointLane));
    mesh_.send_note(group_.members[static_cast<std::size_t>(peer)], group_.id, kFailed,
                    write_outcome(why));
  }
  for (auto& [number, queue] : queues_)
    for (const TicketPtr& ticket : queue) ticket->finish(why);
  for (auto& [number, queue] : queues_) queue.clear();
  tickets_ = 0;
}

std::string MeshCommunicator::name_of_member(int rank) const {
  const int member = group_.members[static_cast<std::size_t>(rank)];
  return mesh_.roster().members[static_cast<std::size_t>(member)].describe();
}

}  // namespace

std::unique_ptr<Communicator> make_communicator(Job& job, CommunicatorOptions options) {
  if (options.timeout.count() <= 0) options.timeout = job.options().call_timeout;
  if (!options.algorithm.empty())  // a wrong name is found here, not in the first step
    collective::find_algorithm(Collective::all_reduce, options.algorithm);
  require(options.hosts.empty() || static_cast<int>(options.hosts.size()) == job.size(),
          "a communicator of {} members got {} hosts; give one for each, or none", job.size(),
          options.hosts.size());
  std::vector<int> members(static_cast<std::size_t>(job.size()));
  for (int rank = 0; rank < job.size(); ++rank) members[static_cast<std::size_t>(rank)] = rank;
  return std::make_unique<MeshCommunicator>(job.mesh(), job.next_communicator_id(),
                                            std::move(members), job.rank(), std::move(options));
}

}  // namespace asup
