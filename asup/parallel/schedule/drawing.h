// A priced schedule for people: a row for each rank, time to the right, as in the papers' figures.
// Pure; safe from any thread.
#pragma once

#include <string>

#include "asup/parallel/schedule/cost.h"

namespace asup::parallel {

// In lines of text, at most 110 columns wide: F3, B3, I3, W3 are the forward, backward, and the
// backward of input and weights of micro-batch 3, followed by a letter for the chunk where a rank
// has several; blanks are the bubble. Long ones are cut short, and say so.
std::string text_of(const PipelineSpec& spec, const Price& price);

// As a picture in SVG; a pointer that rests on an action is told what it is, and when. `title` is
// plain text.
std::string svg_of(const PipelineSpec& spec, const Price& price, const std::string& title);

}  // namespace asup::parallel
