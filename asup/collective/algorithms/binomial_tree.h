// Who is whose child in a binomial tree of n places: the parent of a place is the place without its
// lowest set bit. Pure functions; safe from any thread.
#pragma once

#include <algorithm>
#include <bit>
#include <vector>

#include "asup/collective/plan/build.h"

namespace asup::collective {

inline int parent_of(int place) { return place & (place - 1); }  // needs: place > 0

// The place and its descendants are [place, place + this).
inline int descent_of(int place, int places) {
  return place == 0 ? places : std::min(place & -place, places - place);
}

// The one with the fewest descendants first: it is the first to have its sum.
inline std::vector<int> children_of(int place, int places) {
  std::vector<int> children;
  const int end = place + descent_of(place, places);
  for (int distance = 1; place + distance < end; distance *= 2) {
    children.push_back(place + distance);
  }
  return children;
}

}  // namespace asup::collective
