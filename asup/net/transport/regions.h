// This member's memory that others on its host reach. Whoever holds a piece of it may keep it
// longer than the mesh that offered it lives. Safe from any thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "asup/net/transport/region.h"

namespace asup::net {

class Regions;

// A region and the right to be found in it; given back with its owner.
class ReachableMemory {
 public:
  ReachableMemory(std::shared_ptr<Regions> regions, std::uint32_t id,
                  std::shared_ptr<Region> region);
  ~ReachableMemory();
  ReachableMemory(const ReachableMemory&) = delete;
  ReachableMemory& operator=(const ReachableMemory&) = delete;

  Bytes bytes() const { return region_->bytes(); }
  std::uint32_t id() const { return id_; }
  std::shared_ptr<const Region> region() const { return region_; }
  // Nobody is to be told of it any more. needs: before others use it
  void close_fd() { region_->close_fd(); }

 private:
  const std::shared_ptr<Regions> regions_;
  const std::uint32_t id_;
  const std::shared_ptr<Region> region_;
};

class Regions : public std::enable_shared_from_this<Regions> {
 public:
  // `withdraw` has the peers told that a region is gone; it does not take the mesh's lock, which
  // whoever lets go of memory may hold.
  explicit Regions(std::function<void(std::uint32_t region)> withdraw)
      : withdraw_(std::move(withdraw)) {}

  std::unique_ptr<ReachableMemory> make(std::size_t bytes);
  // From now on there are no peers to tell.
  void close();

  struct Address {
    std::uint32_t region;  // 0: in none of them
    std::uint64_t offset;
  };
  Address address_of(const void* data, std::size_t bytes);

 private:
  friend class ReachableMemory;
  void add(std::uint32_t id, Bytes bytes);
  void remove(std::uint32_t id, Bytes bytes);

  struct Entry {
    std::uint32_t id;
    std::size_t bytes;
  };
  std::mutex mutex_;
  std::map<const std::byte*, Entry> entries_;  // guarded by mutex_
  std::uint32_t next_ = 1;                     // guarded by mutex_

  std::mutex withdraw_mutex_;
  std::function<void(std::uint32_t)> withdraw_;  // guarded by withdraw_mutex_
};

}  // namespace asup::net
