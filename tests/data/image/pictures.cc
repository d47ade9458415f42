#include "tests/data/image/pictures.h"

// clang-format off
#include <cstdio>  // jpeglib.h wants FILE
#include <jpeglib.h>
// clang-format on

#include <gtest/gtest.h>
#include <png.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "asup/data/image/formats.h"
#include "asup/data/random.h"

namespace asup::data::image {
namespace {

template <typename ValueOf>
Picture made_of(int width, int height, const ValueOf& value_of) {
  Picture picture{width, height, {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < 3; ++c)
        picture.rgb.push_back(static_cast<std::uint8_t>(value_of(x, y, c)));
  return picture;
}

std::vector<jpeg_scan_info> scan_a_coefficient() {
  std::vector<jpeg_scan_info> scans{{3, {0, 1, 2}, 0, 0, 0, 1}, {3, {0, 1, 2}, 0, 0, 1, 0}};
  for (int component = 0; component < 3; ++component)
    for (int k = 1; k < 64; ++k) {
      scans.push_back({1, {component}, k, k, 0, 1});
      scans.push_back({1, {component}, k, k, 1, 0});
    }
  return scans;
}

// A pixel as the file wants it.
Bytes row_of(const Picture& picture, int y, const JpegOptions& options) {
  Bytes row;
  for (int x = 0; x < picture.width; ++x) {
    const auto at = [&](int c) { return picture.at(x, y, c); };
    if (options.grey) {
      row.push_back(at(0));
    } else {
      for (int c = 0; c < 3; ++c) row.push_back(at(c));  // of CMYK: inverted, as Adobe has them
      if (options.cmyk) row.push_back(255);
    }
  }
  return row;
}

void append(png_structp png, png_bytep data, std::size_t count) {
  auto* bytes = static_cast<Bytes*>(png_get_io_ptr(png));
  bytes->insert(bytes->end(), data, data + count);
}

void octal(Bytes& header, std::size_t at, std::size_t size, std::uint64_t value) {
  const std::string text = fmt::format("{:0{}o}", value, size - 1);
  std::copy(text.begin(), text.end(), header.begin() + static_cast<std::ptrdiff_t>(at));
}

Bytes tar_header(const std::string& name, std::uint64_t size, char type) {
  Bytes header(512, 0);
  std::memcpy(header.data(), name.data(), std::min<std::size_t>(name.size(), 100));
  octal(header, 100, 8, 0644);
  octal(header, 124, 12, size);
  std::memcpy(header.data() + 257, "ustar\00000", 8);
  header[156] = static_cast<std::uint8_t>(type);
  std::fill_n(header.begin() + 148, 8, ' ');
  std::uint64_t sum = 0;
  for (const auto byte : header) sum += byte;
  octal(header, 148, 7, sum);
  return header;
}

void add(Bytes& archive, const Bytes& bytes) {
  archive.insert(archive.end(), bytes.begin(), bytes.end());
  archive.resize((archive.size() + 511) / 512 * 512);
}

}  // namespace

Picture plain(int width, int height, std::uint8_t red, std::uint8_t green, std::uint8_t blue) {
  return made_of(width, height, [&](int, int, int c) {
    return c == 0 ? red : c == 1 ? green : blue;
  });
}

Picture smooth(int width, int height, std::uint64_t seed) {
  Random random(seed);
  std::vector<double> phase;
  for (int i = 0; i < 12; ++i) phase.push_back(6.28 * static_cast<double>(random.uniform()));
  return made_of(width, height, [&](int x, int y, int c) {
    const double u = x / 23.0, v = y / 17.0;
    const auto k = static_cast<std::size_t>(c * 4);
    const double wave = std::sin(u + phase[k]) + std::cos(v + phase[k + 1]) +
                        std::sin(1.7 * u - 1.3 * v + phase[k + 2]) +
                        std::cos(0.6 * u * v / 5 + phase[k + 3]);
    return std::clamp(128 + 30 * wave, 0.0, 255.0);
  });
}

Picture noise(int width, int height, std::uint64_t seed) {
  Random random(seed);
  return made_of(width, height, [&](int, int, int) { return random.below(256); });
}

torch::Tensor tensor_of(const Picture& picture) {
  return torch::tensor(std::vector<int>(picture.rgb.begin(), picture.rgb.end()))
      .view({picture.height, picture.width, 3})
      .permute({2, 0, 1})
      .to(torch::kFloat32);
}

Bytes jpeg(const Picture& picture, const JpegOptions& options) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(picture.width);
  info.image_height = static_cast<JDIMENSION>(picture.height);
  info.input_components = options.grey ? 1 : options.cmyk ? 4 : 3;
  info.in_color_space = options.grey ? JCS_GRAYSCALE : options.cmyk ? JCS_CMYK : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, options.quality, TRUE);
  if (!options.grey && !options.cmyk)
    info.comp_info[0].h_samp_factor = info.comp_info[0].v_samp_factor = options.subsampling;
  if (options.progressive) jpeg_simple_progression(&info);
  const auto scans = scan_a_coefficient();
  if (options.scan_a_coefficient) {
    info.scan_info = scans.data();
    info.num_scans = static_cast<int>(scans.size());
  }
  jpeg_start_compress(&info, TRUE);
  for (int y = 0; y < picture.height; ++y) {
    Bytes row = row_of(picture, y, options);
    JSAMPROW rows[]{row.data()};
    jpeg_write_scanlines(&info, rows, 1);
  }
  jpeg_finish_compress(&info);
  Bytes out(bytes, bytes + size);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  return out;
}

Bytes png(const Picture& picture, PngKind kind, bool interlaced) {
  Bytes out;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, &out, append, nullptr);
  const int type = kind == PngKind::rgba      ? PNG_COLOR_TYPE_RGBA
                   : kind == PngKind::grey    ? PNG_COLOR_TYPE_GRAY
                   : kind == PngKind::palette ? PNG_COLOR_TYPE_PALETTE
                                              : PNG_COLOR_TYPE_RGB;
  png_set_IHDR(png, info, static_cast<png_uint_32>(picture.width),
               static_cast<png_uint_32>(picture.height), kind == PngKind::rgb16 ? 16 : 8, type,
               interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_color> palette;
  for (int i = 0; i < 256; ++i) {
    const auto level = static_cast<png_byte>(i);
    palette.push_back({level, static_cast<png_byte>(255 - i), 7});
  }
  if (kind == PngKind::palette) png_set_PLTE(png, info, palette.data(), 256);
  std::vector<Bytes> rows(static_cast<std::size_t>(picture.height));
  std::vector<png_bytep> pointers;
  for (int y = 0; y < picture.height; ++y) {
    Bytes& row = rows[static_cast<std::size_t>(y)];
    for (int x = 0; x < picture.width; ++x) {
      const int channels = kind == PngKind::grey || kind == PngKind::palette ? 1 : 3;
      for (int c = 0; c < channels; ++c) {
        row.push_back(picture.at(x, y, c));
        if (kind == PngKind::rgb16) row.push_back(picture.at(x, y, c));
      }
      if (kind == PngKind::rgba) row.push_back(static_cast<std::uint8_t>(x));
    }
    pointers.push_back(row.data());
  }
  png_set_rows(png, info, pointers.data());
  png_write_png(png, info, PNG_TRANSFORM_IDENTITY, nullptr);
  png_destroy_write_struct(&png, &info);
  return out;
}

void PictureSink::row(int y, const std::uint8_t* pixels) {
  EXPECT_EQ(y, window_.top + next_++);
  for (int x = window_.left; x < window_.right; ++x, pixels += 4)
    rgb_.insert(rgb_.end(), pixels, pixels + 3);
}

Picture PictureSink::picture() const {
  EXPECT_EQ(next_, window_.bottom - window_.top);
  return {window_.right - window_.left, next_, rgb_};
}

Picture decode(const Bytes& file, int denominator, const Window& window) {
  Decoders decoders;
  Decoder& decoder = decoders.of(file);
  decoder.open(file);
  PictureSink sink(window);
  decoder.decode(denominator, window, sink);
  return sink.picture();
}

Picture decode(const Bytes& file, int denominator) {
  Decoders decoders;
  const Size size = decoders.of(file).open(file);
  return decode(file, denominator,
                {0, 0, reduced(size.width, denominator), reduced(size.height, denominator)});
}

void put(const std::filesystem::path& path, const Bytes& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
}

// Names of more than 100 bytes as GNU's tar writes them.
Bytes tar(const std::vector<Member>& members, bool ended) {
  Bytes archive;
  for (const Member& member : members) {
    if (member.name.size() > 100) {
      add(archive, tar_header("././@LongLink", member.name.size() + 1, 'L'));
      Bytes name(member.name.begin(), member.name.end());
      name.push_back(0);
      add(archive, name);
    }
    add(archive, tar_header(member.name, member.bytes.size(), member.type));
    add(archive, member.bytes);
  }
  if (ended) archive.resize(archive.size() + 1024);
  return archive;
}

}  // namespace asup::data::image
