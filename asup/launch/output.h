// Where the ranks' output goes: lines with the rank, or the server, before them on our own output,
// or a file each.
// One thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "asup/base/fd.h"
#include "asup/launch/lines.h"
#include "asup/launch/ranks.h"
#include "asup/launch/writer.h"
#include "asup/net/membership/roles.h"

namespace asup::launch {

class Output {
 public:
  struct Options {
    bool prefix = true;
    std::string directory;  // rank_N.log and server_N.log there; empty: our own output
    net::Roles roles{};
  };

  // Throws BadInput where the folder cannot be made.
  Output(PollLoop& loop, Options options);

  // From the rank; empty at the end of the stream.
  void take(int rank, Stream stream, std::string_view bytes);
  // A line of the launcher's own, on standard error.
  void note(const std::string& line);

  bool full() const { return out_.full() || err_.full(); }
  bool empty() const { return out_.empty() && err_.empty(); }

  // "" where ranks do not write to files.
  std::string file_of(int rank) const;

 private:
  void write(Stream stream, const std::string& text);
  void write_file(int rank, std::string_view bytes);

  const Options options_;
  const bool colour_out_, colour_err_;
  Writer out_, err_;
  std::map<std::pair<int, Stream>, Lines> lines_;
  std::map<int, Fd> files_;
};

}  // namespace asup::launch
