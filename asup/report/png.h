// Small pictures as text for a web page. Pure; safe from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace asup::report {

// "data:image/png;base64,…" of an image with 1 (grey) or 3 (red, green, blue) bytes a pixel, row by
// row. needs: pixels.size() == width * height * channels.
std::string png_data_uri(std::span<const std::uint8_t> pixels, int width, int height, int channels);

}  // namespace asup::report
