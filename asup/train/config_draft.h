// A configuration being put together: defaults, then files, then flags, each over the one before.
// Used from one thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "asup/train/config.h"
#include "asup/train/settings.h"

namespace asup::train {

class ConfigDraft {
 public:
  // Each key of the file. Throws BadInput with the file's name and line: cannot be read, is not
  // TOML, names no setting (suggests the nearest), or has a value that is not allowed.
  void read_toml(const std::string& path);

  // "--name text" of a command line. Call after the files.
  void set_flag(const Setting& setting, const std::string& text);

  // Whether a file or a flag said it.
  bool given(std::string_view name) const { return given_.find(name) != given_.end(); }

  const TrainConfig& config() const { return config_; }

 private:
  void note(const Setting& setting, const TrainConfig& before, int source,
            const std::string& where);
  void settle_length(const Setting& setting, int source, const std::string& where);
  void forget_way(const TrainConfig& before, int source);
  void forget(const std::vector<std::string_view>& names, int source);

  TrainConfig config_;
  int files_ = 0;
  std::map<std::string, int, std::less<>>
      given_;  // by which source: files count up, flags are last
};

// Fills in what the settings leave open (learning rate, epochs) and refuses combinations that
// cannot work, with a sentence that says why and what to change. Looks at settings alone, at no
// file.
TrainConfig resolve(TrainConfig config);

// C, H, W of a text like "3x32x32"; throws BadInput that shows the form.
std::vector<std::int64_t> parse_shape(const std::string& text);

}  // namespace asup::train
