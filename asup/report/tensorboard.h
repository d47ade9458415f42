// A run's curves and pictures in TensorBoard, beside metrics.jsonl. Observer: called on the
// training thread of the rank that keeps the run folder.
#pragma once

#include <memory>
#include <string>

#include "asup/report/observer.h"

namespace asup::report {

// Writes an event file into `folder`, in which nothing of `first_step` or later counts that was
// told before. Throws Error with the path where it cannot be written.
std::unique_ptr<Observer> make_tensorboard_writer(const std::string& folder,
                                                  std::int64_t first_step);

}  // namespace asup::report
