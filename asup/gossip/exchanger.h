// Averages one worker's model with partners', one at a time, beside its training.
//
//   Exchanger exchanger(group, elements, options);
//   exchanger.open(model);
//   for (;;) {
//     … a step changes the model …
//     exchanger.visit(model, /*ask=*/true);
//   }
//   exchanger.synchronize(model);
//
// A worker asks one partner after the other, in random order, until one accepts; both send their
// models, and both average (averaging.h). Whoever is asked answers at once, under the mesh's lock,
// while its training thread computes: yes, or busy. Nobody ever waits for a busy one, so there is
// no cycle of waiting and no deadlock, whatever the graph. docs/pairwise.md tells it all.
//
// Everything here is called by the thread that trains; messages are answered by whichever thread
// has the lock. Memory: three models (averaging.h) and some chunks.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "asup/base/clock.h"
#include "asup/base/timeline.h"
#include "asup/gossip/averaging.h"
#include "asup/gossip/message.h"
#include "asup/gossip/partners.h"
#include "asup/gossip/service.h"
#include "asup/net/member_group.h"
#include "asup/net/transport/messenger.h"

namespace asup::gossip {

struct ExchangerOptions {
  Graph graph;
  std::uint64_t seed = 0;  // of the choice of partners
  bool in_bf16 = false;    // what travels (averaging.h); the same on all
  // A partner from which nothing comes for so long is given up, and passed over until it is heard
  // from again.
  Seconds patience{10};
  std::size_t chunk = std::size_t{1} << 16;  // elements; tests have small ones
};

// Since it was made.
struct ExchangerStats {
  std::uint64_t exchanges = 0;  // in which this worker took part to the end
  std::uint64_t refused = 0;    // asks that were answered by busy
  std::uint64_t dropped =
      0;  // exchanges not ended: the partner was lost or silent, or took it back
  std::uint64_t bytes_sent = 0;
  double seconds = 0;  // an exchange was under way
};

// What a visit has done.
struct Visit {
  bool asked = false;    // an exchange of our own began
  bool changed = false;  // the model
};

class Exchanger : private Service {
 public:
  Exchanger(net::MemberGroup group, std::size_t elements, const ExchangerOptions& options);
  ~Exchanger() override;  // takes back what it has asked for

  // From now on partners can have the model; also after synchronize().
  void open(std::span<float> model);

  // Between two steps: adds to the model what averages with partners have changed, and lets
  // partners have it as it then is. With `ask`, asks partners for an exchange unless one is under
  // way. Waits for nobody.
  Visit visit(std::span<float> model, bool ask);

  // Refuses and asks nobody any more, waits for the end of the exchange under way (at most the
  // patience), and adds to the model what is left to add. When all workers have called it, the sum
  // of the models is what training has made of it, and stays.
  void synchronize(std::span<float> model);

  ExchangerStats stats();

 private:
  // An exchange that this worker has asked for, or takes part in.
  struct Underway {
    enum class Stage { asking, streaming, averaging };
    Underway(Exchange with, int member) : exchange(with), partner(member) {}

    Exchange exchange;
    int partner;
    Stage stage = Stage::asking;
    std::size_t sent = 0, received = 0;  // elements
    int leaving = 0;                     // chunks that are on their way out
    Deadline deadline;                   // unless something comes before
    Clock::time_point began;
  };

  net::Bytes room_for(int, net::ConstBytes, std::uint64_t) override { return {}; }
  void arrived(int member, net::ConstBytes head, net::Bytes payload) override;
  void gone(int member, net::LinkEnd end) override;
  bool progress() override;

  void on_ask(int member, const Ask& ask);
  void on_accept(int member, const Accept& accept);
  void on_chunk(int member, const Chunk& chunk, net::ConstBytes payload);
  void on_got(int member, const Got& got);
  void on_done(int member, const Done& done);
  void on_cancel(int member, const Exchange& exchange);
  bool is(int member, const Exchange& exchange) const;

  void ask_next();
  void begin();
  void send_chunks();
  net::ConstBytes chunk_to_send(std::size_t count);
  void on_chunk_left(const Exchange& exchange);
  void say_got_if_complete();
  void give_up();
  void drop();
  void end();
  void heard();

  // Constant after construction.
  const net::MemberGroup group_;
  const int rank_;
  const ExchangerOptions options_;
  const std::shared_ptr<TimelineTrack> track_;  // null: there is no timeline

  // Under the lock.
  Averaging averaging_;
  Partners partners_;
  std::vector<int> to_ask_;   // in the exchange that we ask for, the next at the end
  std::vector<bool> silent_;  // by worker: until it is heard from
  std::vector<bool> gone_;
  std::optional<Underway> underway_;
  std::uint64_t asked_ = 0;  // exchanges, by us
  bool closed_ = true;       // nobody may have the model
  bool stale_ = false;       // own missed a visit: it is renewed before the next exchange
  ExchangerStats stats_;
  // In bf16, of the chunks on their way out, by turns.
  std::array<std::vector<std::byte>, 2> leaving_;
  std::size_t next_leaving_ = 0;
  std::optional<net::Messenger> messenger_;  // goes first: it sends from what is above
};

}  // namespace asup::gossip
