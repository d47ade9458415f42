#include "asup/sync/compressors/host_sparse_gradients.h"

#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "asup/base/error.h"
#include "asup/kernels/momentum.h"
#include "asup/kernels/update.h"

namespace asup::sync {
namespace {

constexpr std::size_t kLine = layout::kCacheLine / sizeof(float);

Buffer bytes_in(std::vector<std::byte>& bytes) { return {bytes.data(), bytes.size(), Dtype::u8}; }

Buffer floats_in(std::span<float> numbers) { return {numbers.data(), numbers.size(), Dtype::f32}; }

}  // namespace

HostSparseGradients::HostSparseGradients(Communicator& communicator, const Sparsity& sparsity)
    : sparsity_(sparsity), ranks_(communicator.size()), selection_(sparsity.momentum) {
  check(std::ssize(sparsity.hosts) == ranks_, "{} hosts for {} ranks", sparsity.hosts.size(),
        ranks_);
  const auto rank = static_cast<std::size_t>(communicator.rank());
  std::map<int, int> ranks_on;
  for (std::size_t r = 0; r < sparsity.hosts.size(); ++r) {
    if (r == rank) place_ = ranks_on[sparsity.hosts[r]];
    ++ranks_on[sparsity.hosts[r]];
  }
  hosts_ = static_cast<int>(ranks_on.size());
  places_ = ranks_;
  for (const auto& [host, ranks] : ranks_on) places_ = std::min(places_, ranks);
  const auto host =
      static_cast<int>(std::distance(ranks_on.begin(), ranks_on.find(sparsity.hosts[rank])));
  within_ = communicator.split(host, 0);
  after_ = communicator.split(host, 0);
  between_ = communicator.split(place_ < places_ ? place_ : -1, 0);
}

// On cache lines. Of a place that has none, the end.
layout::Range HostSparseGradients::block(std::size_t count, int place) const {
  if (place >= places_) return {count, count};
  const auto cut = collective::cut(count, places_, place, kLine);
  return {cut.begin, cut.end};
}

// By rank of the host.
std::vector<std::size_t> HostSparseGradients::blocks(std::size_t count) const {
  std::vector<std::size_t> sizes;
  for (int rank = 0; rank < within_->size(); ++rank)
    sizes.push_back(static_cast<std::size_t>(block(count, rank).size()));
  return sizes;
}

void HostSparseGradients::share_out(std::span<float> bucket, std::span<float> own) {
  within_->reduce_scatter(floats_in(bucket), floats_in(own), ReduceOp::sum, blocks(bucket.size()))
      .or_throw("sharing out what is kept of gradients within a host");
}

double HostSparseGradients::unit_of(double own) {
  after_->all_reduce(buffer_of(std::span(&own, 1)), ReduceOp::average)
      .or_throw("the samples of a host");
  return own;
}

std::uint64_t HostSparseGradients::bytes_moved() const {
  return within_->bytes_moved() + after_->bytes_moved() + (between_ ? between_->bytes_moved() : 0);
}

Work HostSparseGradients::leave(const Bucket& bucket) {
  if (takes_momentum()) require_one_backward(bucket);
  if (buckets_.size() <= bucket.index) buckets_.resize(bucket.index + 1);
  Travelling& travelling = buckets_[bucket.index];
  const std::size_t count = bucket.gradients.count;
  travelling.bucket = bucket;
  travelling.stage = Stage::summing;
  make_room(travelling, count);
  Call call;
  call.collective = collective::Collective::reduce_scatter;
  call.input = bucket.gradients;
  call.output = floats_in(travelling.sum);
  call.counts = blocks(count);
  travelling.work = within_->start(std::move(call));
  const Work summed = travelling.work;
  waiting_.push_back(bucket.index);
  go_on();
  return summed;
}

// Within reach of the host's other ranks, as gradients are: as much on each, since it is allocated
// together.
void HostSparseGradients::make_room(Travelling& travelling, std::size_t count) {
  const std::size_t bytes = static_cast<std::size_t>(block(count, 0).size()) * sizeof(float);
  if (!travelling.memory || travelling.memory->bytes().size() < bytes)
    travelling.memory = within_->allocate(bytes);
  travelling.sum = {reinterpret_cast<float*>(travelling.memory->bytes().data()),
                    static_cast<std::size_t>(keeps_of(count).size())};
}

// In the order in which they have left, beside backward where their sums are there: the same calls
// in the same order on all ranks.
void HostSparseGradients::go_on() {
  while (!waiting_.empty()) {
    Travelling& first = buckets_[waiting_.front()];
    if (!has_come(first)) return;
    if (first.stage == Stage::summing && sparsity_.clip_norm > 0) {
      measure(first);
      continue;
    }
    clip(first);
    cross(first);
    crossing_.push_back(waiting_.front());
    waiting_.pop_front();
  }
}

// Whoever waits for a call that has failed is told there.
bool HostSparseGradients::has_come(Travelling& bucket) {
  return bucket.work.done() && bucket.work.wait().ok();
}

// All have left. What follows the sums within the host is first the measuring of all buckets.
std::optional<Work> HostSparseGradients::arrive(std::size_t index) {
  go_on();
  while (waiting_.empty() && !crossing_.empty() && has_come(buckets_[crossing_.front()])) {
    gather(buckets_[crossing_.front()]);
    crossing_.pop_front();
  }
  Travelling& bucket = buckets_[index];
  if (bucket.stage != Stage::gathering || !has_come(bucket)) return bucket.work;
  unpack(bucket);
  return std::nullopt;
}

// A tensor may lie in several blocks.
void HostSparseGradients::measure(Travelling& travelling) {
  const layout::Range own = keeps_of(travelling.bucket.gradients.count);
  travelling.squares.clear();
  for (const layout::Layout::Tensor& tensor : travelling.bucket.tensors) {
    const layout::Range here = layout::intersection(tensor.range, own);
    travelling.squares.push_back(
        here.empty() ? 0
                     : kernels::sum_of_squares(travelling.sum.data() + (here.begin - own.begin),
                                               static_cast<std::size_t>(here.size())));
  }
  travelling.stage = Stage::measuring;
  travelling.work = after_->start_all_reduce(buffer_of(std::span(travelling.squares)));
}

// A host's part of a tensor's average to the norm clip_norm by the root of the hosts.
void HostSparseGradients::clip(Travelling& travelling) const {
  if (sparsity_.clip_norm <= 0) return;
  const double most = sparsity_.clip_norm * std::sqrt(static_cast<double>(hosts_)) *
                      within_->size() * travelling.bucket.unit;
  const layout::Range own = keeps_of(travelling.bucket.gradients.count);
  for (std::size_t i = 0; i < travelling.squares.size(); ++i) {
    const double norm = std::sqrt(travelling.squares[i]);
    const layout::Range here = layout::intersection(travelling.bucket.tensors[i].range, own);
    if (!std::isfinite(norm) || norm <= most || here.empty()) continue;
    kernels::scale(travelling.sum.data() + (here.begin - own.begin),
                   static_cast<float>(most / norm), static_cast<std::size_t>(here.size()));
  }
}

// Chooses what travels of the host's sum.
void HostSparseGradients::cross(Travelling& travelling) {
  const Bucket& bucket = travelling.bucket;
  const std::size_t all = bucket.gradients.count, count = travelling.sum.size();
  const SparseSelection::Numbers numbers{
      .gradient = travelling.sum.data(),
      .momentum = takes_momentum() ? bucket.kept[1] : kernels::Kept{},
      .sum = bucket.kept[0],
      .count = count,
      .most = most_of(sparsity_, bucket.exchange, count)};
  const auto found = selection_.select(numbers, bucket.exchange);
  const auto hosts = static_cast<std::size_t>(hosts_);
  travelling.is_sparse =
      is_less_when_sparse(sparsity_, all, most_of(sparsity_, bucket.exchange, all), hosts);
  const std::size_t bytes =
      travelling.is_sparse ? payload_bytes(count, numbers.most, sparsity_.as) : 0;
  fit(travelling.own, bytes);
  fit(travelling.crossed, bytes * hosts);
  if (travelling.is_sparse) pack(numbers.sum.after, count, found, travelling.own, sparsity_.as);
  for (const std::uint32_t place : found) {
    if (!travelling.is_sparse)
      numbers.gradient[place] =
          std::exchange(numbers.sum.after[place], 0.0F) / static_cast<float>(ranks_);
    if (numbers.momentum.after) numbers.momentum.after[place] = 0;
  }
  travelling.stage = Stage::crossing;
  travelling.work = Work();
  if (!between_) return;
  if (!travelling.is_sparse) {
    travelling.work = between_->start_all_reduce(floats_in(travelling.sum));
    return;
  }
  Call call;
  call.collective = collective::Collective::all_gather;
  call.input = bytes_in(travelling.own);
  call.output = bytes_in(travelling.crossed);
  travelling.work = between_->start(std::move(call));
}

std::size_t HostSparseGradients::payload_of(const Travelling& travelling, int place) const {
  const auto count =
      static_cast<std::size_t>(block(travelling.bucket.gradients.count, place).size());
  return payload_bytes(count, most_of(sparsity_, travelling.bucket.exchange, count), sparsity_.as);
}

// What has come to a place goes to all ranks of the host: payloads of all hosts, or sums.
void HostSparseGradients::gather(Travelling& travelling) {
  travelling.stage = Stage::gathering;
  Call call;
  call.collective = collective::Collective::all_gather;
  if (travelling.is_sparse) {
    std::size_t bytes = 0;
    for (int rank = 0; rank < within_->size(); ++rank) {
      call.counts.push_back(
          rank < places_ ? payload_of(travelling, rank) * static_cast<std::size_t>(hosts_) : 0);
      bytes += call.counts.back();
    }
    fit(travelling.all, bytes);
    call.input = bytes_in(travelling.crossed);
    call.output = bytes_in(travelling.all);
  } else {
    call.counts = blocks(travelling.bucket.gradients.count);
    call.input = floats_in(travelling.sum);
    call.output = travelling.bucket.gradients;
  }
  travelling.work = after_->start(std::move(call));
}

void HostSparseGradients::unpack(Travelling& travelling) const {
  if (!travelling.is_sparse) return;
  const std::size_t count = travelling.bucket.gradients.count;
  const std::span numbers(static_cast<float*>(travelling.bucket.gradients.data), count);
  std::fill(numbers.begin(), numbers.end(), 0.0F);
  auto left = std::span<const std::byte>(travelling.all);
  for (int place = 0; place < places_; ++place) {
    const layout::Range own = block(count, place);
    const std::size_t bytes = payload_of(travelling, place);
    for (int host = 0; host < hosts_; ++host, left = left.subspan(bytes))
      add_unpacked(numbers.data() + own.begin, static_cast<std::size_t>(own.size()),
                   left.first(bytes), 1 / static_cast<float>(ranks_), sparsity_.as);
  }
}

}  // namespace asup::sync
