// A timeline as a picture: ranks side by side, ticks downwards, an arrow for each message in the
// color of its part of the whole. It follows the reader's light or dark scheme, needs no scripts,
// and tells each arrow's step to a pointer that rests on it. Pure; safe from any thread.
#pragma once

#include <string>

#include "asup/collective/drawing/timeline.h"

namespace asup::collective::drawing {

// `title` is plain text.
std::string svg_of(const Spec& spec, const Timeline& timeline, const std::string& title);

}  // namespace asup::collective::drawing
