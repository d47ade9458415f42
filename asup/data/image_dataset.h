// Byte images in memory as a Dataset. Constant after construction.
#pragma once

#include <memory>
#include <string>

#include "asup/data/dataset.h"
#include "asup/data/images.h"

namespace asup::data {

std::unique_ptr<Dataset> make_image_dataset(std::string name, Images images,
                                            const Normalisation& normalisation);

}  // namespace asup::data
