// In the place of png.cc where there is no libpng.
#include "asup/data/image/decoder.h"

namespace asup::data::image {

std::unique_ptr<Decoder> make_png_decoder() { return nullptr; }

}  // namespace asup::data::image
