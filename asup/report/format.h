// Numbers as people read them, and text in lines that a terminal has room for. Pure; safe from any
// thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace asup::report {

std::string grouped(std::int64_t number);       // "60,000"
std::string percent(double share, int digits);  // "4.1 %"
std::string loss_text(double loss);             // "0.1234"; "5.04e+19" of one that ran away
std::string clock_time(double seconds);         // "1:05", "2:03:04"
std::string byte_size(std::uint64_t bytes);     // "12.3 MB", in powers of ten

// "1 worker", "2 workers".
std::string counted(std::int64_t number, std::string_view noun);

// Columns on a terminal: escape sequences take none, any other character takes one.
int visible_width(std::string_view text);

// The text in lines of at most `width` columns, broken between words; those after the first stand
// behind `indent` blanks more. A word that is longer than a line stays whole.
std::string wrapped(std::string_view text, int width, int indent = 0);

// Cells with two blanks between them, each at the right of a column of its width. Those at the end
// that do not fit into `room` columns are left out.
std::string table_row(std::span<const std::string> cells, std::span<const int> widths, int room);

}  // namespace asup::report
