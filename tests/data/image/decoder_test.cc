#include "asup/data/image/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/data/image/formats.h"
#include "asup/data/random.h"
#include "tests/data/image/pictures.h"

namespace asup::data::image {
namespace {

using ::testing::HasSubstr;

std::string why_broken(const Bytes& file) {
  try {
    decode(file);
  } catch (const BrokenImage& error) {
    return error.what();
  }
  ADD_FAILURE() << "it was decoded";
  return "";
}

// The largest difference of a byte.
int difference(const Picture& a, const Picture& b) {
  EXPECT_EQ(a.width, b.width);
  EXPECT_EQ(a.height, b.height);
  int most = 0;
  for (std::size_t i = 0; i < std::min(a.rgb.size(), b.rgb.size()); ++i)
    most = std::max(most, std::abs(int{a.rgb[i]} - int{b.rgb[i]}));
  return most;
}

Picture part(const Picture& picture, const Window& window) {
  Picture cut{window.right - window.left, window.bottom - window.top, {}};
  for (int y = window.top; y < window.bottom; ++y)
    for (int x = window.left; x < window.right; ++x)
      for (int c = 0; c < 3; ++c) cut.rgb.push_back(picture.at(x, y, c));
  return cut;
}

TEST(Jpeg, IsDecodedToWhatItShows) {
  const Picture picture = smooth(131, 77, 1);
  for (const int subsampling : {1, 2})
    for (const bool progressive : {false, true})
      EXPECT_LE(
          difference(
              decode(jpeg(picture,
                          {.quality = 98, .subsampling = subsampling, .progressive = progressive})),
              picture),
          12);
}

TEST(Jpeg, AWindowHasThePixelsOfTheWhole) {
  Random random(5);
  for (const int subsampling : {1, 2})
    for (const bool progressive : {false, true}) {
      const Bytes file =
          jpeg(noise(157, 118, 3), {.subsampling = subsampling, .progressive = progressive});
      for (const int denominator : {1, 2, 4, 8}) {
        const Picture whole = decode(file, denominator);
        for (int i = 0; i < 100; ++i) {
          const auto draw = [&](int size) {
            const int a = static_cast<int>(random.below(static_cast<std::uint64_t>(size)));
            const int b = static_cast<int>(random.below(static_cast<std::uint64_t>(size)));
            return std::pair(std::min(a, b), std::max(a, b) + 1);
          };
          const auto [left, right] = draw(whole.width);
          const auto [top, bottom] = draw(whole.height);
          const Window window{left, top, right, bottom};
          ASSERT_EQ(difference(decode(file, denominator, window), part(whole, window)), 0)
              << "1/" << denominator << " of " << left << " " << top << " " << right << " "
              << bottom << " subsampling " << subsampling << " progressive " << progressive;
        }
      }
    }
}

TEST(Jpeg, OfGreyAndOfPrintersInksIsRgb) {
  const Picture grey = decode(jpeg(plain(20, 10, 90, 0, 0), {.grey = true}));
  EXPECT_LE(difference(grey, plain(20, 10, 90, 90, 90)), 1);
  const Picture inks = decode(jpeg(plain(20, 10, 200, 100, 50), {.quality = 100, .cmyk = true}));
  EXPECT_LE(difference(inks, plain(20, 10, 200, 100, 50)), 2);
}

TEST(Jpeg, ThatIsCutShortIsBrokenWhereverItIsCut) {
  const Bytes whole = jpeg(noise(64, 64, 1));
  for (const std::size_t size : {whole.size() - 1, whole.size() - 20, whole.size() / 2,
                                 std::size_t{700}, std::size_t{100}, std::size_t{4}}) {
    const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THAT(why_broken(cut), HasSubstr("broken JPEG")) << size;
  }
}

TEST(Jpeg, ThatIsCutShortIsBrokenThoughTheWindowIsWhole) {
  Bytes file = jpeg(noise(64, 64, 1));
  file.resize(file.size() - 200);
  EXPECT_THROW(decode(file, 1, {0, 0, 64, 8}), BrokenImage);
}

TEST(Jpeg, CanBeDecodedAfterABrokenOne) {
  Decoders decoders;
  const Bytes whole = jpeg(noise(64, 64, 1));
  Bytes cut = whole;
  cut.resize(whole.size() / 2);
  for (int i = 0; i < 3; ++i) {
    decoders.of(cut).open(cut);
    PictureSink all({0, 0, 64, 64});
    EXPECT_THROW(decoders.of(cut).decode(1, {0, 0, 64, 64}, all), BrokenImage);
    decoders.of(whole).open(whole);
    PictureSink sink({0, 0, 64, 64});
    decoders.of(whole).decode(1, {0, 0, 64, 64}, sink);
    EXPECT_EQ(sink.picture().rgb, decode(whole).rgb);
  }
}

TEST(Jpeg, OfABillionPixelsIsNotRead) {
  Bytes file = jpeg(plain(16, 16, 1, 2, 3));
  for (std::size_t i = 0; i + 9 < file.size(); ++i)  // the frame header: FF C0, length, precision
    if (file[i] == 0xFF && file[i + 1] == 0xC0) {
      file[i + 5] = file[i + 7] = 0xEA;  // 0xEA60 = 60000
      file[i + 6] = file[i + 8] = 0x60;
      break;
    }
  EXPECT_THAT(why_broken(file), HasSubstr("60000 x 60000 pixels"));
}

TEST(Jpeg, OfHundredsOfScansIsNotRead) {
  EXPECT_THAT(why_broken(jpeg(noise(16, 16, 1), {.scan_a_coefficient = true})),
              HasSubstr("more than 200 scans"));
}

TEST(Png, OfEveryKindIsRgb) {
  const Picture picture = noise(33, 21, 4);
  for (const bool interlaced : {false, true}) {
    for (const PngKind kind : {PngKind::rgb, PngKind::rgba, PngKind::rgb16})
      EXPECT_EQ(decode(png(picture, kind, interlaced)).rgb, picture.rgb) << static_cast<int>(kind);
    const Picture grey = decode(png(picture, PngKind::grey, interlaced));
    const Picture colours = decode(png(picture, PngKind::palette, interlaced));
    for (int c = 0; c < 3; ++c) EXPECT_EQ(grey.at(5, 7, c), picture.at(5, 7, 0));
    EXPECT_EQ(colours.at(5, 7, 0), picture.at(5, 7, 0));
    EXPECT_EQ(colours.at(5, 7, 1), 255 - picture.at(5, 7, 0));
    EXPECT_EQ(colours.at(5, 7, 2), 7);
    const Window window{4, 6, 30, 9};
    EXPECT_EQ(decode(png(picture, PngKind::rgb, interlaced), 1, window).rgb,
              part(picture, window).rgb);
  }
}

TEST(Png, ThatIsCutShortOrDamagedIsBroken) {
  const Bytes whole = png(noise(33, 21, 4));
  for (const std::size_t size :
       {whole.size() - 1, whole.size() / 2, std::size_t{30}, std::size_t{8}}) {
    const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THAT(why_broken(cut), HasSubstr("broken PNG")) << size;
  }
  Bytes damaged = whole;
  damaged[whole.size() / 2] ^= 0xFF;
  EXPECT_THAT(why_broken(damaged), HasSubstr("broken PNG"));
}

TEST(Decoders, SayWhatIsNoImage) {
  EXPECT_EQ(why_broken({}), "is empty");
  EXPECT_EQ(why_broken({'G', 'I', 'F', '8', '9', 'a'}), "is neither a JPEG nor a PNG");
}

TEST(Decoders, SayWhatAsupWasBuiltWithout) {
  Decoders no_jpeg(nullptr, make_png_decoder()), no_png(make_jpeg_decoder(), nullptr);
  const Bytes photo = jpeg(plain(16, 16, 1, 2, 3)), drawing = png(plain(16, 16, 1, 2, 3));
  EXPECT_THAT(message_of([&] { no_jpeg.of(photo); }), HasSubstr("install libjpeg-dev"));
  EXPECT_THAT(message_of([&] { no_jpeg.check_reads("a.JPEG"); }), HasSubstr("install libjpeg-dev"));
  EXPECT_THAT(message_of([&] { no_png.of(drawing); }), HasSubstr("install libpng-dev"));
  EXPECT_THAT(message_of([&] { no_png.check_reads("a.png"); }), HasSubstr("install libpng-dev"));
  EXPECT_NO_THROW(no_jpeg.of(drawing));
  EXPECT_NO_THROW(no_jpeg.check_reads("a.jpg.png"));
  EXPECT_NO_THROW(no_png.check_reads("a.jpg"));
}

TEST(Decoders, TellImagesByTheirNames) {
  for (const char* name : {"a.jpg", "a.JPEG", "b.c.Png"}) EXPECT_TRUE(has_image_name(name)) << name;
  for (const char* name : {"a", ".jpg", "a.jpg.txt", "a.gif", "jpg"})
    EXPECT_FALSE(has_image_name(name)) << name;
}

}  // namespace
}  // namespace asup::data::image
