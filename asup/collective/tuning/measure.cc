#include "asup/collective/tuning/measure.h"

#include <time.h>

#include <algorithm>

#include "asup/collective/cost/cost.h"
#include "asup/collective/tuning/agree.h"
#include "asup/collective/tuning/choose.h"
#include "asup/kernels/copy.h"
#include "asup/kernels/reduce.h"

namespace asup::collective::tuning {
namespace {

constexpr int kTries = 3;
constexpr double kLinkTime = 4e-3;              // seconds for each number of a link
constexpr double kTry = 0.5e-3;                 // seconds, about
constexpr std::size_t kChunk = 256 << 10;       // bytes of a large message: about a slice
constexpr std::size_t kCachedBytes = 32 << 10;  // of one operand
constexpr std::size_t kUncachedBytes = 8 << 20;
constexpr double kLeastByte = 1e-12, kLeast = 1e-9;  // nothing is for free

// This thread's time on a processor: ranks that share a core do not count for each other.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Seconds of one call of `work`, the best of a few tries of so many that they can be told.
template <typename Work>
double processor_time(const Work& work) {
  work();
  double best = 1e9;
  for (int i = 0; i < kTries; ++i) {
    const double start = processor_seconds();
    double passed = 0;
    int calls = 0;
    for (; passed < kTry; ++calls) {
      work();
      passed = processor_seconds() - start;
    }
    best = std::min(best, passed / calls);
  }
  return best;
}

void measure_memory(Rates& rates) {
  std::vector<float> a(kUncachedBytes / sizeof(float), 1.0f), b(a.size(), 2.0f);
  const auto copy = [&](std::size_t bytes) {
    const auto work = [&] { kernels::copy(a.data(), b.data(), bytes); };
    return processor_time(work) / static_cast<double>(bytes);
  };
  const auto reduce = [&](std::size_t bytes) {
    const auto work = [&] {
      kernels::reduce(Dtype::f32, ReduceOp::max, a.data(), a.data(), b.data(),
                      bytes / sizeof(float));
    };
    return processor_time(work) / static_cast<double>(bytes);
  };
  rates.copy = {copy(kCachedBytes), copy(kUncachedBytes)};
  rates.reduce = {reduce(kCachedBytes), reduce(kUncachedBytes)};
}

// One end of a pair of ranks between which messages are timed; `leads` tells the two apart.
class Pair {
 public:
  Pair(Communicator& communicator, int peer, bool leads, double call)
      : communicator_(communicator),
        peer_(peer),
        leads_(leads),
        call_(call),
        small_(8),
        large_(kChunk),
        other_(kChunk) {}

  LinkRates measure(bool far) {
    const double there = ping() / 2;
    const double each = stream(small_, 32, there);
    const double one_way = stream(large_, 4, there), both_ways = exchange();
    LinkRates link;
    // What a message takes beside its call, to each end and the way between; or less for the ends
    // where messages follow each other faster.
    const double beside = std::max(there - call_, 3 * kLeast);
    link.message = std::clamp(each - call_, kLeast, beside / 3);
    link.latency = beside - 2 * link.message;
    const double fixed = call_ + link.message;
    const double one = std::max((one_way - fixed) / kChunk, kLeastByte);
    const double two = std::max((both_ways - 2 * fixed) / kChunk, one);
    // The thread that sends and receives takes longer for both than for one by what it cannot do
    // at once; a network between can do both at once.
    link.wire_byte = far ? one : 0;
    link.send_byte = far ? two - one : one;
    link.recv_byte = std::clamp(two - one, kLeastByte, one);
    return link;
  }

 private:
  using Bytes = std::vector<std::uint8_t>;

  void send(Bytes& bytes) { communicator_.send(buffer_of(std::span(bytes)), peer_).or_throw(); }
  void receive(Bytes& bytes) { communicator_.recv(buffer_of(std::span(bytes)), peer_).or_throw(); }

  // How many batches of `seconds` each there will be; the leader's word counts.
  int agreed_count(double seconds) {
    std::vector<std::int32_t> count{
        static_cast<std::int32_t>(std::clamp(kLinkTime / seconds, 3.0, 200.0))};
    const Buffer buffer = buffer_of(std::span(count));
    (leads_ ? communicator_.send(buffer, peer_) : communicator_.recv(buffer, peer_)).or_throw();
    return count[0];
  }

  // Seconds of a batch that is little disturbed: most are on a quiet machine, a quarter on a busy
  // one.
  template <typename Batch>
  double quiet(const Batch& batch) {
    const auto timed = [&] {
      const auto start = Clock::now();
      batch();
      return seconds_since(start);
    };
    timed();  // what is slow only once: buffers, windows
    std::vector<double> times(static_cast<std::size_t>(agreed_count(timed())));
    for (double& time : times) time = timed();
    const auto quarter = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 4);
    std::nth_element(times.begin(), quarter, times.end());
    return *quarter;
  }

  // There and back.
  double ping() {
    constexpr int kPings = 4;
    return quiet([&] {
             for (int i = 0; i < kPings; ++i) {
               if (leads_) send(small_);
               receive(small_);
               if (!leads_) send(small_);
             }
           }) /
           kPings;
  }

  // Seconds from one of `count` messages to the next, where only the last is answered, `there`
  // later.
  double stream(Bytes& bytes, int count, double there) {
    const double all = quiet([&] {
      for (int i = 0; i < count; ++i) leads_ ? send(bytes) : receive(bytes);
      leads_ ? receive(small_) : send(small_);
    });
    return std::max((all - there) / count, kLeast);
  }

  double exchange() {
    return quiet([&] {
      Work coming = communicator_.start_recv(buffer_of(std::span(other_)), peer_);
      send(large_);
      coming.wait().or_throw();
    });
  }

  Communicator& communicator_;
  const int peer_;
  const bool leads_;
  const double call_;  // seconds that a call takes beside its messages
  Bytes small_, large_, other_;
};

// The rank that `rank` is paired with to measure links of its host; -1: none.
int near_partner(const Surroundings& around, int rank) {
  const int host = around.hosts[static_cast<std::size_t>(rank)];
  std::vector<int> first;
  for (int r = 0; r < static_cast<int>(around.hosts.size()) && first.size() < 2; ++r)
    if (around.hosts[static_cast<std::size_t>(r)] == host) first.push_back(r);
  if (first.size() < 2 || (rank != first[0] && rank != first[1])) return -1;
  return rank == first[0] ? first[1] : first[0];
}

// Hosts 0 and 1, 2 and 3, …: the first rank of each.
int far_partner(const Surroundings& around, int rank) {
  const auto first_of = [&](int host) {
    const auto at = std::find(around.hosts.begin(), around.hosts.end(), host);
    return at == around.hosts.end() ? -1 : static_cast<int>(at - around.hosts.begin());
  };
  const int host = around.hosts[static_cast<std::size_t>(rank)];
  return first_of(host) == rank ? first_of(host ^ 1) : -1;
}

// Seconds of a call that has nothing to do.
double call_time(Communicator& communicator) {
  const auto alone = communicator.split(communicator.rank(), 0);
  constexpr int kCalls = 100;
  double best = 1e9;
  for (int i = 0; i < kTries; ++i) {
    const auto start = Clock::now();
    for (int call = 0; call < kCalls; ++call) alone->barrier().or_throw();
    best = std::min(best, seconds_since(start) / kCalls);
  }
  return best;
}

double barrier_time(Communicator& communicator) {
  constexpr int kBarriers = 20;
  double best = 1e9;
  for (int i = 0; i < kTries; ++i) {
    const auto start = Clock::now();
    for (int barrier = 0; barrier < kBarriers; ++barrier) communicator.barrier().or_throw();
    best = std::min(best, seconds_since(start) / kBarriers);
  }
  return best;
}

// What changing ranks on a core must cost for a barrier to be as slow as it is.
double change_time(const Rates& rates, const Surroundings& around, double barrier) {
  const Spec spec{.collective = Collective::barrier,
                  .ranks = static_cast<int>(around.hosts.size())};
  const Algorithm& algorithm = choose(spec);
  double low = 0, high = 20e-6;  // more is a busy machine
  for (int i = 0; i < 20; ++i) {
    Rates guess = rates;
    guess.change = (low + high) / 2;
    const double priced = seconds_of(price(algorithm, spec, guess, 1, around.hosts));
    (priced < barrier ? low : high) = guess.change;
  }
  return low;
}

// Links inside a host differ less than tenfold from the usual ones: what differs more is a moment
// in which the machine was busy, and must not be remembered.
LinkRates plausible(const LinkRates& measured, const LinkRates& usual) {
  const auto near = [](double value, double typical) {
    return std::clamp(value, typical / 10, typical * 10);
  };
  return {near(measured.latency, usual.latency), near(measured.message, usual.message),
          near(measured.send_byte, usual.send_byte), near(measured.recv_byte, usual.recv_byte),
          near(measured.wire_byte, usual.wire_byte)};
}

struct Found {
  Rates rates;
  bool near = false, far = false;  // measured here
};

// Median of what all ranks found, and the slowest link.
Rates put_together(const std::vector<Found>& all, Rates rates) {
  const auto median = [&](auto value) {
    std::vector<double> values;
    for (const Found& found : all) values.push_back(value(found.rates));
    std::nth_element(values.begin(),
                     values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
  };
  const auto slowest = [&](bool Found::*measured, LinkRates Rates::*link) {
    LinkRates worst;
    bool any = false;
    for (const Found& found : all) {
      if (!(found.*measured)) continue;
      const LinkRates& one = found.rates.*link;
      for (double LinkRates::*part :
           {&LinkRates::latency, &LinkRates::message, &LinkRates::send_byte, &LinkRates::recv_byte,
            &LinkRates::wire_byte})
        worst.*part = std::max(worst.*part, one.*part);
      any = true;
    }
    if (any) rates.*link = worst;
  };
  const LinkRates usual = rates.near;
  slowest(&Found::near, &Rates::near);
  rates.near = plausible(rates.near, usual);
  slowest(&Found::far, &Rates::far);
  rates.copy = {median([](const Rates& r) { return r.copy.cached; }),
                median([](const Rates& r) { return r.copy.memory; })};
  // At either end a byte is copied at least.
  rates.near.send_byte = std::max(rates.near.send_byte, rates.copy.cached);
  rates.near.recv_byte = std::max(rates.near.recv_byte, rates.copy.cached);
  rates.reduce = {median([](const Rates& r) { return r.reduce.cached; }),
                  median([](const Rates& r) { return r.reduce.memory; })};
  rates.call = median([](const Rates& r) { return r.call; });
  for (const Found& found : all) rates.cores = std::min(rates.cores, found.rates.cores);
  return rates;
}

std::vector<Found> gather(Communicator& communicator, Found mine) {
  std::vector<double> own{mine.near ? 1.0 : 0.0, mine.far ? 1.0 : 0.0};
  for (const RateField& field : fields_of(mine.rates)) own.push_back(*field.value);
  std::vector<double> everyone(own.size() * static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(buffer_of(std::span(own)), buffer_of(std::span(everyone))).or_throw();
  std::vector<Found> all(static_cast<std::size_t>(communicator.size()));
  const double* value = everyone.data();
  for (Found& found : all) {
    found.near = *value++ > 0;
    found.far = *value++ > 0;
    for (const RateField& field : fields_of(found.rates)) *field.value = *value++;
  }
  return all;
}

}  // namespace

Rates measure(Communicator& communicator, const Surroundings& around) {
  const Rates usual = usual_rates(around.near_link, around.cores);
  if (communicator.size() == 1) return usual;
  Found mine{usual};
  const double call = mine.rates.call = call_time(communicator);
  measure_memory(mine.rates);
  for (const bool far : {false, true}) {
    communicator.barrier().or_throw();  // one at a time: links do not wait for kernels, nor cores
    const int rank = communicator.rank();
    const int peer = far ? far_partner(around, rank) : near_partner(around, rank);
    if (peer < 0) continue;
    (far ? mine.rates.far : mine.rates.near) =
        Pair(communicator, peer, rank < peer, call).measure(far);
    (far ? mine.far : mine.near) = true;
  }
  communicator.barrier().or_throw();
  const double barrier = barrier_time(communicator);
  Rates rates = put_together(gather(communicator, mine), usual);
  if (around.most_ranks_on_a_host() > static_cast<int>(rates.cores))
    rates.change = change_time(rates, around, barrier);
  return agree(communicator, rates);
}

}  // namespace asup::collective::tuning
