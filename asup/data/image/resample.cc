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

// Loops over as many taps as images usually need are unrolled: calls action by a constant, or by 0
// for more, which are then counted at run time.
template <typename Action>
void with_taps(int taps, const Action& action) {
  switch (taps) {
    case 1:
      return action(std::integral_constant<int, 1>());
    case 2:
      return action(std::integral_constant<int, 2>());
    case 3:
      return action(std::integral_constant<int, 3>());
    case 4:
      return action(std::integral_constant<int, 4>());
    case 5:
      return action(std::integral_constant<int, 5>());
    default:
      return action(std::integral_constant<int, 0>());
  }
}

// Red, green and blue of four pixels, side by side.
struct Planes4 {
  Float4 red, green, blue;
};

Planes4 transpose(Float4 a, Float4 b, Float4 c, Float4 d) {
  const Float4 ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);  // red and green of both
  const Float4 cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  return {__builtin_shufflevector(ab, cd, 0, 1, 4, 5), __builtin_shufflevector(ab, cd, 2, 3, 6, 7),
          __builtin_shufflevector(__builtin_shufflevector(a, b, 2, 6, 2, 6),
                                  __builtin_shufflevector(c, d, 2, 6, 2, 6), 0, 1, 4, 5)};
}

}  // namespace

Axis Axis::reduced_by(int denominator, int size) const {
  return {origin / denominator, step / denominator, low / denominator,
          std::min(size, reduced(high, denominator)), count};
}

// The weights of a triangle about the pixel's centre, without those that are 0; returns the first.
int Resampler::Taps::take(const Axis& axis, int pixel, std::vector<double>& triangle) {
  const double support = std::max(axis.step, 1.0);
  const double centre = axis.origin + (pixel + 0.5) * axis.step;
  const int from =
      std::clamp(static_cast<int>(std::floor(centre - support + 0.5)), axis.low, axis.high - 1);
  const int to =
      std::clamp(static_cast<int>(std::floor(centre + support + 0.5)), from + 1, axis.high);
  triangle.clear();
  int first = from;
  double sum = 0;
  for (int x = from; x < to; ++x) {
    const double weight = std::max(0.0, 1 - std::abs((x + 0.5 - centre) / support));
    if (weight == 0 && triangle.empty() && x + 1 < to) {
      ++first;
      continue;
    }
    triangle.push_back(weight);
    sum += weight;
  }
  while (triangle.size() > 1 && triangle.back() == 0) triangle.pop_back();
  for (double& weight : triangle) weight = sum > 0 ? weight / sum : 1;
  return first;
}

void Resampler::Taps::put(std::size_t place, int from, const std::vector<double>& triangle) {
  const int moved = std::min(from, end - taps);
  float* const own = weights.data() + place * index(taps);
  std::fill(own, own + taps, 0.0f);
  for (std::size_t k = 0; k < triangle.size(); ++k)
    own[index(from - moved) + k] = static_cast<float>(triangle[k]);
  first[place] = moved;
}

// Twice over all places: how many taps there are at most is known after the first time.
template <typename SourceOf>
void Resampler::Taps::set(const Axis& axis, std::size_t places, const SourceOf& source_of) {
  begin = axis.high;
  end = axis.low;
  taps = 1;
  const auto pixel_at = [&](std::size_t place) {
    return source_of(std::min(static_cast<int>(place), axis.count - 1));
  };
  for (std::size_t place = 0; place < places; ++place) {
    const int pixel = pixel_at(place);
    if (pixel < 0) continue;
    const int from = take(axis, pixel, triangle_);
    const int count = static_cast<int>(triangle_.size());
    begin = std::min(begin, from);
    end = std::max(end, from + count);
    taps = std::max(taps, count);
  }
  first.resize(places);
  weights.resize(places * index(taps));
  for (std::size_t place = 0; place < places; ++place) {
    const int pixel = pixel_at(place);
    triangle_.clear();
    put(place, pixel < 0 ? begin : take(axis, pixel, triangle_), triangle_);
  }
}

void Resampler::begin(const Axis& across, const Axis& down, const Placement& placement,
                      const Levels& levels, float* out) {
  const auto moved = [&](int place, int by, int size) {
    const int from = place - by;
    if (placement.black && (from < 0 || from >= size)) return -1;
    return std::clamp(from, 0, size - 1);
  };
  width_ = index(across.count);
  height_ = index(down.count);
  pitch_ = (width_ + 3) / 4 * 4;
  across_.set(across, pitch_, [&](int x) {
    const int from = moved(x, placement.right, across.count);
    return placement.mirror && from >= 0 ? across.count - 1 - from : from;
  });
  down_.set(down, height_, [&](int y) { return moved(y, placement.down, down.count); });
  levels_ = levels;
  out_ = out;
  next_ = 0;
  line_.resize(index(across_.end - across_.begin) * 4);
  rows_.resize(index(down_.taps) * 3 * pitch_);
}

Window Resampler::window() const { return {across_.begin, down_.begin, across_.end, down_.end}; }

void Resampler::row(int y, const std::uint8_t* pixels) {
  float* const planes = rows_.data() + index(y % down_.taps) * 3 * pitch_;
  with_taps(across_.taps, [&](auto taps) { resample_across<taps>(pixels, planes); });
  for (; next_ < height_ && down_.first[next_] + down_.taps <= y + 1; ++next_)
    with_taps(down_.taps, [&](auto taps) { write_row<taps>(next_); });
}

template <int kTaps>
void Resampler::resample_across(const std::uint8_t* pixels, float* planes) {
  float* const line = line_.data();
  const std::size_t size = line_.size();
  for (std::size_t i = 0; i < size; ++i) line[i] = static_cast<float>(pixels[i]);
  const int taps = kTaps > 0 ? kTaps : across_.taps;
  const int begin = across_.begin;
  const int* const first = across_.first.data();
  const float* weights = across_.weights.data();
  const auto pixel = [&](std::size_t x) {
    const float* at = line + index(first[x] - begin) * 4;
    Float4 sum = all(weights[0]) * load(at);
    for (int k = 1; k < taps; ++k) sum += all(weights[k]) * load(at + 4 * k);
    weights += taps;
    return sum;
  };
  for (std::size_t x = 0; x < pitch_; x += 4) {
    const Float4 a = pixel(x), b = pixel(x + 1), c = pixel(x + 2), d = pixel(x + 3);
    const Planes4 four = transpose(a, b, c, d);
    store(planes + x, four.red);
    store(planes + pitch_ + x, four.green);
    store(planes + 2 * pitch_ + x, four.blue);
  }
}

template <int kTaps>
void Resampler::write_row(std::size_t y) {
  const int taps = kTaps > 0 ? kTaps : down_.taps;
  const float* const weights = down_.weights.data() + y * index(down_.taps);
  const auto source = [&](int k, std::size_t channel) {
    return rows_.data() + (index((down_.first[y] + k) % down_.taps) * 3 + channel) * pitch_;
  };
  for (std::size_t c = 0; c < 3; ++c) {
    const Float4 gain = all(levels_.gain[c]), offset = all(levels_.offset[c]);
    std::array<const float*, kTaps == 0 ? 1 : kTaps> known;
    for (int k = 0; k < kTaps; ++k) known[index(k)] = source(k, c);
    const auto value = [&](std::size_t x) {
      Float4 sum{};
      for (int k = 0; k < taps; ++k)
        sum += all(weights[k]) * load((kTaps > 0 ? known[index(k)] : source(k, c)) + x);
      return sum * gain + offset;
    };
    float* const out = out_ + (c * height_ + y) * width_;
    std::size_t x = 0;
    for (; x + 4 <= width_; x += 4) store(out + x, value(x));
    if (x == width_) continue;
    const Float4 last = value(x);
    for (std::size_t i = 0; x + i < width_; ++i) out[x + i] = last[i];
  }
}

}  // namespace asup::data::image
