// All the links of one member, and the loop that moves them.
//
// Methods that need the lock (loop.h) say so; the rest may be called from any thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "asup/net/membership/link_news.h"
#include "asup/net/membership/roster.h"
#include "asup/net/transport/link.h"
#include "asup/net/transport/loop.h"
#include "asup/net/transport/regions.h"

namespace asup::net {

class NoteReceiver;

class Mesh : private Loop::Body {
 public:
  // Moved along with the links: a communicator's calls. Called under the lock, when a link has
  // moved or the mover itself, and from time to time.
  class Mover {
   public:
    virtual ~Mover() = default;
    virtual bool progress() = 0;  // true when anything moved
    virtual bool busy() = 0;
    // A short message from `rank` about this mover's communicator, outside all channels.
    virtual void on_note(int rank, std::uint32_t kind, std::string_view text) = 0;
    // It cannot go on, since progress() threw this or something that all share failed: whoever
    // waits for it is to hear of it.
    virtual void failed(const std::string& why) = 0;
  };

  // Wires by rank, null at our own.
  Mesh(Roster roster, int rank, std::vector<std::unique_ptr<Wire>> wires);
  ~Mesh() override;  // says goodbye and waits, at most a second, until that is out

  int rank() const { return rank_; }
  int size() const { return roster_.size(); }
  const Roster& roster() const { return roster_; }
  Loop& loop() { return loop_; }
  // Every worker's memory can be reached: by the other workers, or by this server.
  bool shares_memory() const { return shares_memory_; }

  // The following need the lock.
  Link& link(int rank) { return *links_[static_cast<std::size_t>(rank)]; }
  // The receiver takes what comes from there on the channel, at once what has come. What it throws
  // ends the link.
  void receive(int rank, Channel channel, Receiver& receiver);
  void add(std::uint64_t communicator, Mover& mover);
  void remove(std::uint64_t communicator);
  void send_note(int rank, std::uint64_t communicator, std::uint32_t kind, std::string text);
  // Wakes peers that sleep and do not know yet what was written for them. progress() does so at its
  // end; before it, whoever is about to be busy for long.
  void wake_sleepers();
  void run_posted() {
    if (loop_.run_posted()) let_movers_go_on();
  }
  // A mover has got something to do by other ways than links and posted actions.
  void let_movers_go_on() { movers_due_ = 0; }
  // Goes up whenever a link ends.
  std::uint64_t endings() const { return endings_; }
  LinkEnd end_of(int rank) { return rank == rank_ ? LinkEnd::open : link(rank).end(); }
  // Tells the watcher of links that end without goodbye or fall silent, under the lock, and from
  // now on waits for lose() before it takes a member for lost: links may end between members that
  // are both there, and who stays is for the coordinator to say. `on_missed` is told whom a
  // communicator waits for in vain.
  using Watcher = std::function<void(int rank, LinkNews news)>;
  using Missed = std::function<void(const std::vector<int>& ranks)>;
  void watch(Watcher watcher, Missed on_missed = {});
  // The others go on without this member, whether its link has ended or not.
  void lose(int rank, const std::string& why);
  // Nothing is to come from it: it has left, or its loss is certain. A link may have ended before.
  bool is_gone(int rank);
  // Ends the process of a member that reaches memory of this one. True: nothing is written there by
  // it any more. Takes the lock, and waits.
  bool end_process(int rank, Deadline deadline);
  // From now on miss() has an effect: members that do not come are to be lost.
  void give_up_the_late() { gives_up_the_late_ = true; }
  // These do not come to where a communicator of this member waits for them. False where nobody
  // sees to it that they are lost.
  bool miss(const std::vector<int>& ranks);
  // Links that have ended without goodbye.
  std::vector<int> lost();
  // "was lost", "was lost: it sent a frame of kind 77", "left the job". needs: it has ended
  std::string describe_end(int rank);
  std::uint64_t bytes_sent();

  // Zeroed memory that members of this host reach.
  std::unique_ptr<ReachableMemory> allocate(std::size_t bytes);
  using Address = Regions::Address;
  // Where memory lies in what was allocated.
  Address address_of(const void* data, std::size_t bytes) {
    return regions_->address_of(data, bytes);
  }
  // Needs the lock. The peer's memory as mapped here; null when it cannot be reached.
  std::byte* reach(int rank, Address address, std::size_t bytes);
  // Needs the lock. For use without it: the peer's region stays as long as it is held,
  // whatever the peer does. Null when it cannot be reached.
  std::shared_ptr<const Region> hold(int rank, std::uint32_t region);

 private:
  friend class NoteReceiver;

  bool progress() override;
  bool busy() override;
  bool arm() override;
  void disarm() override;
  void on_ready(int fd) override;
  void failed(const std::string& why) override;
  bool progress_link(int rank);
  template <typename Action>
  void guard_link(int rank, const Action& action);
  static bool progress_mover(Mover& mover);
  static void fail_mover(Mover& mover, const std::string& why);
  void took_end(int rank, LinkNews news);
  void look_for_silence();
  void on_note(int rank, ConstBytes head, std::string_view text);
  void drop_notes();
  void withdraw(std::uint32_t region);

  const Roster roster_;
  const int rank_;
  bool shares_memory_ = true;

  std::vector<std::unique_ptr<Link>> links_;
  std::vector<std::unique_ptr<NoteReceiver>> note_receivers_;
  std::uint64_t endings_ = 0;
  Watcher watcher_;
  Missed on_missed_;
  bool gives_up_the_late_ = false;
  struct Watched {
    bool quiet = false;    // as the watcher was told
    bool certain = false;  // its loss is
  };
  std::vector<Watched> watched_;  // by rank
  Deadline next_look_{};          // for silence
  std::map<std::uint64_t, Mover*> movers_;
  int movers_due_ = 0;  // looks at the links until the movers are looked at
  struct Note;
  std::deque<std::unique_ptr<Note>> notes_;  // on their way out
  struct Early;
  std::deque<Early> early_notes_;       // about communicators that we have not made yet
  std::vector<std::size_t> unsent_to_;  // notes, by rank

  const std::shared_ptr<Regions> regions_;

  Loop loop_;
};

}  // namespace asup::net
