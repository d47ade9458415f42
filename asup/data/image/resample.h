// Cuts, resizes, shifts, mirrors and normalises an image in one pass over its rows, as they are
// decoded: separable linear interpolation which, where it makes an image smaller, averages over all
// the pixels that an output pixel covers (antialiasing, as Pillow's BILINEAR does).
//
// Keeps its memory from image to image. Used from one thread.
#pragma once

#include <array>
#include <vector>

#include "asup/data/image/decoder.h"

namespace asup::data::image {

// How the pixels of one axis of the output lie on the source: pixel o has its centre at
// origin + (o + 0.5) * step, in pixels of the source, and takes none from outside [low, high).
struct Axis {
  double origin = 0, step = 1;
  int low = 0, high = 0;
  int count = 0;  // of the output's pixels

  // The same on an image of 1/denominator the size, which has `size` pixels.
  Axis reduced_by(int denominator, int size) const;
};

// The output moved by so many pixels, then mirrored. What comes in from outside repeats the edge,
// or is black.
struct Placement {
  int down = 0, right = 0;
  bool mirror = false;
  bool black = false;
};

// What becomes of a byte, by channel: byte * gain + offset.
struct Levels {
  std::array<float, 3> gain{1, 1, 1}, offset{};
};

class Resampler final : public RowSink {
 public:
  // `out`: 3 planes of down.count x across.count.
  void begin(const Axis& across, const Axis& down, const Placement& placement, const Levels& levels,
             float* out);

  // What is needed of the source: its rows are to come, and pixels of these columns.
  Window window() const;

  void row(int y, const std::uint8_t* pixels) override;

 private:
  // The source's pixels that each output pixel takes, `taps` from `first` on, and their weights.
  // Those that an output pixel does not need have weight 0.
  struct Taps {
    std::vector<int> first;
    std::vector<float> weights;
    int taps = 0;
    int begin = 0, end = 0;  // of the pixels taken by any

    // `places`: of the output, rounded up; those beyond repeat the last. `source_of`: which pixel
    // of the output, before it is moved, is shown at a place; -1: none.
    template <typename SourceOf>
    void set(const Axis& axis, std::size_t places, const SourceOf& source_of);

   private:
    static int take(const Axis& axis, int pixel, std::vector<double>& triangle);
    void put(std::size_t place, int from, const std::vector<double>& triangle);
    std::vector<double> triangle_;  // of one place
  };

  template <int kTaps>
  void resample_across(const std::uint8_t* pixels, float* planes);
  template <int kTaps>
  void write_row(std::size_t y);

  Taps across_, down_;
  Levels levels_;
  float* out_ = nullptr;
  std::size_t width_ = 0, height_ = 0;  // of the output
  std::size_t pitch_ = 0;               // the width, rounded up to whole vectors
  std::size_t next_ = 0;                // row of the output to be written
  std::vector<float> line_;             // a row of the source
  // The last rows of the source, resampled across: 3 planes each. Row y is in place y % down_.taps.
  std::vector<float> rows_;
};

}  // namespace asup::data::image
