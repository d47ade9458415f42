// PNG by libpng: any depth and colour type; transparency is left out, as if there were none.
#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <vector>

#include "asup/data/image/decoder.h"

namespace asup::data::image {
namespace {

class PngDecoder final : public Decoder {
 public:
  PngDecoder() = default;
  ~PngDecoder() override { close(); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  bool can_reduce() const override { return false; }

  Size open(std::span<const std::uint8_t> file) override {
    close();
    left_ = file;
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, leave, ignore);
    check(png_ != nullptr, "libpng has no memory");
    guarded([this] { read_header(); });
    check_size(size_);
    return size_;
  }

  void decode(int, const Window& window, RowSink& sink) override {
    const auto rows = passes_ > 1 ? static_cast<std::size_t>(size_.height) : std::size_t{1};
    rows_.resize(rows * stride());
    guarded([&] { passes_ > 1 ? read_interlaced(window, sink) : read_rows(window, sink); });
  }

 private:
  [[noreturn]] static void leave(png_structp png, png_const_charp message) {
    auto* self = static_cast<PngDecoder*>(png_get_error_ptr(png));
    std::snprintf(self->message_.data(), self->message_.size(), "%s", message);
    std::longjmp(self->escape_, 1);
  }
  static void ignore(png_structp, png_const_charp) {}

  static void read(png_structp png, png_bytep out, std::size_t count) {
    auto* self = static_cast<PngDecoder*>(png_get_io_ptr(png));
    if (self->left_.size() < count) png_error(png, "it is cut short");
    std::memcpy(out, self->left_.data(), count);
    self->left_ = self->left_.subspan(count);
  }

  // libpng leaves by longjmp: nothing that has a destructor may be alive in `action`.
  template <typename Action>
  void guarded(const Action& action) {
    if (setjmp(escape_) != 0)
      throw BrokenImage(fmt::format("is a broken PNG: {}", message_.data()));
    action();
  }

  void read_header() {
    info_ = png_create_info_struct(png_);
    if (info_ == nullptr) png_error(png_, "no memory");
    png_set_read_fn(png_, this, read);
    png_set_user_limits(png_, 1'000'000, 1'000'000);
    png_read_info(png_, info_);
    size_ = {static_cast<int>(png_get_image_width(png_, info_)),
             static_cast<int>(png_get_image_height(png_, info_))};
    png_set_expand(png_);
    png_set_scale_16(png_);
    png_set_gray_to_rgb(png_);
    png_set_strip_alpha(png_);
    png_set_filler(png_, 0xFF, PNG_FILLER_AFTER);
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
  }

  std::size_t stride() const { return static_cast<std::size_t>(size_.width) * 4; }

  // The rows below the window are read too: the checksum of all comes at the end.
  void read_rows(const Window& window, RowSink& sink) {
    for (int y = 0; y < size_.height; ++y) {
      png_read_row(png_, rows_.data(), nullptr);
      if (y >= window.top && y < window.bottom)
        sink.row(y, rows_.data() + static_cast<std::size_t>(window.left) * 4);
    }
    png_read_end(png_, nullptr);
  }

  // Each pass over the image fills in some of its pixels.
  void read_interlaced(const Window& window, RowSink& sink) {
    for (int pass = 0; pass < passes_; ++pass)
      for (int y = 0; y < size_.height; ++y)
        png_read_row(png_, rows_.data() + static_cast<std::size_t>(y) * stride(), nullptr);
    png_read_end(png_, nullptr);
    for (int y = window.top; y < window.bottom; ++y)
      sink.row(y, rows_.data() + static_cast<std::size_t>(y) * stride() +
                      static_cast<std::size_t>(window.left) * 4);
  }

  void close() {
    if (png_ != nullptr) png_destroy_read_struct(&png_, &info_, nullptr);
    png_ = nullptr;
    info_ = nullptr;
  }

  std::jmp_buf escape_;
  std::array<char, 200> message_{};
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::span<const std::uint8_t> left_;  // of the file
  Size size_;
  int passes_ = 1;
  std::vector<std::uint8_t> rows_;
};

}  // namespace

std::unique_ptr<Decoder> make_png_decoder() { return std::make_unique<PngDecoder>(); }

}  // namespace asup::data::image
