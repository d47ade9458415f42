#include "asup/data/image/resample.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "asup/data/image/crop.h"
#include "tests/data/image/pictures.h"

namespace asup::data::image {
namespace {

torch::Tensor resample(const Picture& picture, const Crop& crop, const Placement& placement = {},
                       const Levels& levels = {}) {
  const torch::Tensor out = torch::full({3, crop.down.count, crop.across.count}, -1.0f);
  Resampler resampler;
  resampler.begin(crop.across, crop.down, placement, levels, out.data_ptr<float>());
  const Window window = resampler.window();
  for (int y = window.top; y < window.bottom; ++y) {
    Bytes row;
    for (int x = window.left; x < window.right; ++x)
      for (int c = 0; c < 4; ++c) row.push_back(c < 3 ? picture.at(x, y, c) : 99);
    resampler.row(y, row.data());
  }
  return out;
}

// By torch, which antialiases as Pillow does.
torch::Tensor by_torch(const torch::Tensor& image, int height, int width) {
  return torch::_upsample_bilinear2d_aa(image.unsqueeze(0), {height, width}, false)[0];
}

TEST(Resampler, LeavesAnImageOfTheSameSizeAsItIs) {
  const Picture picture = noise(13, 9, 1);
  EXPECT_TRUE(resample(picture, whole({13, 9})).equal(tensor_of(picture)));
}

TEST(Resampler, HalvesByHand) {
  // Weights 1 3 3 1 over eighths; at the edge 3 3 1 over sevenths.
  Picture picture = plain(4, 1, 0, 0, 0);
  for (int x = 0; x < 4; ++x)
    picture.rgb[static_cast<std::size_t>(3 * x)] =
        static_cast<std::uint8_t>(10 * (x + 1) * (x + 1));
  const torch::Tensor out = resample(picture, {{0, 2, 0, 4, 2}, {0, 1, 0, 1, 1}});
  EXPECT_FLOAT_EQ(out[0][0][0].item<float>(), (3 * 10 + 3 * 40 + 90) / 7.0f);
  EXPECT_FLOAT_EQ(out[0][0][1].item<float>(), (40 + 3 * 90 + 3 * 160) / 7.0f);
}

TEST(Resampler, DoublesByHand) {
  Picture picture = plain(2, 1, 0, 0, 0);
  picture.rgb[3] = 100;
  const torch::Tensor out = resample(picture, {{0, 0.5, 0, 2, 4}, {0, 1, 0, 1, 1}});
  EXPECT_TRUE(out[0][0].allclose(torch::tensor({0.f, 25.f, 75.f, 100.f})));
}

TEST(Resampler, ResizesAsTorchDoes) {
  const Picture picture = noise(61, 47, 2);
  const torch::Tensor image = tensor_of(picture);
  for (const auto& [width, height] : {std::pair(20, 30), std::pair(61, 20), std::pair(90, 100),
                                      std::pair(7, 5), std::pair(1, 1)}) {
    const Crop crop{{0, 61.0 / width, 0, 61, width}, {0, 47.0 / height, 0, 47, height}};
    EXPECT_TRUE(resample(picture, crop).allclose(by_torch(image, height, width), 1e-4, 1e-2))
        << width << " x " << height;
  }
}

TEST(Resampler, CutsBeforeItResizes) {
  const Picture picture = noise(61, 47, 2);
  const torch::Tensor cut = tensor_of(picture).narrow(1, 5, 30).narrow(2, 11, 40);
  const Crop crop{{11, 40.0 / 16, 11, 51, 16}, {5, 30.0 / 16, 5, 35, 16}};
  EXPECT_TRUE(resample(picture, crop).allclose(by_torch(cut, 16, 16), 1e-4, 1e-2));
}

TEST(Resampler, NormalisesEachChannel) {
  const torch::Tensor out = resample(plain(3, 2, 10, 20, 30), whole({3, 2}), {},
                                     {{0.5f, 2.0f, 1.0f}, {1.0f, 0.0f, -30.0f}});
  EXPECT_TRUE(out[0].eq(6).all().item<bool>());
  EXPECT_TRUE(out[1].eq(40).all().item<bool>());
  EXPECT_TRUE(out[2].eq(0).all().item<bool>());
}

TEST(Resampler, ShiftsAndMirrors) {
  const Picture picture = noise(11, 8, 6);
  const torch::Tensor image = tensor_of(picture);
  const auto pick = [](std::int64_t size, std::int64_t by) {
    return (torch::arange(size) - by).clamp(0, size - 1);
  };
  for (int down = -3; down <= 3; ++down)
    for (int right = -3; right <= 3; ++right)
      for (const bool mirror : {false, true}) {
        const torch::Tensor expected = (mirror ? image.flip(2) : image)
                                           .index_select(1, pick(8, down))
                                           .index_select(2, pick(11, right));
        ASSERT_TRUE(
            resample(picture, whole({11, 8}), {down, right, mirror, false}).equal(expected));
      }
}

TEST(Resampler, FillsInBlack) {
  const Picture picture = plain(5, 4, 200, 200, 200);
  const torch::Tensor out =
      resample(picture, whole({5, 4}), {1, -2, true, true}, {{1, 1, 1}, {-7, -7, -7}});
  EXPECT_TRUE(out.narrow(1, 0, 1).eq(-7).all().item<bool>());  // a row came in above
  EXPECT_TRUE(out.narrow(2, 3, 2).eq(-7).all().item<bool>());  // two columns at the right
  EXPECT_TRUE(out.narrow(1, 1, 3).narrow(2, 0, 3).eq(193).all().item<bool>());
}

}  // namespace
}  // namespace asup::data::image
