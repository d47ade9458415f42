#include "asup/ps/client.h"

#include <algorithm>

#include "asup/base/error.h"
#include "asup/base/seed.h"
#include "asup/base/timeline.h"

namespace asup::ps {

namespace {

std::vector<Range> cut(const std::vector<Range>& ranges, Range shard) {
  std::vector<Range> inside;
  for (const Range& range : ranges)
    if (const Range part = intersection(range, shard); !part.empty()) inside.push_back(part);
  return inside;
}

kernels::Encoding from_element(const kernels::Encoding& how, std::uint64_t offset) {
  kernels::Encoding from = how;
  if (how.carried) from.carried += offset;
  if (how.lost) from.lost += offset;
  return from;
}

net::ConstBytes bytes_of(const float* data, std::uint64_t elements) {
  return std::as_bytes(std::span(data, elements));
}

}  // namespace

Client::Client(net::MemberGroup group, const ServerSetup& setup, std::vector<Range> ranges,
               Seconds timeout, std::size_t part)
    : group_(group),
      setup_(setup),
      timeout_(timeout),
      shards_(shards_of(setup, group.servers)),
      coded_(coded_parts(setup)),
      part_(parts_of(setup).at(part)),
      memory_(group.mesh.allocate(part_.size() * sizeof(float))) {
  const auto tensors = parts_in(setup.layout, part_);
  tensors_ = tensors.size();
  if (tensors_ > 0) first_tensor_ = tensors.front().tensor;
  if (ranges.empty() && tensors_ > 0) ranges.push_back({0, part_.size()});
  for (Range& range : ranges) range = on_servers(range);
  for (const Range& shard : shards_) {
    kept_.push_back(intersection(part_, shard));
    ranges_.push_back(cut(ranges, shard));
    for (const Range& range : ranges_.back()) elements_ += range.size();
  }
  const net::MeshLock lock(group_.mesh.loop());
  messenger_.emplace(group_.mesh, group_.id, group_.members(),
                     static_cast<net::Messenger::Handler&>(*this));
  messenger_->open();
}

Client::~Client() {
  const net::MeshLock lock(group_.mesh.loop());
  if (pushes_) messenger_->abandon();  // a push that is not complete, whose memory may be gone
  for (int server = 0; server < group_.servers; ++server)
    messenger_->send(group_.member_of_server(server), head_of(Leave{}));
  group_.mesh.loop().drive([&] { return !messenger_->has_unsent(); }, after(Seconds(1)));
  messenger_.reset();
}

std::span<float> Client::parameters() const {
  return {reinterpret_cast<float*>(memory_->bytes().data()), part_.size()};
}

std::string Client::name_of_server(int server) const {
  const auto member = static_cast<std::size_t>(group_.member_of_server(server));
  return group_.mesh.roster().members[member].describe();
}

bool Client::reaches_us(int member) {
  return group_.mesh.link(member).wire().abilities().shares_memory;
}

RemoteAddress Client::remote_address_of(const float* data, std::uint64_t elements) {
  const auto address = group_.mesh.address_of(data, elements * sizeof(float));
  return {address.offset, address.region};
}

// Needs the lock. By address where the server reaches the memory, else by payload.
template <typename Body>
void Client::send_elements(int member, Body body, const float* data) {
  if (reaches_us(member)) body.address = remote_address_of(data, body.range.size());
  messenger_->send(
      member, head_of(body),
      body.address.region != 0 ? net::ConstBytes{} : bytes_of(data, body.range.size()));
  bytes_moved_ += body.range.size() * sizeof(float);
}

void Client::drive(const std::function<bool()>& done, const char* what) {
  auto& loop = group_.mesh.loop();
  const bool came = loop.drive([&] { return done() || !failure_.empty() || !departure_.empty(); },
                               after(timeout_));
  if (came && failure_.empty() && departure_.empty()) return;
  // Servers leave when they lose one: that one is to be named.
  if (failure_.empty() && !departure_.empty()) {
    loop.drive([&] { return !failure_.empty(); }, after(Seconds(1)));
    if (failure_.empty()) failure_ = departure_;
  }
  messenger_->abandon();  // the caller may free what it has pushed
  if (failure_.empty()) failure_ = fmt::format("no {} within {:g} s", what, timeout_.count());
  throw JobFailed(failure_);
}

void Client::begin(bool provides, const RuleState& state) {
  const net::MeshLock lock(group_.mesh.loop());
  const std::string text = to_text(setup_);
  for (int server = 0; server < group_.servers; ++server) {
    const int member = group_.member_of_server(server);
    const auto& ranges = ranges_[static_cast<std::size_t>(server)];
    Hello hello{text.size(), {}, part_.begin};
    if (reaches_us(member))
      hello.parameters = remote_address_of(parameters().data(), parameters().size());
    const auto text_bytes = std::as_bytes(std::span(text));
    const auto range_bytes = std::as_bytes(std::span(ranges));
    std::vector<std::byte> payload(text_bytes.begin(), text_bytes.end());
    payload.insert(payload.end(), range_bytes.begin(), range_bytes.end());
    messenger_->send_kept(member, head_of(hello), std::move(payload));
    if (!provides) continue;
    const Range kept = kept_[static_cast<std::size_t>(server)];
    if (!kept.empty())
      send_elements(member, Initial{kept, {}}, parameters().data() + here(kept).begin);
  }
  if (provides && setup_.with_state) send_state(state);
  drive([&] { return welcomes_ == group_.servers; },
        "welcome from the servers, which wait until every worker has said what it trains,");
}

void Client::arrive(const std::vector<int>& met) {
  const net::MeshLock lock(group_.mesh.loop());
  awaited_ = elements_;
  release_.reset();
  const std::vector<std::int32_t> workers(met.begin(), met.end());
  const auto bytes = std::as_bytes(std::span(workers));
  messenger_->send_kept(group_.head(), head_of(Arrive{}), {bytes.begin(), bytes.end()});
}

void Client::push(Range range, const float* gradient, const kernels::Encoding& how) {
  const TimelineScope scope(Activity::push,
                            {.bytes = static_cast<std::int64_t>(range.size() * sizeof(float))});
  const Range pushed = on_servers(range);
  for (int server = 0; server < group_.servers; ++server)
    for (const Range& own : ranges_[static_cast<std::size_t>(server)])
      for (const auto& [piece, is_coded] : coded_.cut(intersection(pushed, own))) {
        const std::uint64_t offset = piece.begin - pushed.begin;
        if (is_coded) {
          push_coded(server, piece, gradient + offset, from_element(how, offset));
          continue;
        }
        const net::MeshLock lock(group_.mesh.loop());
        pushes_ = true;
        send_elements(group_.member_of_server(server), Piece{push_ + 1, piece, {}},
                      gradient + offset);
      }
}

// Other pieces leave meanwhile.
void Client::push_coded(int server, Range piece, const float* gradient,
                        const kernels::Encoding& how) {
  kernels::Encoding own = how;
  if (how.noise)
    own.noise =
        seed_of(seed_of(*how.noise + static_cast<std::uint64_t>(group_.mesh.rank())) + piece.begin);
  std::vector<std::byte> code(coded_.bytes_of(piece));
  {
    const TimelineScope scope(Activity::encode);
    kernels::encode(coded_.code, code.data(), gradient, piece.size(), own);
  }
  const net::MeshLock lock(group_.mesh.loop());
  bytes_moved_ += code.size();
  messenger_->send_kept(group_.member_of_server(server), head_of(Piece{push_ + 1, piece, {}}),
                        std::move(code));
}

void Client::commit(const Figures& figures, std::span<const double> lr) {
  check(lr.size() == setup_.rules.size(), "learning rates of {} groups, and the setup has {}",
        lr.size(), setup_.rules.size());
  const auto bytes = std::as_bytes(lr);
  const net::MeshLock lock(group_.mesh.loop());
  ++push_;
  pushes_ = false;
  awaited_ = elements_;
  release_.reset();
  for (int server = 0; server < group_.servers; ++server)
    messenger_->send_kept(group_.member_of_server(server), head_of(Commit{push_, figures}),
                          {bytes.begin(), bytes.end()});
}

Release Client::wait_for_release() {
  const TimelineScope scope(Activity::lease);
  const auto start = Clock::now();
  const net::MeshLock lock(group_.mesh.loop());
  drive([&] { return release_.has_value(); }, "release from the servers");
  wait_seconds_ += seconds_since(start);
  return *release_;
}

Release Client::wait() {
  const TimelineScope scope(Activity::pull);
  const auto start = Clock::now();
  const net::MeshLock lock(group_.mesh.loop());
  drive([&] { return release_ && awaited_ == 0; }, "parameters from the servers");
  wait_seconds_ += seconds_since(start);
  version_ = release_->version;
  known_.reset();
  return *release_;
}

void Client::ask_for_sync_point() {
  const net::MeshLock lock(group_.mesh.loop());
  messenger_->send(group_.head(), head_of(AskSyncPoint{}));
}

std::string Client::report() {
  const net::MeshLock lock(group_.mesh.loop());
  answer_.reset();
  messenger_->send(group_.head(), head_of(Report{}));
  drive([&] { return answer_.has_value(); }, "report from server 0");
  return *answer_;
}

net::Bytes Client::room_for(int member, net::ConstBytes head, std::uint64_t bytes) {
  if (group_.is_worker(member) || bytes == 0) return {};
  const auto message = read<Parameters>(head);
  if (!message) return room_for_state(group_.server_of(member), head, bytes);
  const Range range = message->range;
  if (range.empty() || !part_.contains(range) || range.size() * sizeof(float) != bytes) return {};
  return std::as_writable_bytes(parameters().subspan(here(range).begin, range.size()));
}

void Client::arrived(int member, net::ConstBytes head, net::Bytes payload) {
  const auto text = [&] {
    return std::string(reinterpret_cast<const char*>(payload.data()), payload.size());
  };
  switch (kind_of(head).value_or(Kind{})) {
    case Kind::welcome:
      ++welcomes_;
      if (const auto message = read<Welcome>(head)) version_ = message->version;
      break;
    case Kind::refused:
      failure_ = fmt::format("{}: {}", name_of_server(group_.server_of(member)), text());
      break;
    case Kind::parameters:
      if (const auto message = read<Parameters>(head)) {
        awaited_ -= std::min(awaited_, message->range.size());
        bytes_moved_ += message->range.size() * sizeof(float);
      }
      break;
    case Kind::difference:
      if (const auto message = read<Difference>(head))
        if (const auto complaint = take_difference(*message, payload); !complaint.empty())
          failure_ = fmt::format("{} {}", name_of_server(group_.server_of(member)), complaint);
      break;
    case Kind::release:
      release_ = read<Release>(head);
      break;
    case Kind::state_updates:
    case Kind::state:
      if (!group_.is_worker(member)) take_state(group_.server_of(member), head, payload);
      break;
    case Kind::report:
      answer_ = text();
      break;
    default:
      break;  // from a program of another version; the handshake keeps those out
  }
}

// A complaint where it cannot be.
std::string Client::take_difference(const Difference& difference, net::ConstBytes code) {
  const Range range = difference.range;
  if (!coded_.hold(range) || range.size() > kMostCoded || awaited_ < range.size() ||
      (!code.empty() && code.size() != coded_.bytes_of(range)))
    return fmt::format("sent what elements {} to {} have changed by in {} bytes, which cannot be",
                       range.begin, range.end, code.size());
  float* to = parameters().data() + range.begin;
  const float* before = known_ ? known_->data() + range.begin : to;
  if (code.empty()) {
    if (known_) std::copy_n(before, range.size(), to);
  } else {
    decoded_.resize(range.size());
    kernels::decode(coded_.code, decoded_.data(), code.data(), range.size());
    for (std::size_t i = 0; i < range.size(); ++i) to[i] = before[i] + decoded_[i];
  }
  awaited_ -= range.size();
  bytes_moved_ += code.size();
  return {};
}

void Client::gone(int member, net::LinkEnd end) {
  if (group_.is_worker(member)) return;  // the head sees to that
  const std::string name = name_of_server(group_.server_of(member));
  if (end == net::LinkEnd::left)
    departure_ = fmt::format("{} has left the job", name);
  else
    failure_ = fmt::format("{} was lost", name);
}

}  // namespace asup::ps
