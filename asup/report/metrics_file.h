// metrics.jsonl: an object a line, flushed as it comes. Used from one thread, on rank 0.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "asup/report/observer.h"

namespace asup::report {

// Writes rows to the end of the file, which is locked meanwhile. Throws Error with the path when
// one cannot be written.
std::unique_ptr<Observer> make_metrics_writer(const std::string& path);

// Whether somebody holds a writer for the file, on any host where the file system has locks.
bool is_being_written(const std::string& path);

// The rows of a file; a last line that a crash cut short is left out. Throws BadInput with file and
// line for one that is no JSON object. A file that does not exist has no rows.
std::vector<nlohmann::ordered_json> read_metrics(const std::string& path);

// Makes `to` hold the rows of `from` up to `step`: what a run resumed from that step goes on from.
void keep_metrics(const std::string& from, const std::string& to, std::int64_t step);

}  // namespace asup::report
