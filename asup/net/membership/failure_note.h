// Why a process of a job failed, in its own words, for the launcher that tells the user.
//
// `asup run` gives each rank a memory file (ASUP_NOTE_FD). A rank that fails leaves a note there,
// and the launcher reads it when the rank has ended: nothing on a disk, and it works on other
// hosts, whose agents read it. Under torchrun the text goes into torchrun's own error file too.
// Functions and values; safe from any thread, but for tell_of_uncaught_exceptions().
#pragma once

#include <exception>
#include <optional>
#include <string>

#include "asup/base/fd.h"

namespace asup::net {

struct FailureNote {
  enum class Kind {
    bad_input,  // what a person can mend; exit status 2
    own,        // any other error of this process
    others,     // it cannot go on because of others, whom the text names
  };
  Kind kind = Kind::own;
  std::string text;

  int exit_status() const { return kind == Kind::bad_input ? 2 : 1; }
  bool operator==(const FailureNote&) const = default;
};

// Without the backtrace that torch adds to its messages.
FailureNote note_of(const std::exception& error);

// The launcher's side. Close-on-exec: cleared in the child alone.
Fd make_note_fd();
std::optional<FailureNote> read_note(int fd);

// The first note of a rank stays. False where no launcher listens.
bool leave_note(const FailureNote& note);

// From now on an exception that nobody catches is printed on standard error after `who` ("rank 1"),
// is left as a note, and ends the process with 2 for BadInput and else 1, in place of SIGABRT. A
// terminate handler that the program has set before is called instead of ending it. Process-wide;
// call again with another `who`.
void tell_of_uncaught_exceptions(const std::string& who);

}  // namespace asup::net
