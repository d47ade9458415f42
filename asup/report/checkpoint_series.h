// The checkpoints of one training, in a folder: step-00000012, step-00000024, … and, where the best
// is wanted, a link to it: best. What is in one is
// checkpoint/'s affair. Used by one process; safe from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace asup::report {

struct FoundCheckpoint {
  struct Damaged {
    std::string path;
    std::string why;  // it cannot be used; names the file
  };
  std::string path;            // empty: there is none that is whole
  std::vector<Damaged> newer;  // that had to be passed over
};

class CheckpointSeries {
 public:
  explicit CheckpointSeries(std::string folder) : folder_(std::move(folder)) {}

  std::string path(std::int64_t step) const;
  // Oldest first. Throws BadInput where the folder cannot be read; one that is not there has none.
  std::vector<std::string> list() const;
  // The newest of which `verify` does not throw BadInput.
  FoundCheckpoint newest_whole(const std::function<void(const std::string& path)>& verify) const;
  // Deletes all but the last `count` (0: none) and that of step `best`, which the link `best` then
  // leads to, and what was left of unfinished ones.
  void keep(std::int64_t count, std::optional<std::int64_t> best = std::nullopt) const;
  // One that cannot be used gets a name by which it is no longer one of these.
  void set_aside(const std::string& path) const;

 private:
  void link_best(const std::string& path) const;

  const std::string folder_;
};

// STEM-1, or with the first number that is free.
std::string first_free_path(const std::string& stem);

}  // namespace asup::report
