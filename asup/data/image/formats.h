// The decoders of a thread, and which of them a file is for. Used from one thread.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "asup/data/image/decoder.h"

namespace asup::data::image {

// Whether a file is taken for an image by its name: .jpg, .jpeg or .png, in any case.
bool has_image_name(std::string_view file);

class Decoders {
 public:
  Decoders();

  // By the file's first bytes, whatever its name. Throws BrokenImage for a format that is not
  // known, or that asup was built without.
  Decoder& of(std::span<const std::uint8_t> file);

 private:
  std::unique_ptr<Decoder> jpeg_, png_;
};

}  // namespace asup::data::image
