// Where workers and servers that fail leave their reasons for the launcher, which ends with the one
// that counts. Those of one host only: what happens on others is told by their output. Used from
// one thread.
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
  // The first reason, or that of one process; "" where none was left.
  std::string read() const;
  std::string read_of(int pid) const;

  // In a worker or a server: leaves its reason; false where there is no place.
  static bool leave(const std::string& reason);

 private:
  std::string read_file(const std::string& name) const;

  std::string folder_;
};

}  // namespace asup::cli
