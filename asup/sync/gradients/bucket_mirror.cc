#include "asup/sync/gradients/bucket_mirror.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <limits>
#include <optional>

#include "asup/base/quietly.h"
#include "asup/sync/model/device.h"

namespace asup::sync {

struct BucketMirror::Streams {
  Streams(const torch::Device& where, std::size_t buckets)
      : device(where),
        guard(where.type()),
        out(guard.getStreamFromGlobalPool(where)),
        in(guard.getStreamFromGlobalPool(where)),
        ordered(where.type()),
        came_back(where.type()) {
    for (std::size_t b = 0; b < buckets; ++b) come.emplace_back(where.type());
  }

  c10::Stream current() const { return guard.getStream(device); }

  const torch::Device device;
  const c10::impl::VirtualGuardImpl guard;
  const c10::Stream out, in;
  std::optional<c10::Stream> followed;  // the stream that was current last
  c10::Event ordered;                   // of one stream behind another, recorded anew each time
  c10::Event came_back;
  std::vector<c10::Event> come;  // by bucket: is on the host
};

BucketMirror::BucketMirror(std::shared_ptr<SharedMemory> host, const torch::Device& device,
                           std::size_t buckets)
    : host_(std::move(host)), locked_(lock_pages(host_->bytes(), device)) {
  const auto bytes = static_cast<std::int64_t>(host_->bytes().size());
  on_host_ = torch::from_blob(host_->bytes().data(), {bytes}, torch::kUInt8);
  on_device_ = torch::zeros({bytes}, torch::TensorOptions(torch::kUInt8).device(device));
  peaks_ =
      torch::full({static_cast<std::int64_t>(buckets)}, std::numeric_limits<double>::infinity(),
                  torch::dtype(torch::kDouble).pinned_memory(!device.is_cpu()));
  memory_ = std::make_shared<torch::Tensor>(on_device_);
  if (device.is_cpu()) return;
  wait_for_stream(device);  // the zeros are there, whichever stream comes first
  streams_ = std::make_unique<Streams>(on_device_.device(), buckets);
}

BucketMirror::~BucketMirror() {
  if (!streams_) return;
  quietly([this] {
    streams_->guard.synchronizeStream(streams_->out);
    streams_->guard.synchronizeStream(streams_->in);
  });
}

std::byte* BucketMirror::data() const {
  return static_cast<std::byte*>(on_device_.mutable_data_ptr());
}

void BucketMirror::follow_stream() {
  if (!streams_) return;
  const c10::Stream current = streams_->current();
  if (streams_->followed && *streams_->followed != current) {
    streams_->ordered.record(*streams_->followed);
    streams_->ordered.block(current);
  }
  streams_->followed = current;
}

void BucketMirror::to_host(std::size_t bucket, std::size_t begin, std::size_t bytes) {
  const auto at = static_cast<std::int64_t>(begin), count = static_cast<std::int64_t>(bytes);
  const auto copy = [&] {
    on_host_.narrow(0, at, count).copy_(on_device_.narrow(0, at, count), /*non_blocking=*/true);
  };
  if (!streams_) return copy();
  streams_->ordered.record(streams_->current());
  streams_->ordered.block(streams_->out);
  const c10::StreamGuard on(streams_->out);
  copy();
  streams_->come[bucket].record(streams_->out);
}

// On the stream of the copies, which are behind backward, and beside what backward computes next.
void BucketMirror::find_peak(std::size_t bucket, std::size_t begin, std::size_t bytes,
                             torch::ScalarType type) {
  const auto at = static_cast<std::int64_t>(begin), count = static_cast<std::int64_t>(bytes);
  const auto find = [&] {
    const torch::Tensor peak = torch::linalg_vector_norm(on_device_.narrow(0, at, count).view(type),
                                                         std::numeric_limits<double>::infinity());
    peaks_[static_cast<std::int64_t>(bucket)].copy_(peak.to(torch::kDouble), /*non_blocking=*/true);
  };
  if (!streams_) return find();
  streams_->ordered.record(streams_->current());
  streams_->ordered.block(streams_->out);
  const c10::StreamGuard on(streams_->out);
  find();
}

double BucketMirror::peak(std::size_t bucket) const {
  return peaks_.const_data_ptr<double>()[bucket];
}

bool BucketMirror::has_come(std::size_t bucket) const {
  return !streams_ || streams_->come[bucket].query();
}

void BucketMirror::wait_for(std::size_t bucket) const {
  if (streams_) streams_->come[bucket].synchronize();
}

bool BucketMirror::differs(std::size_t begin, std::size_t bytes) const {
  const auto at = static_cast<std::int64_t>(begin), count = static_cast<std::int64_t>(bytes);
  return !torch::equal(on_host_.narrow(0, at, count), on_device_.narrow(0, at, count).cpu());
}

void BucketMirror::to_device(std::size_t begin, std::size_t bytes) {
  const auto at = static_cast<std::int64_t>(begin), count = static_cast<std::int64_t>(bytes);
  const auto copy = [&] {
    on_device_.narrow(0, at, count).copy_(on_host_.narrow(0, at, count), /*non_blocking=*/true);
  };
  if (!streams_) return copy();
  {
    const c10::StreamGuard on(streams_->in);
    copy();
    streams_->came_back.record(streams_->in);
  }
  streams_->came_back.block(streams_->current());
}

}  // namespace asup::sync
