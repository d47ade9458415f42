// Folders in CIFAR-10's binary format (https://www.cs.toronto.edu/~kriz/cifar.html):
// data_batch_1.bin to data_batch_5.bin and test_batch.bin, each a run of records of 1 label and 3 x
// 32 x 32 bytes.
#pragma once

#include <filesystem>

#include "asup/data/dataset.h"
#include "asup/data/images.h"

namespace asup::data {

// Looks in `folder` and in the folder cifar-10-batches-bin in it, where CIFAR-10's archive puts the
// files; empty where neither holds any.
std::filesystem::path find_cifar10(const std::filesystem::path& folder);

// Throws BadInput with the file's path for a file that is missing, cut short or wrong.
Images read_cifar10(const std::filesystem::path& folder, Split split);

}  // namespace asup::data
