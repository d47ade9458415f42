// An order of labelled samples in which every stretch has of each class about what all of them
// have: batches, and workers' parts of them, are as alike as can be without knowing how they are
// cut.
//
// Of the first t samples, the number of those of a class of n among N differs from t n / N by less
// than 1, so that of any stretch by less than 2; and where all classes are of one size, a run of as
// many samples as there are classes, from a multiple of it on, has each class once. That there is
// such an order for any sizes, and one finds it by taking the class whose next sample must come
// soonest among those whose next one may come, is R. Tijdeman, "The chairman assignment problem",
// Discrete Mathematics 32(3), 1980. Pure; safe from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace asup::data {

// Samples 0 … labels.size()-1, each once, by (seed, epoch): which sample of a class comes when, and
// which of several classes that could come next, is drawn at random. The same on every platform.
std::vector<std::int64_t> stratified_order(std::span<const std::int64_t> labels, std::uint64_t seed,
                                           std::uint64_t epoch);

}  // namespace asup::data
