// In the place of jpeg.cc where there is no libjpeg-turbo.
#include "asup/data/image/decoder.h"

namespace asup::data::image {

std::unique_ptr<Decoder> make_jpeg_decoder() { return nullptr; }

}  // namespace asup::data::image
