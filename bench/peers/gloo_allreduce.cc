// Gloo's all-reduce of floats in place over TCP, as a peer of asup's (bench/turn.h): each of its
// algorithms has a try at a size, and the fastest is timed.
//
//   gloo_allreduce RANK RANKS ADDRESS FOLDER SECONDS BYTES...
//
// ADDRESS is this rank's own; in FOLDER, empty at first, the ranks find each other.
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

#include <bit>
#include <functional>

#include "bench/turn.h"

namespace {

using Context = std::shared_ptr<gloo::rendezvous::Context>;
using Collective = gloo::AllreduceOptions::Algorithm;

struct Way {
  std::string name;
  std::function<void()> all_reduce;
};

Context connect(int rank, int ranks, const char* address, const char* folder) {
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  auto device = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(address));
  gloo::rendezvous::FileStore store(folder);
  context->connectFullMesh(store, device);
  return context;
}

// Gloo's algorithms of the first generation are objects that keep their buffers.
template <template <typename> typename Algorithm>
Way algorithm(const char* name, const Context& context, std::vector<float>& values) {
  auto object = std::make_shared<Algorithm<float>>(context, std::vector<float*>{values.data()},
                                                   static_cast<int>(values.size()));
  return {name, [object] { object->run(); }};
}

Way collective(const char* name, const Context& context, std::vector<float>& values,
               Collective which) {
  auto options = std::make_shared<gloo::AllreduceOptions>(context);
  options->setAlgorithm(which);
  options->setOutput(values.data(), values.size());
  options->setReduceFunction([](void* out, const void* a, const void* b, std::size_t count) {
    gloo::sum<float>(out, a, b, count);
  });
  return {name, [options] { gloo::allreduce(*options); }};
}

std::vector<Way> ways(const Context& context, std::vector<float>& values) {
  std::vector<Way> list = {
      collective("ring collective", context, values, Collective::RING),
      collective("bcube collective", context, values, Collective::BCUBE),
      algorithm<gloo::AllreduceRing>("ring", context, values),
      algorithm<gloo::AllreduceRingChunked>("ring chunked", context, values),
      algorithm<gloo::AllreduceHalvingDoubling>("halving doubling", context, values),
  };
  // Others than powers of its base end bcube with an error.
  if (std::has_single_bit(static_cast<unsigned>(context->size)))
    list.push_back(algorithm<gloo::AllreduceBcube>("bcube", context, values));
  return list;
}

long from_rank_zero(const Context& context, long number) {
  gloo::BroadcastOptions options(context);
  options.setOutput(&number, 1);
  options.setRoot(0);
  gloo::broadcast(options);
  return number;
}

void check(const Context& context, const Way& way, std::vector<float>& values) {
  turn::fill(values.data(), values.size(), context->rank);
  way.all_reduce();
  turn::check_sums(values.data(), values.size(), context->size, way.name.c_str());
}

void measure(const Context& context, double seconds, std::size_t bytes) {
  std::vector<float> values(bytes / sizeof(float));
  const auto agree = [&](long number) { return from_rank_zero(context, number); };
  const auto candidates = ways(context, values);
  std::vector<double> tries;
  for (const Way& way : candidates) {
    check(context, way, values);
    tries.push_back(turn::median(turn::time_calls(turn::kShareOfTry * seconds, way.all_reduce,
                                                  agree, turn::kLeastCallsOfTry)));
  }
  const Way& best =
      candidates[static_cast<std::size_t>(agree(std::ranges::min_element(tries) - tries.begin()))];
  const auto times = turn::time_calls(seconds, best.all_reduce, agree);
  if (context->rank == 0) turn::print_row(bytes, "private", best.name, times);
  gloo::BarrierOptions barrier(context);
  gloo::barrier(barrier);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 7) {
    std::fprintf(stderr, "usage: %s RANK RANKS ADDRESS FOLDER SECONDS BYTES...\n", argv[0]);
    return 2;
  }
  const turn::Turn turn = turn::parse(argc, argv, 5);
  const Context context = connect(std::atoi(argv[1]), std::atoi(argv[2]), argv[3], argv[4]);
  for (const std::size_t bytes : turn.sizes) measure(context, turn.seconds, bytes);
} catch (const std::exception& error) {
  std::fprintf(stderr, "gloo_allreduce: %s\n", error.what());
  return 1;
}
