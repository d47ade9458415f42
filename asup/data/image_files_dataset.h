// Image files as a Dataset: read and decoded as they are asked for, by several threads, and never
// held in memory. Safe from any thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "asup/data/dataset.h"
#include "asup/data/image/files.h"

namespace asup::data {

// Where image files lie, and in which layout (image/files.h).
struct ImageFilesPlace {
  std::string folder;
  bool shards = false;  // or a folder a class
};

// Of a name like imagefolder:DIR or shards:DIR, or a folder that has such a layout.
std::optional<ImageFilesPlace> find_image_files(const std::string& name_or_path);

// The files themselves. Throws BadInput for what is wrong with the folder.
std::unique_ptr<image::Files> open_files(const ImageFilesPlace& place, Split split);

// Images become squares of options.image_size; without it they must be of one size, which the
// headers of some of them say. To test, as torchvision does: the shorter side is resized to 256/224
// of it, and the middle cut out. A file that is broken is named once and counted, and the next one
// takes its place. Throws BadInput for what is wrong with the folder; a call to get() does where a
// thousand files in a row, or all, are broken.
std::unique_ptr<Dataset> open_image_files(const ImageFilesPlace& place, Split split,
                                          const DatasetOptions& options);

}  // namespace asup::data
