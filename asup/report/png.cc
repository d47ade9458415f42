// The format: https://www.w3.org/TR/png-3.
#include "asup/report/png.h"

#include <zlib.h>

#include <vector>

#include "asup/base/base64.h"
#include "asup/base/error.h"

namespace asup::report {
namespace {

void put_be32(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xff);
}

const Bytef* bytes_of(const std::string& text) {
  return reinterpret_cast<const Bytef*>(text.data());
}

void put_chunk(std::string& out, const std::string& type, const std::string& data) {
  put_be32(out, static_cast<std::uint32_t>(data.size()));
  const std::string body = type + data;
  out += body;
  put_be32(out,
           static_cast<std::uint32_t>(crc32(0, bytes_of(body), static_cast<uInt>(body.size()))));
}

std::string deflated(const std::string& data) {
  uLongf size = compressBound(data.size());
  std::string out(size, '\0');
  const int result = compress2(reinterpret_cast<Bytef*>(out.data()), &size, bytes_of(data),
                               data.size(), Z_DEFAULT_COMPRESSION);
  check(result == Z_OK, "zlib cannot compress {} bytes: {}", data.size(), result);
  out.resize(size);
  return out;
}

}  // namespace

Picture make_picture(std::span<const std::uint8_t> pixels, int width, int height, int channels) {
  const auto row = static_cast<std::size_t>(width) * static_cast<std::size_t>(channels);
  check((channels == 1 || channels == 3) && pixels.size() == row * static_cast<std::size_t>(height),
        "{} bytes are no image of {}x{} with {} channels", pixels.size(), width, height, channels);
  std::string lines;
  for (std::size_t at = 0; at < pixels.size(); at += row) {
    lines += '\0';  // this row's filter: none
    lines.append(pixels.begin() + static_cast<std::ptrdiff_t>(at),
                 pixels.begin() + static_cast<std::ptrdiff_t>(at + row));
  }
  std::string header;
  put_be32(header, static_cast<std::uint32_t>(width));
  put_be32(header, static_cast<std::uint32_t>(height));
  // 8 bits a sample; grey or RGB; the only compression, filters and no interlacing.
  header += {8, static_cast<char>(channels == 1 ? 0 : 2), 0, 0, 0};

  std::string png = "\x89PNG\r\n\x1a\n";
  put_chunk(png, "IHDR", header);
  put_chunk(png, "IDAT", deflated(lines));
  put_chunk(png, "IEND", "");
  return {png, width, height, channels};
}

std::string data_uri(const Picture& picture) {
  return "data:image/png;base64," + to_base64(picture.png);
}

}  // namespace asup::report
