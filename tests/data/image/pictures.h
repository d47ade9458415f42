// Pictures that tests make, and the bytes of JPEG, PNG and tar files of them.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "asup/data/image/decoder.h"
#include "tests/data/files.h"

namespace asup::data::image {

struct Picture {
  int width = 0, height = 0;
  Bytes rgb;  // 3 bytes a pixel

  std::uint8_t at(int x, int y, int channel) const {
    return rgb[static_cast<std::size_t>((y * width + x) * 3 + channel)];
  }
};

Picture plain(int width, int height, std::uint8_t red, std::uint8_t green, std::uint8_t blue);
Picture smooth(int width, int height, std::uint64_t seed);  // as photographs are
Picture noise(int width, int height, std::uint64_t seed);

torch::Tensor tensor_of(const Picture& picture);  // 3 x height x width

struct JpegOptions {
  int quality = 92;
  int subsampling = 2;  // 1: none, 2: 4:2:0
  bool progressive = false, grey = false, cmyk = false;
  bool scan_a_coefficient = false;  // a scan for each bit of each of them: 381 scans
};
Bytes jpeg(const Picture& picture, const JpegOptions& options = {});

enum class PngKind { rgb, rgba, grey, palette, rgb16 };
Bytes png(const Picture& picture, PngKind kind = PngKind::rgb, bool interlaced = false);

// Takes all rows, as three bytes a pixel.
class PictureSink : public RowSink {
 public:
  explicit PictureSink(const Window& window) : window_(window) {}
  void row(int y, const std::uint8_t* pixels) override;
  Picture picture() const;

 private:
  Window window_;
  Bytes rgb_;
  int next_ = 0;
};

// The file's window at 1/denominator; the whole picture without one.
Picture decode(const Bytes& file, int denominator = 1);
Picture decode(const Bytes& file, int denominator, const Window& window);

// Writes a file, and the folders that it is in.
void put(const std::filesystem::path& path, const Bytes& bytes);

// A tar archive of these files; `ended`: with the zeros that it ends with.
struct Member {
  std::string name;
  Bytes bytes;
  char type = '0';  // a file; 'x': what pax says of the next member
};
Bytes tar(const std::vector<Member>& members, bool ended = true);

}  // namespace asup::data::image
