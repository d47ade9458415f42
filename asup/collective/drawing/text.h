// A timeline in lines of text: who sends what to whom, tick by tick. Pure; safe from any thread.
#pragma once

#include <string>

#include "asup/collective/drawing/timeline.h"

namespace asup::collective::drawing {

struct TextLimits {
  std::size_t lines_a_tick = 16;  // the rest is counted
  int ticks = 40;                 // of a lane, likewise
};

std::string text_of(const Spec& spec, const Timeline& timeline, const TextLimits& limits = {});

}  // namespace asup::collective::drawing
