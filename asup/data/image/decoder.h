// Reads the pixels of an image file: all of it, or a window at a fraction of its size.
//
// A decoder keeps its memory from image to image, so that reading one allocates next to nothing. It
// is used from one thread; others have decoders of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "asup/base/error.h"

namespace asup::data::image {

// The file is no image, is cut short or damaged, or is too large to be a photograph.
class BrokenImage : public Error {
 public:
  using Error::Error;
};

struct Size {
  int width = 0, height = 0;
  bool operator==(const Size&) const = default;
};

// Pixels [left, right) of rows [top, bottom).
struct Window {
  int left = 0, top = 0, right = 0, bottom = 0;
};

// Takes the rows of a window, from top to bottom.
class RowSink {
 public:
  virtual ~RowSink() = default;
  // Four bytes a pixel: red, green, blue, and one that means nothing.
  virtual void row(int y, const std::uint8_t* pixels) = 0;
};

class Decoder {
 public:
  virtual ~Decoder() = default;

  // Reads what the file says of itself; it must stay where it is until decode() is done. Throws
  // BrokenImage, as decode() does.
  virtual Size open(std::span<const std::uint8_t> file) = 0;

  // Whether it can decode to 1/2, 1/4 and 1/8 of the size, which takes less time.
  virtual bool can_reduce() const = 0;

  // The window of the opened image at 1/`denominator` of its size, rounded up. needs: a window that
  // lies within it and is not empty.
  virtual void decode(int denominator, const Window& window, RowSink& sink) = 0;
};

// Nothing where asup was built without the library.
std::unique_ptr<Decoder> make_jpeg_decoder();
std::unique_ptr<Decoder> make_png_decoder();

// Larger images are taken for attacks, or for mistakes. (ImageNet's largest has 30 million.)
constexpr std::int64_t kMostPixels = 100'000'000;

// Throws BrokenImage for what is larger, or empty.
void check_size(Size size);

constexpr int reduced(int size, int denominator) { return (size + denominator - 1) / denominator; }

}  // namespace asup::data::image
