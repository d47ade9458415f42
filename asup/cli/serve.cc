#include "asup/cli/serve.h"

#include <csignal>

#include "asup/base/log.h"
#include "asup/net/job.h"
#include "asup/ps/serve.h"

namespace asup::cli {

int serve(const net::JoinOptions& identity) {
  set_up_log(net::name_member(identity.rank, identity.roles().server(identity.rank)));
  // Workers that are asked to end need the servers until they have: those end with the last worker.
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) std::signal(number, SIG_IGN);
  Job job = Job::join(identity);
  ps::serve(job);
  return 0;
}

}  // namespace asup::cli
