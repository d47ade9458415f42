#include "asup/collective/execute/coalesced_buffers.h"

#include <cstring>
#include <limits>

#include "asup/base/error.h"

namespace asup::collective {

CoalescedBuffers::CoalescedBuffers(std::vector<Buffer> parts, std::shared_ptr<SharedMemory> memory)
    : parts_(std::move(parts)), memory_(std::move(memory)) {}

void CoalescedBuffers::pack() {
  std::byte* to = memory_->bytes().data();
  for (const Buffer& part : parts_) {
    if (part.count > 0) std::memcpy(to, part.data, part.bytes());
    to += part.bytes();
  }
}

void CoalescedBuffers::unpack() {
  const std::byte* from = memory_->bytes().data();
  for (const Buffer& part : parts_) {
    if (part.count > 0) std::memcpy(part.data, from, part.bytes());
    from += part.bytes();
  }
}

void CoalescedBuffers::describe(Envelope& envelope) const {
  std::vector<std::size_t> sizes;
  for (const Buffer& part : parts_) sizes.push_back(part.count);
  envelope.counts = hash_of(std::span<const std::size_t>(sizes));
  envelope.parts = static_cast<std::uint32_t>(parts_.size());
}

Buffer whole_of(const std::vector<Buffer>& parts) {
  constexpr std::size_t kMost = std::numeric_limits<std::int64_t>::max() / 8;
  Buffer whole;
  whole.dtype = parts.front().dtype;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Buffer& part = parts[i];
    require(part.data || part.count == 0, "all_reduce: part {} is a null buffer of {} elements", i,
            part.count);
    require(part.device == DeviceKind::cpu, "all_reduce: part {} must be in CPU memory", i);
    require(part.dtype == whole.dtype,
            "all_reduce: part {} is {}, part 0 is {}; give buffers of one dtype to one call", i,
            name_of(part.dtype), name_of(whole.dtype));
    require(part.count <= kMost - whole.count,
            "all_reduce: the parts have more elements than memory holds");
    whole.count += part.count;
  }
  return whole;
}

}  // namespace asup::collective
