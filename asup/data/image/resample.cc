#include "asup/data/image/resample.h"

#include <algorithm>
#include <cmath>

namespace asup::data::image {
namespace {

// Four floats at once, on every processor. Each is computed by itself, so that all processors agree
// on the bits.
using Float4 = float __attribute__((vector_size(16), aligned(4), may_alias));

Float4 load(const float* at) { return *reinterpret_cast<const Float4*>(at); }
void store(float* at, Float4 value) { *reinterpret_cast<Float4*>(at) = value; }
Float4 all(float value) { return Float4{value, value, value, value}; }

std::size_t index(int value) { return static_cast<std::size_t>(value); }

}  // namespace

Axis Axis::reduced_by(int denominator, int size) const {
  return {origin / denominator, step / denominator, low / denominator,
          std::min(size, reduced(high, denominator)), count};
}

// `source_of`: which pixel of the output, before it is moved, is shown at a place; -1: none.
template <typename SourceOf>
void Resampler::Taps::set(const Axis& axis, const SourceOf& source_of) {
  const double support = std::max(axis.step, 1.0);
  const auto places = static_cast<std::size_t>(axis.count);
  stride = static_cast<std::size_t>(2 * std::ceil(support) + 1);
  first.resize(places);
  count.resize(places);
  weights.resize(places * stride);
  begin = axis.high;
  end = axis.low;
  for (std::size_t place = 0; place < places; ++place) {
    const int pixel = source_of(static_cast<int>(place));
    first[place] = axis.low;
    count[place] = 0;
    if (pixel < 0) continue;
    const double centre = axis.origin + (pixel + 0.5) * axis.step;
    int from = std::max(axis.low, static_cast<int>(std::floor(centre - support + 0.5)));
    int to = std::min(axis.high, static_cast<int>(std::floor(centre + support + 0.5)));
    from = std::min(from, axis.high - 1);
    to = std::max(to, from + 1);
    const auto weight_of = [&](int x) {
      return std::max(0.0, 1 - std::abs((x + 0.5 - centre) / support));
    };
    while (to - from > 1 && weight_of(from) == 0) ++from;
    while (to - from > 1 && weight_of(to - 1) == 0) --to;
    double sum = 0;
    for (int x = from; x < to; ++x) sum += weight_of(x);
    float* const weight = weights.data() + place * stride;
    for (int x = from; x < to; ++x)
      weight[x - from] = sum > 0 ? static_cast<float>(weight_of(x) / sum) : 1.0f;
    first[place] = from;
    count[place] = to - from;
    begin = std::min(begin, from);
    end = std::max(end, to);
  }
}

void Resampler::begin(const Axis& across, const Axis& down, const Placement& placement,
                      const Levels& levels, float* out) {
  const auto moved = [&](int place, int by, int size) {
    const int from = place - by;
    if (placement.black && (from < 0 || from >= size)) return -1;
    return std::clamp(from, 0, size - 1);
  };
  across_.set(across, [&](int x) {
    const int from = moved(x, placement.right, across.count);
    return placement.mirror && from >= 0 ? across.count - 1 - from : from;
  });
  down_.set(down, [&](int y) { return moved(y, placement.down, down.count); });
  levels_ = levels;
  out_ = out;
  width_ = index(across.count);
  height_ = index(down.count);
  next_ = 0;
  line_.resize(index(across_.end - across_.begin) * 4);
  capacity_ = down_.stride;
  rows_.resize(capacity_ * 3 * width_);
}

Window Resampler::window() const { return {across_.begin, down_.begin, across_.end, down_.end}; }

void Resampler::row(int y, const std::uint8_t* pixels) {
  resample_across(pixels, rows_.data() + index(y) % capacity_ * 3 * width_);
  for (; next_ < height_ && down_.last(next_) <= y; ++next_) write_row(next_);
}

void Resampler::resample_across(const std::uint8_t* pixels, float* planes) {
  float* const line = line_.data();
  for (std::size_t i = 0; i < line_.size(); ++i) line[i] = static_cast<float>(pixels[i]);
  for (std::size_t x = 0; x < width_; ++x) {
    const float* at = line + index(across_.first[x] - across_.begin) * 4;
    const float* weight = across_.weights.data() + x * across_.stride;
    Float4 sum{};
    for (int k = across_.count[x]; k > 0; --k, at += 4) sum += all(*weight++) * load(at);
    planes[x] = sum[0];
    planes[width_ + x] = sum[1];
    planes[2 * width_ + x] = sum[2];
  }
}

void Resampler::write_row(std::size_t y) {
  const float* weights = down_.weights.data() + y * down_.stride;
  const int first = down_.first[y], count = down_.count[y];
  for (std::size_t c = 0; c < 3; ++c) {
    float* const out = out_ + (c * height_ + y) * width_;
    const float gain = levels_.gain[c], offset = levels_.offset[c];
    const auto source = [&](int k) {
      return rows_.data() + (index(first + k) % capacity_ * 3 + c) * width_;
    };
    std::size_t x = 0;
    for (; x + 4 <= width_; x += 4) {
      Float4 sum{};
      for (int k = 0; k < count; ++k) sum += all(weights[k]) * load(source(k) + x);
      store(out + x, sum * all(gain) + all(offset));
    }
    for (; x < width_; ++x) {
      float sum = 0;
      for (int k = 0; k < count; ++k) sum += weights[k] * source(k)[x];
      out[x] = sum * gain + offset;
    }
  }
}

}  // namespace asup::data::image
