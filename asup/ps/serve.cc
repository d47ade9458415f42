#include "asup/ps/serve.h"

#include "asup/base/error.h"

namespace asup::ps {

Team team_of(Job& job) {
  // Workers may have made any number of communicators before; those count from 1.
  constexpr std::uint64_t kLast = (std::uint64_t{1} << 24) - 1;
  return {job.mesh(), job.roster().generation << 24 | kLast, job.size(), job.servers()};
}

void serve(Job& job, const ServerOptions& options) {
  check(job.is_server(), "{} is to serve, and is no server",
        net::name_member(job.member(), std::nullopt));
  Server(team_of(job), options).run();
}

}  // namespace asup::ps
