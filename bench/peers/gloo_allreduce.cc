// Gloo's all-reduce of floats in place over TCP, as a peer of asup's (bench/turn.h).
//
//   gloo_allreduce ALGORITHM RANK RANKS ADDRESS FOLDER SECONDS BYTES
//
// ADDRESS is this rank's own; in FOLDER, empty at first, the ranks find each other. One algorithm
// and one size a process: some algorithms hang at some sizes, and a pair of Gloo's hangs when a
// last notification comes for an algorithm that is gone.
#include <gloo/allreduce.h>
#include <gloo/allreduce_bcube.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <functional>
#include <string_view>

#include "bench/turn.h"

namespace {

using Context = std::shared_ptr<gloo::rendezvous::Context>;
using Collective = gloo::AllreduceOptions::Algorithm;

using Call = std::function<void()>;

Context connect(int rank, int ranks, const char* address, const char* folder) {
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  auto device = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(address));
  gloo::rendezvous::FileStore store(folder);
  context->connectFullMesh(store, device);
  return context;
}

// Gloo's algorithms of the first generation are objects that keep their buffers.
template <template <typename> typename Algorithm>
Call algorithm(const Context& context, std::vector<float>& values) {
  auto object = std::make_shared<Algorithm<float>>(context, std::vector<float*>{values.data()},
                                                   static_cast<int>(values.size()));
  return [object] { object->run(); };
}

// Those of the second are one function with options.
template <Collective kWhich>
Call collective(const Context& context, std::vector<float>& values) {
  auto options = std::make_shared<gloo::AllreduceOptions>(context);
  options->setAlgorithm(kWhich);
  options->setOutput(values.data(), values.size());
  options->setReduceFunction([](void* out, const void* a, const void* b, std::size_t count) {
    gloo::sum<float>(out, a, b, count);
  });
  return [options] { gloo::allreduce(*options); };
}

struct Way {
  std::string_view name;
  Call (*prepare)(const Context& context, std::vector<float>& values);
};

// bench/turns.py lists their names, too.
constexpr Way kWays[] = {
    {"ring_collective", collective<Collective::RING>},
    {"bcube_collective", collective<Collective::BCUBE>},
    {"ring", algorithm<gloo::AllreduceRing>},
    {"ring_chunked", algorithm<gloo::AllreduceRingChunked>},
    {"halving_doubling", algorithm<gloo::AllreduceHalvingDoubling>},
    {"bcube", algorithm<gloo::AllreduceBcube>},
};

long from_rank_zero(const Context& context, long number) {
  gloo::BroadcastOptions options(context);
  options.setOutput(&number, 1);
  options.setRoot(0);
  gloo::broadcast(options);
  return number;
}

void barrier(const Context& context) {
  gloo::BarrierOptions options(context);
  gloo::barrier(options);
}

void measure(const Context& context, const Way& way, double seconds, std::size_t bytes) {
  std::vector<float> values(bytes / sizeof(float));
  const Call all_reduce = way.prepare(context, values);
  turn::fill(values.data(), values.size(), context->rank);
  all_reduce();
  barrier(
      context);  // a rank returns while Gloo still sends out of its buffer, which the check clears
  turn::check_sums(values.data(), values.size(), context->size, "gloo_allreduce");
  const auto agree = [&](long number) { return from_rank_zero(context, number); };
  const auto times = turn::time_calls(seconds, turn::least_calls(bytes), all_reduce, agree);
  if (context->rank == 0) turn::print_row(bytes, "private", std::string(way.name), times);
  barrier(context);
  std::_Exit(0);  // destructors would wait for other ranks, or they for this one
}

}  // namespace

int main(int argc, char** argv) try {
  const auto way = std::ranges::find(kWays, argc == 8 ? argv[1] : "", &Way::name);
  if (way == std::end(kWays)) {
    std::fprintf(stderr, "usage: %s ALGORITHM RANK RANKS ADDRESS FOLDER SECONDS BYTES\n", argv[0]);
    return 2;
  }
  const turn::Turn turn = turn::parse(argc, argv, 6);
  const Context context = connect(std::atoi(argv[2]), std::atoi(argv[3]), argv[4], argv[5]);
  measure(context, *way, turn.seconds, turn.sizes.front());
} catch (const std::exception& error) {
  std::fprintf(stderr, "gloo_allreduce: %s\n", error.what());
  return 1;
}
