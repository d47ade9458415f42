// Small pictures as files, and as text for a web page. Pure; safe from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace asup::report {

struct Picture {
  std::string png;  // the bytes of a file
  int width = 0, height = 0;
  int channels = 0;
};

// An image with 1 (grey) or 3 (red, green, blue) bytes a pixel, row by row.
// needs: pixels.size() == width * height * channels.
Picture make_picture(std::span<const std::uint8_t> pixels, int width, int height, int channels);

// "data:image/png;base64,…"
std::string data_uri(const Picture& picture);

}  // namespace asup::report
