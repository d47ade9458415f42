// The members of a job as they come together: who may join, who is missing, and the roster when all
// are there. Knows no sockets. Used from one thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "asup/base/clock.h"
#include "asup/net/membership/control.h"

namespace asup::net {

class Admission {
 public:
  explicit Admission(const Roles& roles) : roles_(roles) {}

  // Nothing: the member is in. Otherwise why it cannot be.
  std::optional<Refusal> admit(const Hello& hello);
  // Nothing where it speaks as we do.
  static std::optional<Refusal> refusal_of_version(const Hello& hello);

  bool begun() const { return !members_.empty(); }
  bool complete() const { return static_cast<int>(members_.size()) == roles_.members(); }
  bool has(int rank) const { return members_.contains(rank); }
  std::vector<int> missing() const;
  // "rank 1 and server 0 never joined within 60 s; ranks 0 and 2 did"
  std::string describe_missing(Seconds waited) const;

  // Generation 1, with the ids that members keep for life. Needs: complete().
  Roster roster() const;

 private:
  std::string why_not(const Hello& hello) const;

  const Roles roles_;
  std::map<int, Member> members_;  // by rank
};

}  // namespace asup::net
