#include "asup/bench/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "asup/base/error.h"
#include "asup/bench/limit.h"
#include "asup/bench/sizes.h"
#include "asup/bench/table.h"
#include "asup/bench/timed_job.h"
#include "asup/net/job.h"
#include "asup/ps/client.h"
#include "asup/ps/serve.h"

namespace asup::bench {
namespace {

struct Row {
  std::size_t bytes;
  double min_us, p50_us, p99_us;
  double gb_s;                  // of all workers, both ways
  std::optional<double> share;  // of the limit
};

ps::ServerSetup setup_of(const ServerBench& bench, std::size_t bytes) {
  ps::ServerSetup setup;
  setup.layout = layout::packed({{"model", std::max<std::size_t>(bytes / sizeof(float), 1)}});
  setup.pace.kind = ps::pace::kind_of(bench.pace);
  return setup;
}

// One worker's push-pulls of one size.
class Pusher {
 public:
  Pusher(const net::MemberGroup& group, const ServerBench& bench, std::size_t bytes,
         Seconds timeout)
      : client_(group, setup_of(bench, bytes), {}, timeout),
        memory_(group.mesh.allocate(client_.parameters().size_bytes())),
        gradient_(reinterpret_cast<float*>(memory_->bytes().data())),
        lr_(group.workers) {
    std::fill(gradient_, gradient_ + client_.parameters().size(), 1.0f);
    client_.begin(group.mesh.rank() == 0);
    client_.arrive();
    release_ = client_.wait();
  }

  void push_pull() {
    client_.push({0, client_.parameters().size()}, gradient_);
    ps::Figures figures;
    figures.version = release_.version;
    figures.samples = 1;
    client_.commit(figures, {&lr_, 1});  // a push counts as a part of a step
    release_ = client_.wait();
  }

  // Every push takes 1 from every parameter: whatever others have pushed, all are equal, and by as
  // much lower as the version is higher.
  void check_result(int workers) {
    const float before = client_.parameters().front();
    const std::uint64_t version = release_.version;
    push_pull();
    const auto parameters = client_.parameters();
    const float first = parameters.front();
    const auto updates = static_cast<float>(release_.version - version);
    check(std::abs(before - first - updates * (all_at_once_ ? static_cast<float>(workers) : 1.0f)) <
              0.5f,
          "parameters fell from {} to {} in {} updates", before, first, updates);
    const auto other = std::find_if(parameters.begin(), parameters.end(),
                                    [&](float parameter) { return parameter != first; });
    check(other == parameters.end(), "parameters are {} and {}", first, *other);
  }
  void set_all_at_once(bool all) { all_at_once_ = all; }

 private:
  ps::Client client_;
  std::unique_ptr<net::ReachableMemory> memory_;
  float* gradient_;
  const double lr_;
  bool all_at_once_ = false;
  ps::Release release_;
};

std::vector<double> times_of(Pusher& pusher, double seconds) {
  std::vector<double> times;
  for (int warm = 0; warm < 3; ++warm) pusher.push_pull();
  const auto start = Clock::now();
  while (times.size() < 20'000 && (times.size() < 5 || seconds_since(start) < seconds)) {
    const auto begin = Clock::now();
    pusher.push_pull();
    times.push_back(seconds_since(begin) * 1e6);
  }
  std::sort(times.begin(), times.end());
  return times;
}

Table table_of_rows() {
  return {{{"size", 12, 5},
           {"min us", 12, 10, 3},
           {"p50 us", 12, 10},
           {"p99 us", 12, 10, 4},
           {"GB/s", 10, 8, 1},
           {"of limit", 9, 8, 2}},
          room_here()};
}

void print_head(const ServerBench& bench) {
  print_text(fmt::format("push-pull of f32, {} workers and {} servers over {}, {}", bench.workers,
                         bench.servers, bench.link, bench.pace));
  fmt::print("{}", table_of_rows().head());
}

void print_row(const Row& row) {
  const auto figure = [](double value) { return fmt::format("{:.2f}", value); };
  fmt::print("{}", table_of_rows().row({size_word(row.bytes), figure(row.min_us),
                                        figure(row.p50_us), figure(row.p99_us), figure(row.gb_s),
                                        row.share ? figure(*row.share) : "-"}));
  std::fflush(stdout);
}

void write_json(const ServerBench& bench, const std::vector<Row>& rows) {
  auto list = nlohmann::json::array();
  for (const Row& row : rows) {
    list.push_back({{"op", "push_pull"},
                    {"workers", bench.workers},
                    {"servers", bench.servers},
                    {"bytes", row.bytes},
                    {"link", bench.link},
                    {"pace", bench.pace},
                    {"peer", "asup"},
                    {"p50_us", row.p50_us},
                    {"min_us", row.min_us},
                    {"p99_us", row.p99_us},
                    {"gb_s", row.gb_s}});
    if (row.share) list.back()["share_of_limit"] = *row.share;
  }
  write_rows(bench.json, list);
}

Row row_of(const ServerBench& bench, std::size_t bytes, const std::vector<double>& sorted) {
  const auto at = [&](double share) { return at_share(sorted, share); };
  return {
      bytes, at(0), at(0.5), at(0.99), 2e-3 * static_cast<double>(bytes) * bench.workers / at(0.5),
      {}};
}

void take_part(Job& job, const ServerBench& bench) {
  const auto limits = limits_from(net::process_environment()(kLimitsVariable));
  const bool first = job.rank() == 0;
  if (first) print_head(bench);
  std::vector<Row> rows;
  for (const std::size_t bytes : bench.sizes) {
    const net::MemberGroup group = net::workers_and_servers(job);
    Pusher pusher(group, bench, bytes, job.options().call_timeout);
    pusher.set_all_at_once(bench.pace == "bsp");
    pusher.check_result(bench.workers);
    rows.push_back(row_of(bench, bytes, times_of(pusher, bench.quick ? 0.2 : 1.0)));
    Row& row = rows.back();
    if (const auto limit = limits.find(bytes); limit != limits.end())
      row.share = limit->second / row.p50_us;
    if (first) print_row(row);
  }
  if (first && !bench.json.empty()) write_json(bench, rows);
}

}  // namespace

int run_server_bench(const ServerBench& bench, const std::vector<std::string>& command) {
  require(bench.link == "shm" || bench.link == "tcp", "--link {}: there is shm and tcp",
          bench.link);
  require(bench.workers >= 1 && bench.workers <= 64, "--workers {}: between 1 and 64",
          bench.workers);
  require(bench.servers >= 1 && bench.servers <= 64, "--servers {}: between 1 and 64",
          bench.servers);
  const net::JoinOptions identity = net::identity_from(net::process_environment());
  if (identity.size > 1) {
    Job job = Job::join(identity);
    require(job.size() == bench.workers && job.servers() == bench.servers,
            "a job of {} workers and {} servers for {} and {}", job.size(), job.servers(),
            bench.workers, bench.servers);
    if (job.is_server())
      ps::serve(job);
    else
      take_part(job, bench);
    return 0;
  }
  if (!net::process_environment()(kLimitsVariable))
    setenv(kLimitsVariable,
           measure_limits("bench_server_limit", bench.workers, bench.sizes,
                          bench.link == "shm" ? "shared" : "sockets", bench.quick)
               .c_str(),
           1);
  return run_as_job(command, bench.workers, bench.servers, bench.link);
}

}  // namespace asup::bench
