// The figures of `asup bench large-batch`: a row for each way and size of a batch, over all seeds.
// A file keeps the rows of any number of jobs, so that a benchmark goes on where another was broken
// off. Values, and a file; used from one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "asup/bench/spread.h"

namespace asup::bench {

struct BatchRow {
  std::string job;  // the flags that it is of
  std::string way;
  int batch = 0;  // of one that grows: the largest
  double lr = 0;  // of this batch
  bool tuned = false;
  std::int64_t updates = 0;                        // 0: no run came to its end
  std::map<int, std::optional<double>> by_seed{};  // test accuracy in the end; none: diverged

  std::size_t diverged() const;
  std::optional<Spread> accuracy()
      const;  // in percent; none where a run diverged, or none is there
  // Points beside `other`, over the seeds that both have.
  std::optional<Spread> minus(const BatchRow& other) const;
};

// Those that have runs, beside the same way's smallest batch; a batch that grows, beside nesterov's
// smallest.
struct BatchTable {
  std::vector<BatchRow> rows;
  int smallest = 0;  // batch

  const BatchRow* beside(const BatchRow& row) const;  // none: it is the smallest itself

  // Cells in words, for people: the same in the terminal and on the page.
  std::vector<std::string> heads() const;
  std::vector<std::string> cells(const BatchRow& row) const;
  // Lines of text. Where they need more columns than `room`, the least dear ones are left out.
  std::string head(int room) const;
  std::string line(const BatchRow& row, int room) const;
  std::string notes() const;
};

// The file of --json: one flat object a row, but for the seeds.
class BatchRowFile {
 public:
  // Reads it where it is there; "": nothing is kept. Throws BadInput for another file.
  explicit BatchRowFile(std::string file);

  const BatchRow* find(const std::string& job) const;
  void keep(const BatchRow& row);  // writes the file, with all that was in it

 private:
  const std::string file_;
  std::vector<BatchRow> rows_;
};

}  // namespace asup::bench
