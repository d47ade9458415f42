#include "asup/data/image/survey.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "asup/base/error.h"

namespace asup::data::image {
namespace {

constexpr std::size_t kHeaders = 64, kPictures = 500;

// Evenly over all of them.
std::vector<std::size_t> spread(std::size_t size, std::size_t most) {
  const std::size_t count = std::min(size, most);
  std::vector<std::size_t> indices(count);
  for (std::size_t i = 0; i < count; ++i) indices[i] = i * size / count;
  return indices;
}

// Sums over the pixels of a picture, by channel; `count` is 0 where it could not be read.
struct Sums {
  std::array<double, 3> values{}, squares{};
  double count = 0;
};

Sums sums_of(const std::vector<float>& image) {
  Sums sums;
  const std::size_t plane = image.size() / 3;
  sums.count = static_cast<double>(plane);
  for (std::size_t i = 0; i < image.size(); ++i) {
    const auto value = static_cast<double>(image[i]);
    sums.values[i / plane] += value;
    sums.squares[i / plane] += value * value;
  }
  return sums;
}

Sums look_at(const Files& files, std::size_t index, Size output,
             const std::function<Crop(Size)>& crop_of, Workspaces& workspaces) try {
  const auto space = workspaces.take();
  files.read(index, space->bytes);
  const Size picture = space->open();
  std::vector<float> image(3 * static_cast<std::size_t>(output.width * output.height));
  constexpr float kGain = 1.0f / 255;
  space->render(picture, crop_of(picture), {}, {{kGain, kGain, kGain}, {}}, image.data());
  return sums_of(image);
} catch (const BrokenImage&) {
  return {};  // said when it is trained on
}

}  // namespace

Size find_size(const Files& files, const std::string& folder) {
  Workspace space;
  std::optional<Size> found;
  std::string first, trouble;
  for (const std::size_t index : spread(files.size(), kHeaders)) try {
      files.read(index, space.bytes);
      const Size size = space.open();
      if (!found) first = files.name(index);
      require(!found || *found == size,
              "the images in {} are of different sizes: {} has {} x {} pixels, {} has {} x {}. Say "
              "what size they are to get: --image-size 224",
              folder, first, found->width, found->height, files.name(index), size.width,
              size.height);
      found = size;
    } catch (const BrokenImage& broken) {
      if (trouble.empty()) trouble = fmt::format("{} {}", files.name(index), broken.what());
    }
  require(found.has_value(), "none of the images in {} that were looked at can be read: {}", folder,
          trouble);
  return *found;
}

Measured measure_levels(const Files& files, const std::string& folder, Size output,
                        const std::function<Crop(Size)>& crop_of, Workspaces& workspaces,
                        ParallelFor& parallel_for) {
  const auto indices = spread(files.size(), kPictures);
  std::vector<Sums> sums(indices.size());
  parallel_for(indices.size(), [&](std::size_t i) {
    sums[i] = look_at(files, indices[i], output, crop_of, workspaces);
  });
  Sums total;
  Measured measured;
  for (const Sums& each : sums) {
    total.count += each.count;
    measured.samples += each.count > 0 ? 1 : 0;
    for (std::size_t c = 0; c < 3; ++c) {
      total.values[c] += each.values[c];
      total.squares[c] += each.squares[c];
    }
  }
  require(measured.samples > 0, "none of {} images in {} that were looked at can be decoded",
          indices.size(), folder);
  for (std::size_t c = 0; c < 3; ++c) {
    const double mean = total.values[c] / total.count;
    const double variance = std::max(total.squares[c] / total.count - mean * mean, 0.0);
    measured.normalisation.mean.push_back(mean);
    measured.normalisation.deviation.push_back(std::max(std::sqrt(variance), 1e-3));
  }
  return measured;
}

}  // namespace asup::data::image
