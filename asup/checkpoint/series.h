// The checkpoints of one training, in a folder: step-00000012, step-00000024, … Used by one
// process; safe from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace asup::checkpoint {

struct Found {
  struct Damaged {
    std::string path;
    std::string why;  // it cannot be used; names the file
  };
  std::string path;            // empty: there is none that is whole
  std::vector<Damaged> newer;  // that had to be passed over
};

class Series {
 public:
  explicit Series(std::string folder) : folder_(std::move(folder)) {}

  std::string path(std::int64_t step) const;
  // Oldest first, as far as their names tell. Throws BadInput where the folder cannot be read; one
  // that is not there has none.
  std::vector<std::string> list() const;
  // The newest that is as it was written, every bit of it.
  Found newest_whole() const;
  // Deletes all but the last `count`, and what was left of unfinished ones.
  void keep(std::int64_t count) const;

 private:
  const std::string folder_;
};

}  // namespace asup::checkpoint
