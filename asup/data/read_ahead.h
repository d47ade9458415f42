// Reads one batch on a thread of its own, while the training thread works on the one before: for
// workers that learn what they do next from step to step (prefetch.h where it is known).
//
// begin() and take() are called from one thread. The dataset must outlive it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "asup/data/dataset.h"

namespace asup::data {

class ReadAhead {
 public:
  explicit ReadAhead(const Dataset& dataset);
  ~ReadAhead();  // waits for the batch being read
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // Begins to read these samples. What was begun before, and not taken, is dropped.
  void begin(std::vector<std::int64_t> indices, std::uint64_t epoch);
  // What was begun, if it is these samples; else they are read now. What the dataset throws is
  // thrown here.
  Batch take(const std::vector<std::int64_t>& indices, std::uint64_t epoch);

 private:
  class Worker;
  const Dataset& dataset_;
  std::unique_ptr<Worker> worker_;
};

}  // namespace asup::data
