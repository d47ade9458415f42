// What a push-pull costs at least, with one server and some workers on this host: the figures that
// `asup bench server` is held against.
//
//   bench_server_limit WORKERS SECONDS BYTES...              lines of JSON, see bench/turn.h
//
// Two rows a size. `shared`: the memory traffic alone; for each worker a thread subtracts its
// gradient from the parameters and writes them to the worker, all at the same time. `sockets`: the
// bytes through plain sockets; each worker sends its gradient over a connection of its own to a
// thread that takes it in and then sends the parameters.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <barrier>
#include <cerrno>
#include <memory>
#include <thread>

#include "bench/limit_memory.h"
#include "bench/turn.h"

namespace limit {
namespace {

float* make_floats(std::size_t bytes) {
  auto* floats = static_cast<float*>(map_memory(bytes + 64, MAP_PRIVATE));
  std::fill(floats, floats + bytes / sizeof(float), 1.0f);
  return floats;
}

template <bool kStream>
void push_pull(const float* gradient, float* parameters, float* copy, std::size_t count) {
  for (std::size_t i = 0; i + kLineFloats <= count; i += kLineFloats) {
    const Line line = load(parameters + i) - load(gradient + i);
    store<false>(parameters + i, line);
    store<kStream>(copy + i, line);
  }
  if (kStream) drain_streams();
}

// Runs `call(worker)` on a thread a worker, all at once, and gives the first one's times.
template <typename Call>
std::vector<double> time_workers(int workers, const turn::Turn& turn, std::size_t bytes,
                                 const Call& call) {
  std::barrier meet(workers);
  long calls = 0;
  std::vector<double> times;
  std::vector<std::thread> threads;
  for (int worker = 0; worker < workers; ++worker)
    threads.emplace_back([&, worker] {
      const auto agree = [&](long mine) {
        if (worker == 0) calls = mine;
        meet.arrive_and_wait();
        return calls;
      };
      auto own = turn::time_calls(
          turn.seconds, turn::least_calls(bytes), [&] { call(worker); }, agree);
      if (worker == 0) times = std::move(own);
      meet.arrive_and_wait();
    });
  for (std::thread& thread : threads) thread.join();
  return times;
}

void measure_memory(int workers, const turn::Turn& turn, std::size_t bytes) {
  const std::size_t count = bytes / sizeof(float);
  float* parameters = make_floats(bytes);
  std::vector<float*> gradients, copies;
  for (int worker = 0; worker < workers; ++worker) {
    gradients.push_back(make_floats(bytes));
    copies.push_back(make_floats(bytes));
  }
  const auto run = [&](auto stream) {
    return time_workers(workers, turn, bytes, [&](int worker) {
      push_pull<decltype(stream)::value>(gradients[static_cast<std::size_t>(worker)], parameters,
                                         copies[static_cast<std::size_t>(worker)], count);
    });
  };
  const auto plain = run(std::false_type());
  const auto streamed = run(std::true_type());
  const bool better = turn::median(streamed) < turn::median(plain);
  turn::print_row(bytes, "shared", better ? "streamed" : "plain", better ? streamed : plain);
  munmap(parameters, bytes + 64);
  for (float* floats : gradients) munmap(floats, bytes + 64);
  for (float* floats : copies) munmap(floats, bytes + 64);
}

void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

void send_all(int fd, const std::byte* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t sent = send(fd, data, bytes, MSG_NOSIGNAL);
    if (sent <= 0) fail("bench_server_limit: send");
    data += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
}

bool receive_all(int fd, std::byte* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = recv(fd, data, bytes, 0);
    if (got == 0) return false;
    if (got < 0) fail("bench_server_limit: recv");
    data += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

void measure_sockets(int workers, const turn::Turn& turn, std::size_t bytes) {
  const int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (door < 0 || bind(door, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(door, workers) != 0 ||
      getsockname(door, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    fail("bench_server_limit: listen");
  std::vector<int> connections;
  std::vector<std::thread> server;
  std::vector<std::unique_ptr<std::byte[]>> memory;
  const int on = 1;
  for (int worker = 0; worker < workers; ++worker) {
    const int here = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(here, reinterpret_cast<sockaddr*>(&address), length) != 0)
      fail("bench_server_limit: connect");
    const int there = accept(door, nullptr, nullptr);
    for (const int fd : {here, there}) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connections.push_back(here);
    memory.push_back(std::make_unique<std::byte[]>(bytes));
    memory.push_back(std::make_unique<std::byte[]>(bytes));
    server.emplace_back([there, bytes, data = memory.back().get()] {
      while (receive_all(there, data, bytes)) send_all(there, data, bytes);
      close(there);
    });
  }
  const auto times = time_workers(workers, turn, bytes, [&](int worker) {
    const auto which = static_cast<std::size_t>(worker);
    send_all(connections[which], memory[2 * which].get(), bytes);
    receive_all(connections[which], memory[2 * which].get(), bytes);
  });
  turn::print_row(bytes, "sockets", "plain", times);
  for (const int fd : connections) close(fd);
  for (std::thread& thread : server) thread.join();
  close(door);
}

}  // namespace
}  // namespace limit

int main(int argc, char** argv) {
  const int workers = argc > 1 ? std::atoi(argv[1]) : 0;
  if (workers < 1 || workers > limit::kMostRanks) {
    std::fprintf(stderr, "bench_server_limit WORKERS SECONDS BYTES...: 1 to %d workers\n",
                 limit::kMostRanks);
    return 2;
  }
  const turn::Turn turn = turn::parse(argc, argv, 2);
  for (const std::size_t bytes : turn.sizes) {
    limit::measure_memory(workers, turn, bytes);
    limit::measure_sockets(workers, turn, bytes);
  }
}
