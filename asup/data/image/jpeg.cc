// JPEG by libjpeg-turbo. A window is decoded alone: what is beside it is not transformed, and what
// is below it is not even read, unless the file does not end as a JPEG does.

// clang-format off
#include "asup/data/image/jpeg_errors.h"
#include <jerror.h>  // after jpeglib.h
// clang-format on

#include <vector>

#include "asup/data/image/decoder.h"

namespace asup::data::image {
namespace {

constexpr int kRowsAtOnce = 16;
constexpr int kMostScans = 200;  // of a progressive file; more take seconds and show nothing new
constexpr int kMargin = 2;       // pixels: chroma beside a window has a part in its outermost ones

// Where the picture itself is whole.
bool is_harmless(int warning) {
  return warning == JWRN_EXTRANEOUS_DATA || warning == JWRN_JFIF_MAJOR ||
         warning == JWRN_ADOBE_XFORM || warning == JWRN_TOO_MUCH_DATA;
}

// libjpeg goes on after a warning, and fills what is missing with grey.
void warn(j_common_ptr info, int level) {
  if (level < 0 && !is_harmless(info->err->msg_code)) JpegErrors::leave(info);
}

void watch_scans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
  auto* errors = static_cast<JpegErrors*>(info->err);
  std::snprintf(errors->message.data(), errors->message.size(), "more than %d scans", kMostScans);
  std::longjmp(errors->escape, 1);
}

bool ends_as_jpeg(std::span<const std::uint8_t> file) {
  return file.size() >= 2 && file[file.size() - 2] == 0xFF && file.back() == JPEG_EOI;
}

// Adobe writes them inverted, and everybody follows.
void cmyk_to_rgb(std::uint8_t* pixels, int count, bool inverted) {
  for (; count > 0; --count, pixels += 4) {
    const int black = inverted ? pixels[3] : 255 - pixels[3];
    for (int c = 0; c < 3; ++c) {
      const int ink = inverted ? pixels[c] : 255 - pixels[c];
      pixels[c] = static_cast<std::uint8_t>((ink * black + 127) / 255);
    }
  }
}

class JpegDecoder final : public Decoder {
 public:
  JpegDecoder() {
    info_.err = &errors_;
    errors_.emit_message = warn;
    guarded([this] { jpeg_create_decompress(&info_); });
    progress_.progress_monitor = watch_scans;
    info_.progress = &progress_;
  }
  ~JpegDecoder() override { jpeg_destroy_decompress(&info_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  bool can_reduce() const override { return true; }

  Size open(std::span<const std::uint8_t> file) override {
    file_ = file;
    jpeg_abort_decompress(&info_);  // the image before
    guarded([this] {
      jpeg_mem_src(&info_, file_.data(), static_cast<unsigned long>(file_.size()));
      jpeg_read_header(&info_, TRUE);
    });
    const Size size{static_cast<int>(info_.image_width), static_cast<int>(info_.image_height)};
    check_size(size);
    return size;
  }

  void decode(int denominator, const Window& window, RowSink& sink) override {
    const int width = reduced(static_cast<int>(info_.image_width), denominator);
    rows_.resize(static_cast<std::size_t>(kRowsAtOnce) * static_cast<std::size_t>(width) * 4);
    guarded([&] {
      start(denominator);
      const int skipped = cut(window);
      read_rows(window, skipped, sink);
      end();
    });
  }

 private:
  // libjpeg leaves by longjmp: nothing that has a destructor may be alive in `action`.
  template <typename Action>
  void guarded(const Action& action) {
    if (setjmp(errors_.escape) != 0) {
      jpeg_abort_decompress(&info_);
      throw BrokenImage(fmt::format("is a broken JPEG: {}", errors_.message.data()));
    }
    action();
  }

  void start(int denominator) {
    info_.scale_num = 1;
    info_.scale_denom = static_cast<unsigned>(denominator);
    info_.dct_method = JDCT_ISLOW;
    const auto space = info_.jpeg_color_space;
    is_cmyk_ = space == JCS_CMYK || space == JCS_YCCK;
    info_.out_color_space = is_cmyk_ ? JCS_CMYK : JCS_EXT_RGBX;
    jpeg_start_decompress(&info_);
  }

  // Leaves out what is beside and above the window. Returns the pixels before it that are there
  // nevertheless: libjpeg cuts between blocks.
  int cut(const Window& window) {
    auto left = static_cast<JDIMENSION>(std::max(0, window.left - kMargin));
    const auto right =
        std::min(info_.output_width, static_cast<JDIMENSION>(window.right + kMargin));
    JDIMENSION width = right - left;
    if (width < info_.output_width)
      jpeg_crop_scanline(&info_, &left, &width);
    else
      left = 0;
    if (window.top > 0) jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(window.top));
    return window.left - static_cast<int>(left);
  }

  void read_rows(const Window& window, int skipped, RowSink& sink) {
    const std::size_t stride = static_cast<std::size_t>(info_.output_width) * 4;
    std::array<JSAMPROW, kRowsAtOnce> rows;
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = rows_.data() + i * stride;
    for (int y = window.top; y < window.bottom;) {
      const int wanted = std::min(kRowsAtOnce, window.bottom - y);
      const auto got = static_cast<int>(
          jpeg_read_scanlines(&info_, rows.data(), static_cast<JDIMENSION>(wanted)));
      for (int i = 0; i < got; ++i, ++y) {
        std::uint8_t* const row = rows[static_cast<std::size_t>(i)];
        if (is_cmyk_)
          cmyk_to_rgb(row, static_cast<int>(info_.output_width), info_.saw_Adobe_marker != 0);
        sink.row(y, row + static_cast<std::size_t>(skipped) * 4);
      }
    }
  }

  // A file that ends as it should is whole, as far as one can tell without reading on.
  void end() {
    if (!ends_as_jpeg(file_)) {
      JSAMPROW row = rows_.data();  // skipping rows to the end would not read them
      while (info_.output_scanline < info_.output_height) jpeg_read_scanlines(&info_, &row, 1);
      jpeg_finish_decompress(&info_);
    }
    jpeg_abort_decompress(&info_);
  }

  JpegErrors errors_;
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct info_{};
  std::span<const std::uint8_t> file_;
  bool is_cmyk_ = false;
  std::vector<std::uint8_t> rows_;
};

}  // namespace

std::unique_ptr<Decoder> make_jpeg_decoder() { return std::make_unique<JpegDecoder>(); }

}  // namespace asup::data::image
