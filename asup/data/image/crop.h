// Which part of a picture becomes the image of a sample. Pure; safe from any thread.
#pragma once

#include "asup/data/image/resample.h"
#include "asup/data/random.h"

namespace asup::data::image {

struct Crop {
  Axis across, down;
};

// The shorter side is resized to `resized` and the middle is cut out, as torchvision's Resize and
// CenterCrop do. What is missing where the output is larger repeats the edge.
Crop centre_crop(Size picture, int resized, Size output);

// Of images of so many pixels a side: what the shorter one is resized to before, 256/224 of it.
constexpr int resized_side(int output) { return (output * 256 + 112) / 224; }

// The picture as it is. needs: picture == output.
Crop whole(Size picture);

// The same of each picture: whole() where it has the output's size already, else centre_crop().
Crop fixed_crop(Size picture, int resized, Size output);

// A part of between `least` and all of the picture's area, 3/4 to 4/3 as wide as high, at a random
// place, resized: torchvision's RandomResizedCrop; "Going deeper with convolutions", Szegedy et
// al., CVPR 2015, https://arxiv.org/abs/1409.4842, section 6. needs: 0 < least <= 1.
Crop random_crop(Size picture, double least, Size output, Random& random);

// Of a training sample: random_crop() where `least` is above 0, else fixed_crop().
Crop sample_crop(Size picture, double least, int resized, Size output, Random& random);

}  // namespace asup::data::image
