// asup server: what `asup run --servers` starts beside the ranks. Not for people.
#include "asup/base/error.h"
#include "asup/cli/command.h"
#include "asup/cli/serve.h"

namespace asup::cli {
namespace {

int run_server() {
  const net::JoinOptions identity = net::identity_from(net::process_environment());
  require(identity.is_server(),
          "asup server is started by asup run --servers N, which tells it which server it is");
  return serve(identity);
}

}  // namespace

Command add_server_command(CLI::App& app) {
  CLI::App* server = app.add_subcommand("server", "Be a server of a job, for `asup run --servers`");
  server->group("");  // not in the list of commands
  return {server, run_server};
}

}  // namespace asup::cli
