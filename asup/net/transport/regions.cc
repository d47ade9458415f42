#include "asup/net/transport/regions.h"

#include <algorithm>

namespace asup::net {

ReachableMemory::ReachableMemory(std::shared_ptr<Regions> regions, std::uint32_t id,
                                 std::shared_ptr<Region> region)
    : regions_(std::move(regions)), id_(id), region_(std::move(region)) {
  regions_->add(id_, bytes());
}

ReachableMemory::~ReachableMemory() { regions_->remove(id_, bytes()); }

std::unique_ptr<ReachableMemory> Regions::make(std::size_t bytes) {
  std::uint32_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    id = next_++;
  }
  return std::make_unique<ReachableMemory>(
      shared_from_this(), id,
      std::make_shared<Region>(Region::make(std::max<std::size_t>(bytes, 1))));
}

void Regions::close() {
  const std::lock_guard lock(withdraw_mutex_);
  withdraw_ = nullptr;
}

void Regions::add(std::uint32_t id, Bytes bytes) {
  const std::lock_guard lock(mutex_);
  entries_[bytes.data()] = {id, bytes.size()};
}

void Regions::remove(std::uint32_t id, Bytes bytes) {
  {
    const std::lock_guard lock(mutex_);
    entries_.erase(bytes.data());
  }
  const std::lock_guard lock(withdraw_mutex_);
  if (withdraw_) withdraw_(id);
}

Regions::Address Regions::address_of(const void* data, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(data);
  const std::lock_guard lock(mutex_);
  const auto after = entries_.upper_bound(begin);
  if (after == entries_.begin()) return {0, 0};
  const auto& [base, entry] = *std::prev(after);
  const auto offset = static_cast<std::uint64_t>(begin - base);
  if (offset + bytes > entry.bytes) return {0, 0};
  return {entry.id, offset};
}

}  // namespace asup::net
