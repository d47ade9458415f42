// Folders in MNIST format: Fashion-MNIST, MNIST, KMNIST and their like.
//
// train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte,
// each plain or with .gz. An idx file is two zero bytes, the type (8: unsigned byte), the number of
// dimensions, each dimension as a big-endian 32-bit number, then the bytes
// (http://yann.lecun.com/exdb/mnist).
#pragma once

#include <filesystem>

#include "asup/data/dataset.h"
#include "asup/data/images.h"

namespace asup::data {

bool is_mnist_folder(const std::filesystem::path& folder);

// Throws BadInput with the file's path for a file that is missing, cut short or wrong, and for a
// label of `classes` or more.
Images read_mnist(const std::filesystem::path& folder, Split split, int classes);

}  // namespace asup::data
