// Samples that could not be read: each is named once, and all are counted. Safe from any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace asup::data {

class BrokenSamples {
 public:
  // Says so on the log, unless it was said before or there are too many to be read by a person.
  void add(std::size_t index, const std::string& name, const std::string& why);

  std::vector<std::int64_t> all() const;  // ascending

 private:
  mutable std::mutex mutex_;
  std::set<std::int64_t> indices_;  // protected by mutex_
};

}  // namespace asup::data
