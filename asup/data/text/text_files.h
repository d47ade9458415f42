// Texts on disk: which files a path stands for, and what of them is for training. Safe from any
// thread.
#pragma once

#include <filesystem>
#include <string>

#include "asup/data/dataset.h"

namespace asup::data {

// A file, or all .txt files in and under a folder, in the order of their paths. The last
// `test_share` of it is for the test; or test.txt or valid.txt is, in a folder that has one of them
// beside train.txt. A file that does not end with a line break gets one.
//
// Throws BadInput where there is no text there, it cannot be read, or it is not UTF-8: then with
// the file and the place of the first bad byte.
std::string read_text(const std::filesystem::path& path, Split split, double test_share);

}  // namespace asup::data
