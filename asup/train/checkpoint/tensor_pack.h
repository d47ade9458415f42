// Tensors as bytes, bit for bit. Used from one thread at a time for one module.
//
// A pack is 8 bytes with the length of an index (little-endian), the index (JSON: name, type, shape
// of each tensor) and the tensors' elements, row by row, one tensor after the other.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "asup/sync/model/tensors.h"

namespace asup::train {

std::string pack_tensors(std::span<const sync::NamedTensor> tensors);

// Copies the pack's elements into the tensors, which must be those that were packed, by name, type
// and shape; throws BadInput that names the first that is not. Nothing has changed then.
void unpack_tensors(std::string_view pack, std::span<const sync::NamedTensor> tensors);
// The same with those alone that the pack has, by name, type and shape; others stay as they are.
void unpack_known(std::string_view pack, std::span<const sync::NamedTensor> tensors);

// The mean of packs of tensors that are like these, as a pack.
std::string mean_of_packs(std::span<const std::string> packs,
                          std::span<const sync::NamedTensor> like);

// SHA-256 over all parameters and buffers, with names, types and shapes, in the order of names.
std::string weights_sha256(const torch::nn::Module& module);

}  // namespace asup::train
