// What the memory traffic of an all-reduce of floats costs between processes of one host, and
// nothing else: no plans, no calls to compare, no peer that may die. The other figures of
// bench/collective.py are measured against it.
//
//   bench_limit [--quick] [RANKS SECONDS BYTES...]        lines of JSON, see bench/turn.h
//
// Two rows a size: for buffers that all ranks map (`shared`) and for ordinary ones (`private`).
// There are several ways for each; all have a try at each size, and the fastest counts. Buffers are
// of ordinary pages, as those of the peers are.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <memory>
#include <string_view>

#include "bench/limit_memory.h"
#include "bench/turn.h"

namespace limit {
namespace {

// Each way has a try of this share of the time, and of two calls or more.
constexpr double kShareOfTry = 0.05;
constexpr std::size_t kLeastCallsOfTry = 2;

constexpr std::size_t kSmall = 64 << 10;       // bytes: exchange() stages no more
constexpr std::size_t kMostChunk = 512 << 10;  // bytes: nor does staged(), at a time
constexpr std::size_t kScratch = 128 << 10;    // bytes that attached() reads at a time
constexpr int kSlots = 3;                      // of staged()'s pipeline

// What the ranks share; mapped before they are forked.
struct Common {
  Flag flags[kMostRanks];
  std::atomic<long> agreed{0};
  pid_t pids[kMostRanks];
  float* own[kMostRanks];  // addresses of the private buffers in their processes
};

struct Range {
  std::size_t begin, end;
};

class Rank {
 public:
  Rank(Common& common, int rank, int ranks, float* shared, std::size_t room, float* stage)
      : rank_(rank),
        ranks_(ranks),
        common_(common),
        barrier_(common.flags, rank, ranks),
        stage_(stage),
        scratch_(static_cast<float*>(map_memory(kScratch, MAP_PRIVATE))) {
    for (int k = 0; k < ranks; ++k) shared_[k] = shared + static_cast<std::size_t>(k) * room;
    own_ = static_cast<float*>(map_memory(room * sizeof(float), MAP_PRIVATE));
    common.pids[rank] = getpid();
    common.own[rank] = own_;
    barrier_.pass();
  }

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  float* shared() { return shared_[rank_]; }
  float* own() { return own_; }
  // Whole lines; what is beyond the buffer's end is there, too.
  void use(std::size_t count) { count_ = (count + kLineFloats - 1) / kLineFloats * kLineFloats; }

  long agree(long number) {
    if (rank_ == 0) common_.agreed = number;
    barrier_.pass();
    const long agreed = common_.agreed;
    barrier_.pass();
    return agreed;
  }

  // Shared buffers: each rank reduces its slice out of all buffers and writes it to all of them.
  template <bool kStream>
  void direct() {
    const Range mine = slice({0, count_}, rank_);
    barrier_.pass();
    reduce<kStream>(shared_, ranks_, shared_, ranks_, mine.begin, mine.end);
    if (kStream) drain_streams();
    barrier_.pass();
  }

  // The same, a line of each of some pages in turn: more of the memory's banks work at once, which
  // pays where no cache holds the buffers.
  void direct_by_pages() {
    constexpr std::size_t kPage = 4096 / sizeof(float), kPages = 4;
    const Range mine = slice({0, count_}, rank_);
    barrier_.pass();
    std::size_t at = mine.begin;
    for (; mine.end - at >= kPages * kPage; at += kPages * kPage)
      for (std::size_t line = at; line < at + kPage; line += kLineFloats)
        for (std::size_t i = line; i < line + kPages * kPage; i += kPage)
          reduce<false>(shared_, ranks_, shared_, ranks_, i, i + kLineFloats);
    reduce<false>(shared_, ranks_, shared_, ranks_, at, mine.end);
    barrier_.pass();
  }

  // Small messages: each rank lays its buffer out and sums all of them up for itself. Two places by
  // turns, so that one barrier is enough.
  void exchange(float* buffer) {
    turn_ = 1 - turn_;
    const std::size_t step = kSmall / sizeof(float);
    const auto place = [&](int k) {
      return stage_ + static_cast<std::size_t>(2 * k + turn_) * step;
    };
    std::memcpy(place(rank_), buffer, count_ * sizeof(float));
    barrier_.pass();
    const float* from[kMostRanks];
    for (int k = 0; k < ranks_; ++k) from[k] = place(k);
    reduce<false>(from, ranks_, &buffer, 1, 0, count_);
  }

  // Private buffers, chunk by chunk, a pipeline of three: lay out what the others reduce; reduce
  // one's slice of the chunk before; fetch the others' sums of the chunk before that. A barrier a
  // step.
  void staged(std::size_t chunk_bytes) {
    const std::size_t chunk = chunk_bytes / sizeof(float);
    const std::size_t chunks = (count_ + chunk - 1) / chunk;
    const auto range = [&](std::size_t c) {
      return Range{c * chunk, std::min(count_, (c + 1) * chunk)};
    };
    for (std::size_t step = 0; step < chunks + 2; ++step) {
      if (step < chunks) lay_out(range(step), step % kSlots);
      if (step >= 1 && step - 1 < chunks) sum_up(range(step - 1), (step - 1) % kSlots);
      if (step >= 2) fetch(range(step - 2), (step - 2) % kSlots);
      if (step + 1 < chunks + 2) barrier_.pass();
    }
  }

  // Private buffers, by cross-memory attach: the kernel copies the others' parts of this rank's
  // slice into its cache, and the others' sums into place.
  void attached() {
    barrier_.pass();
    const Range mine = slice({0, count_}, rank_);
    for (std::size_t begin = mine.begin; begin < mine.end; begin += kScratch / sizeof(float)) {
      const std::size_t size = std::min(kScratch / sizeof(float), mine.end - begin);
      for (int k = next(rank_); k != rank_; k = next(k)) {
        read_peer(k, begin, scratch_, size);
        float* to = own_ + begin;
        const float* from[] = {to, scratch_};
        reduce<false>(from, 2, &to, 1, 0, size);
      }
    }
    barrier_.pass();
    for (int k = next(rank_); k != rank_; k = next(k)) {
      const Range other = slice({0, count_}, k);
      read_peer(k, other.begin, own_ + other.begin, other.end - other.begin);
    }
    barrier_.pass();
  }

  // Whether the kernel lets ranks read each other's memory; the same answer on all ranks.
  bool may_attach() {
    float value = 0;
    const int other = next(rank_);
    const iovec to{&value, sizeof value}, from{common_.own[other], sizeof value};
    return agree(process_vm_readv(common_.pids[other], &to, 1, &from, 1, 0)) > 0;
  }

 private:
  int next(int k) const { return (k + 1) % ranks_; }

  Range slice(Range whole, int k) const {
    const std::size_t lines = (whole.end - whole.begin) / kLineFloats;
    const auto at = [&](int i) {
      return whole.begin +
             lines * static_cast<std::size_t>(i) / static_cast<std::size_t>(ranks_) * kLineFloats;
    };
    return {at(k), at(k + 1)};
  }

  // Place for a chunk: a rank's own, or, after the last rank, the sums'.
  float* place(std::size_t slot, int k) const {
    const auto number = slot * static_cast<std::size_t>(ranks_ + 1) + static_cast<std::size_t>(k);
    return stage_ + number * (kMostChunk / sizeof(float));
  }

  void lay_out(Range chunk, std::size_t slot) {
    for (int k = next(rank_); k != rank_; k = next(k)) {
      const Range part = slice(chunk, k);
      std::memcpy(place(slot, rank_) + (part.begin - chunk.begin), own_ + part.begin,
                  (part.end - part.begin) * sizeof(float));
    }
  }

  void sum_up(Range chunk, std::size_t slot) {
    const Range mine = slice(chunk, rank_);
    const std::size_t offset = mine.begin - chunk.begin;
    const float* from[kMostRanks];
    for (int k = 0; k < ranks_; ++k)
      from[k] = k == rank_ ? own_ + mine.begin : place(slot, k) + offset;
    float* to[] = {own_ + mine.begin, place(slot, ranks_) + offset};
    reduce<false>(from, ranks_, to, 2, 0, mine.end - mine.begin);
  }

  void fetch(Range chunk, std::size_t slot) {
    for (int k = next(rank_); k != rank_; k = next(k)) {
      const Range part = slice(chunk, k);
      std::memcpy(own_ + part.begin, place(slot, ranks_) + (part.begin - chunk.begin),
                  (part.end - part.begin) * sizeof(float));
    }
  }

  void read_peer(int k, std::size_t begin, float* to, std::size_t count) {
    for (std::size_t done = 0; done < count * sizeof(float);) {
      const std::size_t left = count * sizeof(float) - done;
      const iovec here{reinterpret_cast<char*>(to) + done, left};
      const iovec there{reinterpret_cast<char*>(common_.own[k] + begin) + done, left};
      const ssize_t read = process_vm_readv(common_.pids[k], &here, 1, &there, 1, 0);
      if (read <= 0) {
        std::perror("bench_limit: process_vm_readv");
        std::exit(1);
      }
      done += static_cast<std::size_t>(read);
    }
  }

  const int rank_, ranks_;
  Common& common_;
  Barrier barrier_;
  float* shared_[kMostRanks];  // all ranks'
  float* own_ = nullptr;
  float* stage_;
  float* scratch_;
  std::size_t count_ = 0;
  int turn_ = 0;
};

struct Way {
  const char* name;
  void (*run)(Rank&);
  std::size_t most = ~std::size_t{0};  // bytes that it can do
};

constexpr Way kShared[] = {
    {"direct", [](Rank& me) { me.direct<false>(); }},
    {"direct, streaming", [](Rank& me) { me.direct<true>(); }},
    {"direct, by pages", [](Rank& me) { me.direct_by_pages(); }},
    {"exchange", [](Rank& me) { me.exchange(me.shared()); }, kSmall},
};

constexpr Way kPrivate[] = {
    {"exchange", [](Rank& me) { me.exchange(me.own()); }, kSmall},
    {"staged 32K", [](Rank& me) { me.staged(32 << 10); }},
    {"staged 128K", [](Rank& me) { me.staged(128 << 10); }},
    {"staged 512K", [](Rank& me) { me.staged(kMostChunk); }},
    {"attached", [](Rank& me) { me.attached(); }},
};

template <std::size_t kWays>
void measure(Rank& me, const turn::Turn& turn, std::size_t bytes, const char* buffers,
             float* values, const Way (&ways)[kWays], bool may_attach) {
  const std::size_t count = bytes / sizeof(float);
  const auto agree = [&](long number) { return me.agree(number); };
  const Way* best = nullptr;
  double shortest = 0;
  me.use(count);
  for (const Way& way : ways) {
    if (bytes > way.most || (!may_attach && std::string_view(way.name) == "attached")) continue;
    const auto run = [&] { way.run(me); };
    turn::fill(values, count, me.rank());
    agree(0);
    run();
    agree(0);
    turn::check_sums(values, count, me.ranks(), way.name);
    agree(0);
    const double p50 =
        turn::median(turn::time_calls(kShareOfTry * turn.seconds, kLeastCallsOfTry, run, agree));
    if (best == nullptr || p50 < shortest) best = &way, shortest = p50;
  }
  best = &ways[agree(best - ways)];
  const auto run_best = [&] { best->run(me); };
  const auto times = turn::time_calls(turn.seconds, turn::least_calls(bytes), run_best, agree);
  if (me.rank() == 0) turn::print_row(bytes, buffers, best->name, times);
}

void take_part(Rank& me, const turn::Turn& turn) {
  const bool may_attach = me.may_attach();
  for (const std::size_t bytes : turn.sizes) {
    measure(me, turn, bytes, "shared", me.shared(), kShared, may_attach);
    measure(me, turn, bytes, "private", me.own(), kPrivate, may_attach);
  }
}

// The first rank that fails ends the others: they would wait for it for ever.
int wait_for(const std::vector<pid_t>& ranks) {
  int result = 0, status = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (wait(&status) < 0 || status == 0 || result != 0) continue;
    result = 1;
    for (const pid_t pid : ranks) kill(pid, SIGKILL);
  }
  return result;
}

int run(int ranks, const turn::Turn& turn) {
  const std::size_t most = *std::ranges::max_element(turn.sizes);
  const std::size_t page = 4096 / sizeof(float);
  const std::size_t room = (most / sizeof(float) + page) / page * page;
  const std::size_t slots = static_cast<std::size_t>(kSlots * (ranks + 1));
  auto* common = new (map_memory(sizeof(Common), MAP_SHARED)) Common;
  const auto n = static_cast<std::size_t>(ranks);
  auto* shared = static_cast<float*>(map_memory(n * room * sizeof(float), MAP_SHARED));
  auto* stage = static_cast<float*>(map_memory(slots * kMostChunk, MAP_SHARED));
  std::vector<pid_t> pids;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      prctl(PR_SET_PTRACER,
            PR_SET_PTRACER_ANY);  // lets the other ranks attach where Yama is strict
      auto me = std::make_unique<Rank>(*common, rank, ranks, shared, room, stage);
      take_part(*me, turn);
      std::exit(0);
    }
    pids.push_back(pid);
  }
  return wait_for(pids);
}

}  // namespace
}  // namespace limit

int main(int argc, char** argv) {
  int argument = 1;
  const bool quick = argument < argc && std::string_view(argv[argument]) == "--quick";
  if (quick) ++argument;
  if (argument == argc)
    return limit::run(
        2, {quick ? 0.2 : 1.0, {1 << 10, 16 << 10, 256 << 10, 4 << 20, 25 << 20, 100 << 20}});
  const int ranks = std::atoi(argv[argument]);
  if (ranks < 2 || ranks > limit::kMostRanks) {
    std::fprintf(stderr, "usage: %s [--quick] [RANKS SECONDS BYTES...]   with 2 to %d ranks\n",
                 argv[0], limit::kMostRanks);
    return 2;
  }
  return limit::run(ranks, turn::parse(argc, argv, argument + 1));
}
