// A file with an embedding table, in the safetensors format (checkpoint/safetensors.h), written and
// read in pieces: the rows as "weight", the state of their rule by torch's names ("sum", or
// "exp_avg" and "exp_avg_sq"), each of rows × width. Used from one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "asup/layout/layout.h"
#include "asup/ps/table/setup.h"

namespace asup {

class TableFile {
 public:
  // Begins a file, beside `path` until finish(). Throws Error where it cannot be written.
  static TableFile create(const std::string& path, const ps::table::TableSetup& setup,
                          double steps);
  // Throws BadInput, with the path, for a file that is not of such a table.
  static TableFile open(const std::string& path, const ps::table::TableSetup& setup);
  TableFile(TableFile&& other) noexcept;
  ~TableFile();

  double steps() const { return steps_; }

  // Records of rows: the row, then its state.
  void write(layout::Range rows, const float* records);
  void read(layout::Range rows, float* records);
  // All has been written.
  void finish();

 private:
  TableFile(std::string path, const ps::table::TableSetup& setup);
  std::uint64_t place_of(std::size_t tensor, std::uint64_t row) const;
  void read_header();

  const std::string path_;
  const ps::table::TableSetup setup_;
  double steps_ = 0;
  int fd_ = -1;
  bool is_new_ = false;
  std::vector<std::uint64_t> begins_;  // of the tensors, in the file
  std::vector<float> plain_;           // rows of one tensor
};

}  // namespace asup
