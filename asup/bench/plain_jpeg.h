// JPEG by libjpeg-turbo alone, without anything of asup: what a loader of images is measured
// against. Used from one thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace asup::bench {

// Whether asup was built with libjpeg-turbo; without it, what follows throws BadInput.
bool has_plain_jpeg();

// The whole image at 1/`denominator` of its size, 3 bytes a pixel, into `pixels`, which is used
// again and again. Throws data::image::BrokenImage for what libjpeg-turbo does not make RGB of.
void decode_plain(std::span<const std::uint8_t> file, int denominator,
                  std::vector<std::uint8_t>& pixels);

// A file of it, with colours at half the resolution (4:2:0). `rgb`: 3 bytes a pixel.
std::vector<std::uint8_t> encode_plain(std::span<const std::uint8_t> rgb, int width, int height,
                                       int quality);

}  // namespace asup::bench
