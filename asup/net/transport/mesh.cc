#include "asup/net/transport/mesh.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/base/out_of_memory.h"
#include "asup/net/membership/host_probe.h"

namespace asup::net {
namespace {

struct NoteHead {
  std::uint64_t communicator = 0;
  std::uint32_t kind = 0;
  std::uint32_t reserved = 0;
};

constexpr std::size_t kMaxNote = 64 * 1024;
constexpr std::size_t kMostEarlyNotes = 256;  // of one rank; its oldest go
// A rank that asks so often and reads no answer, or is asked so often and sleeps, hears no more.
constexpr std::size_t kMostUnsentNotes = 16 * 1024;

// While no link brings anything, movers only look at the clock: not at every look at the links.
constexpr int kLooksBetweenMovers = 15;

}  // namespace

struct Mesh::Note {
  int rank;
  NoteHead head;
  std::string text;
  Outgoing outgoing;
};

struct Mesh::Early {
  int rank;
  std::uint64_t communicator;
  std::uint32_t kind;
  std::string text;
};

// Takes control messages off a link's channel 0, one after the other.
class NoteReceiver : public Receiver {
 public:
  NoteReceiver(Mesh& mesh, int rank) : mesh_(mesh), rank_(rank) {}

  bool begin(ConstBytes head, std::uint64_t total) override {
    head_.assign(head.begin(), head.end());
    text_.clear();
    if (total <= kMaxNote) return true;
    mesh_.link(rank_).receive(kControlChannel, *this);  // too long to be one of ours
    return false;
  }
  Bytes room() override { return {}; }
  void advance(std::size_t) override {}
  void take(ConstBytes bytes) override {
    text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void end() override {
    mesh_.on_note(rank_, head_, text_);
    mesh_.link(rank_).receive(kControlChannel, *this);
  }

 private:
  Mesh& mesh_;
  int rank_;
  std::vector<std::byte> head_;
  std::string text_;
};

Mesh::Mesh(Roster roster, int rank, std::vector<std::unique_ptr<Wire>> wires)
    : roster_(std::move(roster)),
      rank_(rank),
      watched_(roster_.members.size()),
      unsent_to_(roster_.members.size()),
      regions_(std::make_shared<Regions>([this](std::uint32_t region) { withdraw(region); })),
      loop_(*this) {
  int here = 1;
  bool system_calls = false;
  for (int peer = 0; peer < size(); ++peer) {
    auto& wire = wires[static_cast<std::size_t>(peer)];
    links_.push_back(wire ? std::make_unique<Link>(std::move(wire)) : nullptr);
    note_receivers_.push_back(std::make_unique<NoteReceiver>(*this, peer));
    if (peer == rank) continue;
    link(peer).receive(kControlChannel, *note_receivers_.back());
    if (const int fd = link(peer).wire().fd(); fd >= 0)
      loop_.watch(fd);
    else
      loop_.sleep_in_naps();
    const WireAbilities abilities = link(peer).wire().abilities();
    if (abilities.told_by_descriptor) {
      loop_.ask_descriptors();
      system_calls = true;
    }
    const bool worker = !roster_.members[static_cast<std::size_t>(peer)].server;
    shares_memory_ = shares_memory_ && (abilities.shares_memory || !worker);
    // Namespaces of one machine share its cores.
    if (roster_.members[static_cast<std::size_t>(peer)].host.boot ==
        roster_.members[static_cast<std::size_t>(rank)].host.boot)
      ++here;
  }
  loop_.set_spin_policy(SpinPolicy::for_host(here, system_calls));
  loop_.start();
}

Mesh::~Mesh() {
  regions_->close();
  try {
    const MeshLock lock(loop_);
    for (const auto& link : links_)
      if (link) link->send_goodbye();
    const Deadline deadline = after(Seconds(1));
    const auto none = [&](const auto& is_so) {
      return [&] {
        return std::none_of(links_.begin(), links_.end(), [&](const auto& link) {
          return link && link->end() == LinkEnd::open && is_so(*link);
        });
      };
    };
    loop_.drive(none([](Link& link) { return link.has_unsent(); }), deadline);
    for (const auto& link : links_)
      if (link) link->wire().end_writing();
    // A peer that has heard goodbye ends its side too.
    loop_.drive(none([](Link& link) { return link.wire().abilities().drain_before_close; }),
                deadline);
  } catch (const std::exception&) {
    // The peers see the closed connection instead.
  }
  loop_.stop();
}

void Mesh::add(std::uint64_t communicator, Mover& mover) {
  movers_.emplace(communicator, &mover);
  const auto others =
      std::stable_partition(early_notes_.begin(), early_notes_.end(),
                            [&](const Early& note) { return note.communicator == communicator; });
  for (auto note = early_notes_.begin(); note != others; ++note)
    mover.on_note(note->rank, note->kind, note->text);
  early_notes_.erase(early_notes_.begin(), others);
}

void Mesh::remove(std::uint64_t communicator) { movers_.erase(communicator); }

void Mesh::send_note(int rank, std::uint64_t communicator, std::uint32_t kind, std::string text) {
  std::size_t& unsent = unsent_to_[static_cast<std::size_t>(rank)];
  if (end_of(rank) != LinkEnd::open || unsent == kMostUnsentNotes) return;
  ++unsent;
  text.resize(std::min(text.size(), kMaxNote));
  notes_.push_back(std::make_unique<Note>(Note{rank, {communicator, kind}, std::move(text), {}}));
  Note& note = *notes_.back();
  note.outgoing.head = std::as_bytes(std::span(&note.head, 1));
  note.outgoing.payload = std::as_bytes(std::span(note.text));
  link(rank).send(kControlChannel, note.outgoing);
}

void Mesh::on_note(int rank, ConstBytes head, std::string_view text) {
  NoteHead note;
  if (head.size() != sizeof note) return;
  std::memcpy(&note, head.data(), sizeof note);
  if (const auto found = movers_.find(note.communicator); found != movers_.end()) {
    found->second->on_note(rank, note.kind, text);
    return;
  }
  const auto by_it = [&](const Early& early) { return early.rank == rank; };
  if (std::ranges::count_if(early_notes_, by_it) == kMostEarlyNotes)
    early_notes_.erase(std::ranges::find_if(early_notes_, by_it));
  early_notes_.push_back({rank, note.communicator, note.kind, std::string(text)});
}

std::string Mesh::describe_end(int rank) {
  if (end_of(rank) == LinkEnd::left) return "left the job";
  const std::string& why = link(rank).why();
  return why.empty() ? "was lost" : "was lost: " + why;
}

std::uint64_t Mesh::bytes_sent() {
  std::uint64_t sum = 0;
  for (const auto& link : links_)
    if (link) sum += link->bytes_sent();
  return sum;
}

bool Mesh::progress() {
  bool moved = false;
  for (int peer = 0; peer < size(); ++peer)
    if (peer != rank_) moved = progress_link(peer) || moved;
  // New calls say what they wait for before the links bring more: it goes straight to its place.
  run_posted();
  if (moved) let_movers_go_on();
  if (movers_due_ == 0) {
    if (watcher_ && loop_.now() >= next_look_) look_for_silence();
    for (const auto& [id, mover] : movers_) moved = progress_mover(*mover) || moved;
    movers_due_ = moved ? 0 : kLooksBetweenMovers;
  } else {
    --movers_due_;
  }
  if (moved) drop_notes();
  wake_sleepers();
  return moved;
}

// Those that are out, and those that nobody will read.
void Mesh::drop_notes() {
  std::erase_if(notes_, [this](const auto& note) {
    const bool over = note->outgoing.done || end_of(note->rank) != LinkEnd::open;
    if (over) --unsent_to_[static_cast<std::size_t>(note->rank)];
    return over;
  });
}

// A fence waits for the bytes to reach the other cores' view: one for all links, not one for each.
void Mesh::wake_sleepers() {
  const auto owes = [](const auto& link) { return link && link->wire().owes_wake(); };
  if (std::none_of(links_.begin(), links_.end(), owes)) return;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (const auto& link : links_)
    if (owes(link)) link->wire().wake_if_asleep();
}

bool Mesh::progress_link(int rank) {
  bool moved = true;
  guard_link(rank, [&] { moved = link(rank).progress(); });
  return moved;
}

// What the peer sent and cannot be taken ends its link, and nothing else. So does what there is no
// memory for here, which is no breach of the peer's.
template <typename Action>
void Mesh::guard_link(int rank, const Action& action) {
  Link& link = this->link(rank);
  const LinkEnd before = link.end();
  LinkNews news = LinkNews::breached;
  try {
    action();
  } catch (const std::exception& error) {
    const bool is_own = is_out_of_memory(error);
    link.lose(is_own ? reason_of(error)
                     : fmt::format("what it sent cannot be taken: {}", reason_of(error)));
    if (is_own) news = LinkNews::ended;
  }
  if (link.end() != before) took_end(rank, link.why().empty() ? LinkNews::ended : news);
}

void Mesh::receive(int rank, Channel channel, Receiver& receiver) {
  guard_link(rank, [&] { link(rank).receive(channel, receiver); });
}

bool Mesh::progress_mover(Mover& mover) {
  try {
    return mover.progress();
  } catch (const std::exception& error) {
    fail_mover(mover, reason_of(error));
    return false;
  }
}

void Mesh::fail_mover(Mover& mover, const std::string& why) {
  try {
    mover.failed(why);
  } catch (const std::exception& error) {
    log().error("{}", reason_of(error));
  }
}

// Nobody knows whose it was.
void Mesh::failed(const std::string& why) {
  for (const auto& [id, mover] : movers_) fail_mover(*mover, why);
}

void Mesh::took_end(int rank, LinkNews news) {
  Link& link = this->link(rank);
  if (link.end() == LinkEnd::lost && !link.why().empty())
    log().error("{} {}", roster_.members[static_cast<std::size_t>(rank)].describe(),
                describe_end(rank));
  link.wire().end_writing();
  if (const int fd = link.wire().fd(); fd >= 0) loop_.unwatch(fd);
  ++endings_;
  if (watcher_ && link.end() == LinkEnd::lost) watcher_(rank, news);
}

void Mesh::watch(Watcher watcher, Missed on_missed) {
  watcher_ = std::move(watcher);
  on_missed_ = std::move(on_missed);
  for (const int rank : lost()) watcher_(rank, LinkNews::ended);
}

void Mesh::look_for_silence() {
  next_look_ = loop_.now() + std::chrono::seconds(1);
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank_ || end_of(peer) != LinkEnd::open) continue;
    const bool quiet = link(peer).wire().silence(loop_.now()) >= kQuiet;
    if (std::exchange(watched_[static_cast<std::size_t>(peer)].quiet, quiet) != quiet)
      watcher_(peer, quiet ? LinkNews::quiet : LinkNews::heard);
  }
}

void Mesh::lose(int rank, const std::string& why) {
  Watched& watched = watched_[static_cast<std::size_t>(rank)];
  if (rank == rank_ || std::exchange(watched.certain, true)) return;
  ++endings_;
  if (end_of(rank) != LinkEnd::open) return;
  Link& link = this->link(rank);
  link.lose(why);
  link.wire().end_writing();
  if (const int fd = link.wire().fd(); fd >= 0) loop_.unwatch(fd);
  let_movers_go_on();
}

bool Mesh::is_gone(int rank) {
  const LinkEnd end = end_of(rank);
  const bool waits = watcher_ && !watched_[static_cast<std::size_t>(rank)].certain;
  return end == LinkEnd::left || (end == LinkEnd::lost && !waits);
}

bool Mesh::end_process(int rank, Deadline deadline) {
  const MeshLock lock(loop_);
  return rank == rank_ || link(rank).wire().end_peer(deadline);
}

bool Mesh::miss(const std::vector<int>& ranks) {
  if (!on_missed_ || !gives_up_the_late_) return false;
  on_missed_(ranks);
  return true;
}

std::vector<int> Mesh::lost() {
  std::vector<int> ranks;
  for (int peer = 0; peer < size(); ++peer)
    if (end_of(peer) == LinkEnd::lost) ranks.push_back(peer);
  return ranks;
}

bool Mesh::busy() {
  for (const auto& [id, mover] : movers_)
    if (mover->busy()) return true;
  for (const auto& link : links_)
    if (link && ((link->end() == LinkEnd::open && link->has_unsent()) || link->wire().owes_wake()))
      return true;
  return false;
}

bool Mesh::arm() {
  wake_sleepers();
  bool sleep = true;
  for (const auto& link : links_)
    if (link && link->end() == LinkEnd::open) sleep = link->wire().arm(link->has_unsent()) && sleep;
  return sleep;
}

void Mesh::disarm() {
  let_movers_go_on();
  for (const auto& link : links_)
    if (link && link->end() == LinkEnd::open) link->wire().disarm();
}

void Mesh::on_ready(int fd) {
  for (int peer = 0; peer < size(); ++peer)
    if (peer != rank_ && link(peer).wire().fd() == fd)
      guard_link(peer, [&] { link(peer).wire().on_fd_ready(); });
}

std::unique_ptr<ReachableMemory> Mesh::allocate(std::size_t bytes) {
  auto memory = regions_->make(bytes);
  const MeshLock lock(loop_);
  for (const auto& link : links_)
    if (link && link->end() == LinkEnd::open) link->wire().offer(memory->id(), memory->region());
  memory->close_fd();
  return memory;
}

void Mesh::withdraw(std::uint32_t region) {
  loop_.post([this, region] {
    for (const auto& link : links_)
      if (link && link->end() == LinkEnd::open) link->wire().withdraw(region);
  });
}

std::byte* Mesh::reach(int rank, Address address, std::size_t bytes) {
  const auto region = hold(rank, address.region);
  const std::size_t size = region ? region->bytes().size() : 0;
  if (!region || address.offset > size || bytes > size - address.offset) return nullptr;
  return region->bytes().data() + address.offset;
}

std::shared_ptr<const Region> Mesh::hold(int rank, std::uint32_t region) {
  return link(rank).wire().reach(region);
}

}  // namespace asup::net
