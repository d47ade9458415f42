#include <algorithm>
#include <array>
#include <limits>
#include <thread>
#include <tuple>

#include "asup/collective/execute/call.h"
#include "asup/collective/execute/envelope.h"
#include "asup/collective/execute/timeline_sink.h"
#include "asup/collective/mesh/mesh_communicator_impl.h"
#include "asup/collective/tuning/choose.h"
#include "asup/collective/tuning/surroundings.h"

namespace asup::collective {
namespace {

class MemoryOfMesh : public SharedMemory {
 public:
  MemoryOfMesh(net::Mesh& mesh, std::size_t bytes) : memory_(mesh.allocate(bytes)) {}
  std::span<std::byte> bytes() override { return memory_->bytes(); }

 private:
  std::unique_ptr<net::ReachableMemory> memory_;
};

void require_memory(const Call& call) {
  for (const Buffer* buffer : {&call.input, &call.output}) {
    require(buffer->data || buffer->count == 0, "{}: a null buffer of {} elements",
            name_of(call.collective), buffer->count);
    require(buffer->device == DeviceKind::cpu, "{}: buffers must be in CPU memory",
            name_of(call.collective));
  }
}

void require_codable(const Call& call) {
  if (call.coding.code == kernels::Code::none) return;
  require(call.collective == Collective::all_reduce && call.output.dtype == Dtype::f32 &&
              (call.op == ReduceOp::sum || call.op == ReduceOp::average),
          "{} of {}, {}: only sums and averages of f32 by all_reduce travel in a code",
          name_of(call.collective), name_of(call.output.dtype), name_of(call.op));
  require((call.coding.carried != nullptr) == (call.coding.lost != nullptr),
          "{}: what a code loses is both kept and carried on, or neither",
          name_of(call.collective));
}

void require_room(const Call& call, const Spec& spec, int rank) {
  require(call.input.dtype == call.output.dtype, "{}: input is {}, output is {}",
          name_of(call.collective), name_of(call.input.dtype), name_of(call.output.dtype));
  for (const auto& [area, buffer] :
       {std::pair(Area::input, &call.input), std::pair(Area::output, &call.output)}) {
    require(buffer->count <= std::numeric_limits<std::int64_t>::max() / 8,
            "{}: {} elements are more than memory holds", name_of(call.collective), buffer->count);
    const std::size_t needed = spec.elements(area, rank);
    require(buffer->count >= needed, "{}: {} has {} elements, {} are needed",
            name_of(call.collective), area == Area::input ? "input" : "output", buffer->count,
            needed);
  }
}

// Where the caller's thread takes part in a timeline, so do its communicators.
TraceSink sink_of(const CommunicatorOptions& options) {
  const Timeline* const timeline = current_timeline();
  return options.trace || !timeline ? options.trace : timeline_sink(*timeline);
}

}  // namespace

MeshCommunicator::MeshCommunicator(net::Mesh& mesh, std::uint64_t id, std::vector<int> members,
                                   int rank, CommunicatorOptions options)
    : mesh_(mesh),
      lineage_(id),
      group_{mesh, id, rank, std::move(members), sink_of(options)},
      options_(std::move(options)) {
  const net::MeshLock lock(mesh_.loop());
  look_at_the_group();
  mesh_.add(lineage_, *this);
}

void MeshCommunicator::look_at_the_group() {
  shares_memory_ = true;
  for (int peer = 0; peer < size(); ++peer)
    if (peer != rank()) shares_memory_ &= group_.link(peer).wire().abilities().shares_memory;
  hosts_ = tuning::hosts_of(mesh_.roster(), group_.members);
  if (!options_.hosts.empty())
    for (int r = 0; r < size(); ++r)
      hosts_[static_cast<std::size_t>(r)] =
          options_.hosts[static_cast<std::size_t>(group_.members[static_cast<std::size_t>(r)])];
  if (options_.rates) chooser_.emplace(*options_.rates, hosts_);
  if (std::count(hosts_.begin(), hosts_.end(), hosts_.front()) == std::ssize(hosts_))
    hosts_.clear();
}

MeshCommunicator::~MeshCommunicator() {
  const net::MeshLock lock(mesh_.loop());
  mesh_.run_posted();
  if (pending_ > 0) fail({Outcome::Kind::broken, "the communicator was destroyed"});
  mesh_.remove(lineage_);
}

Work MeshCommunicator::start(Call call) {
  auto pending = std::make_shared<PendingCall>(mesh_.loop());
  fill(*pending, call);
  mesh_.loop().post([this, pending] { enqueue_posted(pending); });
  return Work(pending);
}

// Nobody but the call itself can tell its caller.
void MeshCommunicator::enqueue_posted(const PendingCallPtr& pending) {
  try {
    enqueue(pending);
  } catch (const std::exception& error) {
    failed(reason_of(error));
    pending->finish(broken_);
  }
}

namespace {

Outcome wait_beside(Work work) {
  constexpr std::chrono::microseconds kMost{2000};
  for (std::chrono::microseconds nap{50}; !work.done(); nap = std::min(2 * nap, kMost))
    std::this_thread::sleep_for(nap);
  return work.wait();
}

}  // namespace

Outcome MeshCommunicator::run(Call call) {
  const TimelineScope scope(Activity::wait, {.detail = name_of(call.collective).data()});
  if (options_.beside) return wait_beside(start(std::move(call)));
  PendingCall pending(mesh_.loop());
  fill(pending, call);
  pending.is_waited_for = true;
  const net::MeshLock lock(mesh_.loop());
  mesh_.run_posted();                     // calls that were started before come first
  enqueue({PendingCallPtr(), &pending});  // which nobody keeps when it is done
  try {
    if (progress()) mesh_.let_movers_go_on();
    mesh_.loop().drive([&] { return pending.done(); }, Deadline::max());
  } catch (const std::exception& error) {
    failed(reason_of(error));
    throw;
  }
  return pending.outcome;
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
  const auto id = derived_id(fmt::format("{}/{}/{}", group_.id, number, color));
  return std::make_unique<MeshCommunicator>(mesh_, id, std::move(members), rank, options_);
}

void MeshCommunicator::fill(PendingCall& pending, Call& call) {
  if (!call.parts.empty()) coalesced(pending, call);
  require_memory(call);
  require_codable(call);
  Envelope places;
  const bool in_reach = find_places(call, places);
  if (call.algorithm.empty() && call.collective == Collective::all_reduce &&
      call.coding.code == kernels::Code::none)
    call.algorithm = options_.algorithm;
  pending.prepared =
      prepared_.find_or_make(call, in_reach, [&] { return prepare(call, in_reach); });

  Envelope& envelope = pending.envelope = pending.prepared->envelope;
  if (pending.prepared->spec.shared) {
    envelope.input_region = places.input_region;
    envelope.input_offset = places.input_offset;
    envelope.output_region = places.output_region;
    envelope.output_offset = places.output_offset;
  }
  if (pending.prepared->plan.stage > 0) set_stage(pending);
  if (pending.coalesced) pending.coalesced->describe(envelope);
  envelope.sequence = next_sequence(call);
  pending.operands.input = static_cast<std::byte*>(call.input.data);
  pending.operands.output = static_cast<std::byte*>(call.output.data);
  pending.operands.coding = call.coding;
  pending.first_lane = is_point_to_point(call.collective) ? kPointToPointLane : 0;
  pending.deadline = after(call.timeout.count() > 0 ? call.timeout : options_.timeout);
  pending.silence = call.silence;
  pending.ask_at = call.silence.count() > 0 ? after(call.silence) : pending.deadline;
  if (group_.trace && TimelineThread::current()) pending.labels = labels_of(pending);
}

// What the calling thread is doing, and what the call is of.
TimelineLabels MeshCommunicator::labels_of(const PendingCall& pending) const {
  TimelineLabels labels = TimelineThread::current()->labels();
  labels.bytes =
      static_cast<std::int64_t>(pending.prepared->spec.count * size_of(pending.envelope.dtype));
  labels.detail = pending.prepared->algorithm.data();
  return labels;
}

// Whether this rank's buffers lie in memory that the others reach, and where.
bool MeshCommunicator::find_places(const Call& call, Envelope& places) const {
  if (!shares_memory_ || size() == 1 || is_point_to_point(call.collective)) return false;
  const auto input = mesh_.address_of(call.input.data, call.input.bytes());
  const auto output = call.output.data == call.input.data && call.output.count == call.input.count
                          ? input
                          : mesh_.address_of(call.output.data, call.output.bytes());
  places.input_region = input.region;
  places.input_offset = input.offset;
  places.output_region = output.region;
  places.output_offset = output.offset;
  return (input.region != 0 || call.input.count == 0) &&
         (output.region != 0 || call.output.count == 0);
}

Prepared MeshCommunicator::prepare(const Call& call, bool in_reach) {
  Prepared prepared;
  Spec& spec = prepared.spec = spec_of(call, size());
  spec.hosts = hosts_;
  require_valid(spec);
  require_room(call, spec, rank());
  require(!is_point_to_point(call.collective) || call.root != rank(), "{}: rank {} to itself",
          name_of(call.collective), rank());
  spec.shared = in_reach && everyone_has_elements(spec);
  spec.stage = shares_memory_ && size() > 1;
  spec.coded = call.coding.code != kernels::Code::none;
  const Algorithm& algorithm =
      chooser_ ? chooser_->choose(spec, size_of(call.output.dtype), call.algorithm)
               : choose(spec, call.algorithm);
  prepared.plan = algorithm.plan(rank(), spec);
  prepared.algorithm = algorithm.name;
  Envelope& envelope = prepared.envelope;
  envelope.count = spec.count;
  envelope.algorithm = hash_of(algorithm.name);
  envelope.counts = hash_of(std::span<const std::size_t>(spec.counts));
  envelope.root = spec.root;
  envelope.collective = spec.collective;
  envelope.dtype = call.output.dtype;
  envelope.op = call.op;
  envelope.flags = static_cast<std::uint8_t>(
      (spec.in_place ? Envelope::kInPlace : 0) | (spec.shared ? Envelope::kShared : 0) |
      static_cast<int>(call.coding.code) << Envelope::kCodeShift);
  return prepared;
}

// A call that needs more memory gets new one; those under way keep theirs.
const std::shared_ptr<SharedMemory>& MeshCommunicator::at_least(
    std::size_t bytes, std::shared_ptr<SharedMemory>& memory) {
  if (!memory || memory->bytes().size() < bytes) memory = allocate(bytes);
  return memory;
}

void MeshCommunicator::coalesced(PendingCall& pending, Call& call) {
  require(call.collective == Collective::all_reduce && !call.input.data && !call.output.data,
          "{}: parts are for an all_reduce without other buffers", name_of(call.collective));
  Buffer whole = whole_of(call.parts);
  const auto& memory = at_least(whole.bytes(), coalesced_);
  whole.data = memory->bytes().data();
  call.input = call.output = whole;
  pending.coalesced.emplace(std::move(call.parts), memory);
}

void MeshCommunicator::set_stage(PendingCall& pending) {
  const std::size_t bytes = pending.prepared->plan.stage * size_of(pending.envelope.dtype);
  pending.stage = at_least(bytes, stage_);
  pending.operands.stage = stage_->bytes().data();
  pending.envelope.stage_region = mesh_.address_of(stage_->bytes().data(), bytes).region;
}

std::uint64_t MeshCommunicator::next_sequence(const Call& call) {
  if (call.collective == Collective::send) return ++sent_[call.root];
  if (call.collective == Collective::recv) return ++received_[call.root];
  return ++sequence_;
}

}  // namespace asup::collective

namespace asup {

namespace {

void complete(const Job& job, CommunicatorOptions& options) {
  require(!job.is_server(),
          "{} cannot make a communicator: they are among the workers, and servers are in none",
          net::name_member(job.member(), job.options().roles().server(job.member())));
  if (options.timeout.count() <= 0) options.timeout = job.options().call_timeout;
  if (!options.algorithm.empty())  // a wrong name is found here, not in the first step
    collective::find_algorithm(collective::Collective::all_reduce, options.algorithm);
  require(options.hosts.empty() || static_cast<int>(options.hosts.size()) == job.size(),
          "a communicator of {} members got {} hosts; give one for each, or none", job.size(),
          options.hosts.size());
}

}  // namespace

std::unique_ptr<Communicator> make_communicator(Job& job, CommunicatorOptions options) {
  complete(job, options);
  std::vector<int> members(static_cast<std::size_t>(job.size()));
  for (int rank = 0; rank < job.size(); ++rank) members[static_cast<std::size_t>(rank)] = rank;
  return std::make_unique<collective::MeshCommunicator>(
      job.mesh(), job.next_communicator_id(), std::move(members), job.rank(), std::move(options));
}

std::unique_ptr<Communicator> make_communicator(Job& job, const std::vector<int>& workers,
                                                std::string_view name,
                                                CommunicatorOptions options) {
  complete(job, options);
  const auto place = std::find(workers.begin(), workers.end(), job.rank());
  check(place != workers.end(), "rank {} is not among the workers of its communicator", job.rank());
  return std::make_unique<collective::MeshCommunicator>(
      job.mesh(), collective::derived_id(name), workers, static_cast<int>(place - workers.begin()),
      std::move(options));
}

}  // namespace asup
