// What some of many image files say of all: their size, and the levels of their colours. Pure but
// for reading files; safe from any thread.
#pragma once

#include "asup/data/image/files.h"
#include "asup/data/image/workspace.h"
#include "asup/data/images.h"
#include "asup/data/parallel_for.h"

namespace asup::data::image {

// Of the files in `folder`, which are of one size. Throws BadInput where they are not, or where
// none of those looked at can be read.
Size find_size(const Files& files, const std::string& folder);

struct Measured {
  Normalisation normalisation;
  std::size_t samples = 0;
};

// Of images as models get them: cropped by `crop_of`. The same whatever the number of threads.
// Throws BadInput where none of them can be read.
Measured measure_levels(const Files& files, const std::string& folder, Size output,
                        const std::function<Crop(Size)>& crop_of, Workspaces& workspaces,
                        ParallelFor& parallel_for);

}  // namespace asup::data::image
