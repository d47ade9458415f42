// Runs to look at, in one file that needs nothing from outside. Functions only; safe from any
// thread, for different files.
#pragma once

#include <span>
#include <string>

namespace asup::report {

// Makes a run's report.html anew from what the folder has, whether the run has ended or not. Throws
// BadInput for files that cannot be used, Error where the report cannot be written.
void write_report(const std::string& run_folder);

// The same for several runs, compared on one page. A file that is there must be such a page.
void write_comparison(std::span<const std::string> run_folders, const std::string& file);

// A page that asks its server for the run (live/live_page.h), and what it then is told.
std::string live_page();
std::string run_as_json(const std::string& run_folder);

// The page, with a placeholder where the runs' figures go (made of the files in page/).
extern const char* const kReportPage;

}  // namespace asup::report
