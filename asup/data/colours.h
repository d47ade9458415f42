// Random changes of a picture's colours, as torchvision's ColorJitter makes them. Pure; safe from
// any thread.
#pragma once

#include <array>
#include <cstdint>

#include "asup/data/dataset.h"
#include "asup/data/random.h"

namespace asup::data {

struct ColourChange {
  enum Step : std::uint8_t { brightness, contrast, saturation, hue };
  std::array<Step, 4> order{brightness, contrast, saturation, hue};
  std::array<float, 4> amount{1, 1, 1, 0};  // by Step; these change nothing
};

// Factors within 1 ± so much, none below 0.
ColourChange draw_colours(const JitterOptions& options, Random& random);

// `image`: planes of values 0 … 1; with one plane, saturation and hue mean nothing. Values stay
// within 0 … 1.
void change_colours(const ColourChange& change, float* image, std::size_t planes,
                    std::size_t plane_size);

}  // namespace asup::data
