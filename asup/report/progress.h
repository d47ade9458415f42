// Shows a run to the person who started it: a live display on a terminal, plain lines elsewhere.
// Observers: called on rank 0's training thread.
#pragma once

#include <memory>
#include <string>

#include "asup/report/observer.h"
#include "asup/report/terminal.h"

namespace asup::report {

// `mode`: auto, plain or none, as `--progress` has it.
std::unique_ptr<Observer> make_progress(const std::string& mode, const Terminal& terminal);

// A bar, the epoch's numbers so far, and a row for each epoch that is done and each test. Hides the
// cursor while it lives.
std::unique_ptr<Observer> make_live_progress(const Terminal& terminal);

// A line every few seconds, for every test and at the end.
std::unique_ptr<Observer> make_plain_progress(const Terminal& terminal);

// "2 workers × 1 thread, batch 128, …": what a run is, in lines for people.
std::string headline(const RunFacts& facts);
std::string describe_work(const RunFacts& facts);
std::string describe_size(const RunFacts& facts);
std::string describe_move(const RunFacts& facts);  // "" where no earlier run had to make room

// A run is judged by the accuracy of a classifier, or the perplexity of a language model, and its
// speed is in samples or in tokens: the names of both, and how they are written.
std::string test_figure_name(const RunFacts& facts, bool validation = false);  // "test accuracy"
std::string_view set_name(bool validation);                                    // "test"
std::string test_figure(const EvalRecord& test, int digits);                   // "91.2 %"
std::string_view speed_unit(const RunFacts& facts);                            // "samples/s"
double speed(const RunFacts& facts, double samples_per_s);                     // in that unit

// The lines that end a run: accuracy, time, speed, communication, and where the report is.
std::string result_block(const Summary& summary, const Terminal& terminal);

}  // namespace asup::report
