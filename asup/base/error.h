// What can go wrong, as types.
//
// A bug (the caller's or ours) throws Error with the values in its message. Bad input from outside
// throws BadInput, which commands turn into exit status 2. What the world does to a running job (a
// peer dies, is late, calls something else) is no exception but an Outcome, which the caller reads
// and may turn into a JobFailed by or_throw(). Values only; safe from any thread.
#pragma once

#include <fmt/format.h>

#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace asup {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A flag, file, frame or environment variable that a person can mend.
class BadInput : public Error {
 public:
  using Error::Error;
};

// The job cannot go on: a peer was lost or late, or ranks disagreed.
class JobFailed : public Error {
 public:
  using Error::Error;
};

// Because a peer was lost or left: without it, the job may go on.
class PeerLost : public JobFailed {
 public:
  using JobFailed::JobFailed;
};

// How a wait ended. `ranks` names the ranks at fault, in the communicator that was waited on.
class [[nodiscard]] Outcome {
 public:
  enum class Kind {
    ok,
    lost,      // a peer's process died or its connection closed
    late,      // the deadline passed; `ranks` had not come
    mismatch,  // ranks called different things; the message prints both calls
    broken     // the communicator failed earlier and must be rebuilt
  };

  Outcome() = default;
  Outcome(Kind kind, std::string message, std::vector<int> ranks = {})
      : kind_(kind), message_(std::move(message)), ranks_(std::move(ranks)) {}

  bool ok() const { return kind_ == Kind::ok; }
  Kind kind() const { return kind_; }
  const std::string& message() const { return message_; }
  const std::vector<int>& ranks() const { return ranks_; }

  // `doing` opens the message: "averaging the gradients of step 3".
  void or_throw(const std::string& doing = "") const {
    if (ok()) return;
    const std::string what = doing.empty() ? message_ : doing + ": " + message_;
    if (kind_ == Kind::lost) throw PeerLost(what);
    throw JobFailed(what);
  }

 private:
  Kind kind_ = Kind::ok;
  std::string message_;
  std::vector<int> ranks_;
};

// What an exception says to people; std::bad_alloc only gives its name.
inline std::string reason_of(const std::exception& error) {
  const bool no_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  return no_memory ? "this process is out of memory" : error.what();
}

// Throws Error with a formatted message when `condition` does not hold.
template <typename... Args>
void check(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) [[unlikely]]
    throw Error(fmt::format(format, std::forward<Args>(args)...));
}

// Throws BadInput with a formatted message when `condition` does not hold.
template <typename... Args>
void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) [[unlikely]]
    throw BadInput(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace asup
