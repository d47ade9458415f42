// Files that tests write: folders that vanish again, idx and gzip bytes, and the message that a
// BadInput carries; all indices of a data set.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "asup/base/error.h"
#include "asup/data/dataset.h"
#include "tests/support/thrown.h"

namespace asup::data {

using Bytes = std::vector<std::uint8_t>;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "asup-data-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw Error("no temporary folder");
    path_ = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  std::filesystem::path write(const std::string& file, const Bytes& bytes) const {
    std::ofstream out(path_ / file, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    return path_ / file;
  }

 private:
  std::filesystem::path path_;
};

inline Bytes gzip(const Bytes& bytes) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 16 + 15, 8, Z_DEFAULT_STRATEGY);
  Bytes out(deflateBound(&stream, bytes.size()));
  stream.next_in = const_cast<std::uint8_t*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline Bytes idx(const std::vector<std::uint32_t>& dimensions, const Bytes& body) {
  Bytes out{0, 0, 8, static_cast<std::uint8_t>(dimensions.size())};
  for (const std::uint32_t n : dimensions)
    for (int shift = 24; shift >= 0; shift -= 8)
      out.push_back(static_cast<std::uint8_t>(n >> shift));
  out.insert(out.end(), body.begin(), body.end());
  return out;
}

inline Bytes bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

inline std::vector<std::int64_t> all_of(const Dataset& dataset) {
  std::vector<std::int64_t> indices(dataset.size());
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

// What the BadInput says that `function` throws.
template <typename Function>
std::string message_of(const Function& function) {
  return asup::testing::message_of<BadInput>(function);
}

}  // namespace asup::data
