// Sizes in bytes as they are written on the command line and in tables: 512, 4K, 25M, 1G, with K, M
// and G for powers of 1024. Values only; safe from any thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace asup::bench {

// "1K,4M,100M". Throws BadInput.
std::vector<std::size_t> parse_sizes(const std::string& text);

// In the largest unit that it is a whole number of.
std::string size_word(std::size_t bytes);

}  // namespace asup::bench
