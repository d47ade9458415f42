// The decoders of a thread, and which of them a file is for. Used from one thread.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "asup/data/image/decoder.h"

namespace asup::data::image {

// Whether a file is taken for an image by what follows a dot of its name: jpg, jpeg or png, in any
// case.
bool is_image_ending(std::string_view ending);
// The same by its whole name, without folders; hidden files are none.
bool has_image_name(std::string_view file);

class Decoders {
 public:
  Decoders();
  // Nothing stands for a library that asup was built without.
  Decoders(std::unique_ptr<Decoder> jpeg, std::unique_ptr<Decoder> png);

  // By the file's first bytes, whatever its name. Throws BrokenImage for a format that is not
  // known, and BadInput for one that asup was built without.
  Decoder& of(std::span<const std::uint8_t> file);

  // By a file's name, before it is read. Throws BadInput as of() does.
  void check_reads(std::string_view file) const;

 private:
  Decoder& jpeg() const;
  Decoder& png() const;

  const std::unique_ptr<Decoder> jpeg_, png_;
};

}  // namespace asup::data::image
