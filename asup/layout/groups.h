// Which tensors of a model are gathered together where each rank keeps a part of them: a pure
// function of names and sizes, so that ranks that agree on these agree on the groups. Values only.
#pragma once

#include "asup/layout/layout.h"

namespace asup::layout {

// By tensor its group, numbered from 0. Tensors of one module (names are equal up to the last dot)
// stay together; modules that follow each other share a group up to so many bytes.
std::vector<std::size_t> group_by_module(std::span<const TensorShape> tensors,
                                         std::uint64_t most_bytes);

}  // namespace asup::layout
