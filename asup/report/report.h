// report.html: a run to look at, in one file that needs nothing from outside. Used from one thread.
#pragma once

#include <string>

#include "asup/report/records.h"

namespace asup::report {

// summary.json of a run folder. Throws BadInput where the folder is no run, or has no end yet.
Summary read_summary(const std::string& run_folder);

// Makes the report anew from summary.json, metrics.jsonl, evaluation.json and config.toml. Throws
// BadInput for files that cannot be used, Error where the report cannot be written.
void write_report(const std::string& run_folder);

// The page, with a placeholder where the run's figures go (report.html, beside this file).
extern const char* const kReportPage;

}  // namespace asup::report
