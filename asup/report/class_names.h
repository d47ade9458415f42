// What the classes of well-known data sets are called. Pure; safe from any thread.
#pragma once

#include <string>
#include <vector>

namespace asup::report {

// "0", "1", … where nothing better is known.
std::vector<std::string> class_names(const std::string& dataset, int classes);

}  // namespace asup::report
