// Where the first worker that fails leaves its reason for the launcher, which ends with it. Ranks
// of one host only: what happens on others is told by their output. Used from one thread.
#pragma once

#include <string>

namespace asup::cli {

class FailureNote {
 public:
  FailureNote();   // makes a place for it
  ~FailureNote();  // removes it
  FailureNote(const FailureNote&) = delete;
  FailureNote& operator=(const FailureNote&) = delete;

  // "NAME=value", for the workers' environment.
  std::string variable() const;
  // The reason, or "" where none was left.
  std::string read() const;

  // In a worker: leaves the reason unless somebody else did before; false where there is no place.
  static bool leave(const std::string& reason);

 private:
  std::string folder_;
};

}  // namespace asup::cli
