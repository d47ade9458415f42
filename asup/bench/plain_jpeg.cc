#include "asup/bench/plain_jpeg.h"

#include <algorithm>
#include <cstdlib>

#include "asup/base/error.h"
#include "asup/data/image/decoder.h"
#include "asup/data/image/jpeg_errors.h"

namespace asup::bench {
namespace {

using data::image::JpegErrors;

struct Decompression {
  Decompression() { info.err = &errors; }
  ~Decompression() { jpeg_destroy_decompress(&info); }
  Decompression(const Decompression&) = delete;
  Decompression& operator=(const Decompression&) = delete;

  JpegErrors errors;
  jpeg_decompress_struct info{};
};

struct Compression {
  Compression() { info.err = &errors; }
  ~Compression() {
    jpeg_destroy_compress(&info);
    std::free(bytes);
  }
  Compression(const Compression&) = delete;
  Compression& operator=(const Compression&) = delete;

  JpegErrors errors;
  jpeg_compress_struct info{};
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
};

// This and write_file() are left by a longjmp: nothing that has a destructor may be alive in them.
void read_pixels(jpeg_decompress_struct& info, std::span<const std::uint8_t> file, int denominator,
                 std::vector<std::uint8_t>& pixels) {
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, file.data(), static_cast<unsigned long>(file.size()));
  jpeg_read_header(&info, TRUE);
  info.scale_num = 1;
  info.scale_denom = static_cast<unsigned>(denominator);
  info.out_color_space = JCS_RGB;
  jpeg_start_decompress(&info);
  const std::size_t stride = std::size_t{info.output_width} * 3;
  pixels.resize(stride * info.output_height);
  while (info.output_scanline < info.output_height) {
    JSAMPROW rows[16];
    for (std::size_t i = 0; i < 16; ++i) {
      const auto y = std::min<std::size_t>(info.output_scanline + i, info.output_height - 1);
      rows[i] = pixels.data() + y * stride;
    }
    jpeg_read_scanlines(&info, rows, 16);
  }
  jpeg_finish_decompress(&info);
}

void write_file(Compression& jpeg, std::span<const std::uint8_t> rgb, int width, int height,
                int quality) {
  jpeg_compress_struct& info = jpeg.info;
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, &jpeg.bytes, &jpeg.size);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<JSAMPLE*>(rgb.data()) +
                std::size_t{info.next_scanline} * 3 * static_cast<std::size_t>(width);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
}

}  // namespace

bool has_plain_jpeg() { return true; }

void decode_plain(std::span<const std::uint8_t> file, int denominator,
                  std::vector<std::uint8_t>& pixels) {
  Decompression jpeg;
  if (setjmp(jpeg.errors.escape) != 0)
    throw data::image::BrokenImage(fmt::format("is no plain JPEG: {}", jpeg.errors.message.data()));
  read_pixels(jpeg.info, file, denominator, pixels);
}

std::vector<std::uint8_t> encode_plain(std::span<const std::uint8_t> rgb, int width, int height,
                                       int quality) {
  Compression jpeg;
  if (setjmp(jpeg.errors.escape) != 0)
    throw Error(fmt::format("libjpeg: {}", jpeg.errors.message.data()));
  write_file(jpeg, rgb, width, height, quality);
  return {jpeg.bytes, jpeg.bytes + jpeg.size};
}

}  // namespace asup::bench
