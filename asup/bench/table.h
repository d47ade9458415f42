// Tables of benchmarks, on the standard output. On a terminal that is too narrow, columns have the
// least room that they need, and the least dear are left out; elsewhere they are as they are
// declared. Used from one thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace asup::bench {

class Table {
 public:
  struct Column {
    std::string head;
    int width;  // below 0: texts stand at the left
    int least;
    int leaves = 0;  // where there is no room: those with more before those with less; 0: never
  };
  Table(std::vector<Column> columns, int room);

  std::string head() const;
  std::string row(const std::vector<std::string>& cells) const;  // one for each column

 private:
  int width() const;

  std::vector<Column> columns_;
  std::vector<std::size_t> shown_;  // ascending
};

// Of the standard output, as Terminal::room().
int room_here();
// A paragraph, in lines that there is room for.
void print_text(std::string_view text);

}  // namespace asup::bench
