// Who takes part: the first members of a mesh, which are its workers. Values only.
#pragma once

#include <cstdint>
#include <vector>

#include "asup/net/job.h"
#include "asup/net/mesh.h"

namespace asup::pairwise {

struct Circle {
  net::Mesh& mesh;
  std::uint64_t id = 0;  // of their mail, the same on all: from Job::next_communicator_id()
  int workers = 1;

  std::vector<int> members() const {
    std::vector<int> all;
    for (int member = 0; member < workers; ++member) all.push_back(member);
    return all;
  }
};

// All workers of a job. Every one calls it as often as the others: the first calls belong together,
// the second ones, and so on. Its id is counted as those of communicators are, since servers, which
// count with the workers whatever is theirs too, take no part.
inline Circle circle_of(Job& job) { return {job.mesh(), job.next_communicator_id(), job.size()}; }

// The turn for a moment. Unlike callers that wait, its owner leaves the links to the loop's thread,
// which would otherwise stay away from them for a while.
class Moment {
 public:
  explicit Moment(net::Loop& loop) : turn_(loop) {
    loop.post([] {});
  }

 private:
  const net::Loop::Turn turn_;
};

}  // namespace asup::pairwise
