// What files, flags and variables said, each over the one before, before it is known whose settings
// these are. Used from one thread.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "asup/config/setting.h"

namespace asup::config {

class Given {
 public:
  struct Saying {
    Value value;
    std::string where;  // opens messages: "--lr", "job.toml:3: lr"
    int source = 0;     // a later one has a higher number
  };

  // A new source begins: what it says goes over all before.
  void begin_source() { ++source_; }
  void say(std::string_view name, Value value, std::string where);
  int sources() const { return source_; }
  // Each key of the file, as a source of its own. Throws BadInput with the file's name and line:
  // cannot be read, is not TOML, or a value that no setting can have.
  void read_toml(const std::string& path);

  bool has(std::string_view name) const { return find(name) != nullptr; }
  const Saying* find(std::string_view name) const;  // what was said last, or null
  // What was said last before that source, as on a command line; `usual` where nothing was.
  std::string text_before(std::string_view name, int source, const std::string& usual) const;
  const std::map<std::string, std::vector<Saying>, std::less<>>& all() const { return sayings_; }

  // Forgets what was said of these before that source.
  void forget(std::span<const std::string> names, int before);
  // The source that last said another value of a choice than the sources before it, or than
  // `usual`; 0: none did.
  int changed_by(std::string_view choice, const std::string& usual) const;

  // Assigns what was said of the section's settings. Throws BadInput for values that are not
  // allowed.
  void fill(const Section& section) const;

 private:
  std::map<std::string, std::vector<Saying>, std::less<>> sayings_;
  int source_ = 0;
};

// "bucket-mb" is ASUP_BUCKET_MB.
std::string variable_of(std::string_view name);

}  // namespace asup::config
