#include "asup/net/membership/join_options.h"

#include <cstdlib>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/net/membership/address.h"
#include "asup/net/membership/key_exchange.h"
#include "asup/net/membership/variables.h"

namespace asup::net {
namespace {

constexpr long kMostRanks = 1'000'000;
constexpr const char* kAnyLoopbackPort = "127.0.0.1:0";

int read_number(const Variables& variables, const char* name, long least) {
  return static_cast<int>(variables.number(name, least, kMostRanks));
}

int read_servers(const Variables& variables) {
  return variables.has("ASUP_SERVERS") ? read_number(variables, "ASUP_SERVERS", 0) : 0;
}

// The one of `count` that `number` says.
int read_one_of(const Variables& variables, const char* number, const char* count, int least) {
  const int all = read_number(variables, count, least);
  const int one = read_number(variables, number, 0);
  require(one < all, "{}={} but {}={}: {}", number, one, count, all,
          all == 0 ? std::string("there are no servers in this job")
                   : fmt::format("ranks are counted from 0 to {}", all - 1));
  return one;
}

// As launchers count that know nothing of servers.
void read_place(const Variables& variables, const char* rank, const char* size,
                JoinOptions& options) {
  options.rank = read_one_of(variables, rank, size, 1);
  options.size = read_number(variables, size, 1);
  options.servers = read_servers(variables);
  require(options.servers < options.size,
          "ASUP_SERVERS={} but {}={}: the last processes become the servers, and at least one must "
          "be left to train; start more processes or ask for fewer servers",
          options.servers, size, options.size);
}

void read_place_by_role(const Variables& variables, JoinOptions& options) {
  const std::string role = variables.text_or("ASUP_ROLE", "worker");
  require(role == "worker" || role == "server", "ASUP_ROLE='{}': worker or server is needed", role);
  const int workers = read_number(variables, "ASUP_SIZE", 1);
  options.servers = read_servers(variables);
  options.size = workers + options.servers;
  options.rank = role == "worker"
                     ? read_one_of(variables, "ASUP_RANK", "ASUP_SIZE", 1)
                     : workers + read_one_of(variables, "ASUP_SERVER_RANK", "ASUP_SERVERS", 0);
}

LinkKind link_kind(const std::string& text) {
  if (text == "auto") return LinkKind::automatic;
  if (text == "shm") return LinkKind::shm;
  if (text == "mpi") return LinkKind::mpi;
  require(text == "tcp", "ASUP_LINKS='{}': auto, shm, tcp or mpi is needed", text);
  return LinkKind::tcp;
}

// What all launchers have in common.
JoinOptions from_any(const Variables& variables, const char* launcher) {
  JoinOptions options;
  options.launcher = launcher;
  options.interface = variables.text_or("ASUP_INTERFACE", "");
  options.links = link_kind(variables.text_or("ASUP_LINKS", "auto"));
  options.tls = tls_mode_of(variables.text_or("ASUP_TLS", "auto"), "ASUP_TLS");
  options.join_timeout = variables.seconds_or("ASUP_JOIN_TIMEOUT", options.join_timeout);
  options.call_timeout = variables.seconds_or("ASUP_CALL_TIMEOUT", options.call_timeout);
  return options;
}

// What all launchers but our own leave open: the key, and where the coordinator is. `job` tells
// this job from others of the same user on this host; `derived` is the coordinator's address that
// follows from the launcher's variables.
void settle(const Variables& variables, const std::string& job, const std::string& derived,
            JoinOptions& options) {
  if (options.size == 1 || options.links == LinkKind::mpi) return;
  options.host_coordinator = options.rank == 0;
  options.coordinator = variables.text_or("ASUP_COORDINATOR", derived);
  parse_endpoint(options.coordinator, "ASUP_COORDINATOR");  // says now what is wrong with it
  const bool has_key = variables.has("ASUP_KEY_FILE");
  require(has_key || options.one_host,
          "{} started this job on several hosts, so it needs a key that they share. Make one where "
          "all of them can read it, (umask 077; head -c 32 /dev/urandom > job.key), and set "
          "ASUP_KEY_FILE to its path on every rank",
          options.launcher);
  if (has_key)
    options.key = read_key_file(variables.text("ASUP_KEY_FILE"));
  else if (options.host_coordinator)
    options.key = random_key();
  if (!has_key || options.coordinator == kAnyLoopbackPort)
    options.key_socket = key_socket_name(options.launcher + " " + job);
}

JoinOptions from_asup_run(const Variables& variables) {
  JoinOptions options = from_any(variables, "asup run");
  options.joins = variables.has("ASUP_JOIN");
  if (!options.joins) read_place_by_role(variables, options);
  options.goes_on_after_loss = variables.text_or("ASUP_ON_LOSS", "end") == "continue";
  options.coordinator = variables.text("ASUP_COORDINATOR");
  parse_endpoint(options.coordinator, "ASUP_COORDINATOR");
  options.key = read_key_fd(static_cast<int>(variables.number("ASUP_KEY_FD", 0, 1 << 20)));
  return options;
}

bool is_loopback_name(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

JoinOptions from_torchrun(const Variables& variables) {
  JoinOptions options = from_any(variables, "torchrun");
  read_place(variables, "RANK", "WORLD_SIZE", options);
  if (options.size == 1) return options;
  require(variables.has("MASTER_ADDR") && variables.has("MASTER_PORT"),
          "RANK and WORLD_SIZE are set, as torchrun does, but not MASTER_ADDR and MASTER_PORT: set "
          "them to rank 0's host and a free port there");
  const std::string host = variables.text("MASTER_ADDR");
  const long port = variables.number("MASTER_PORT", 1, 65534);
  options.one_host = is_loopback_name(host) ||
                     (variables.has("LOCAL_WORLD_SIZE") &&
                      variables.number("LOCAL_WORLD_SIZE", 1, kMostRanks) == options.size);
  const std::string job =
      fmt::format("{} {} {}", port, variables.text_or("TORCHELASTIC_RUN_ID", ""),
                  variables.text_or("TORCHELASTIC_RESTART_COUNT", "0"));
  // torchrun's own store listens on MASTER_PORT.
  const Endpoint derived{host, static_cast<std::uint16_t>(port + 1)};
  settle(variables, job, options.one_host ? kAnyLoopbackPort : derived.to_string(), options);
  return options;
}

JoinOptions from_open_mpi(const Variables& variables) {
  JoinOptions options = from_any(variables, "Open MPI");
  read_place(variables, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", options);
  if (options.size == 1) return options;
  options.one_host = variables.has("OMPI_COMM_WORLD_LOCAL_SIZE") &&
                     variables.number("OMPI_COMM_WORLD_LOCAL_SIZE", 1, kMostRanks) == options.size;
  require(options.one_host || options.links == LinkKind::mpi || variables.has("ASUP_COORDINATOR"),
          "Open MPI does not tell where rank 0 of this job on several hosts is: set "
          "ASUP_COORDINATOR=host:port to rank 0's host and a free port there, and pass it on with "
          "mpirun -x ASUP_COORDINATOR; or link the ranks over MPI by ASUP_LINKS=mpi");
  const char* job = variables.first_of({"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"});
  require(variables.has(job), "{} is not set, though Open MPI sets it: start with mpirun", job);
  settle(variables, variables.text(job), kAnyLoopbackPort, options);
  return options;
}

// Below the ports that the kernel gives out by itself (32768 and up), apart from job to job.
long slurm_port(long job, long step) { return 20'000 + (job * 13 + step) % 12'000; }

JoinOptions from_slurm(const Variables& variables) {
  JoinOptions options = from_any(variables, "Slurm");
  const char* size = variables.first_of({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"});
  read_place(variables, "SLURM_PROCID", size, options);
  if (options.size == 1) return options;
  if (!variables.has("SLURM_STEP_ID") && !variables.has("SLURM_STEPID"))
    log().warn("this is not a Slurm step: if it waits for other ranks in vain, start with srun");
  const long job = variables.number("SLURM_JOB_ID", 0, 1L << 40);
  const char* step_name = variables.first_of({"SLURM_STEP_ID", "SLURM_STEPID"});
  const long step = variables.has(step_name) ? variables.number(step_name, 0, 1L << 40) : 0;
  const char* hosts =
      variables.first_of({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  const char* count =
      variables.first_of({"SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES", "SLURM_NNODES"});
  options.one_host = variables.has(count) && variables.number(count, 1, kMostRanks) == 1;
  const std::string derived =
      options.one_host
          ? kAnyLoopbackPort
          : fmt::format("{}:{}", first_slurm_host(variables.text(hosts)), slurm_port(job, step));
  settle(variables, fmt::format("{} {}", job, step), derived, options);
  return options;
}

// Half of a launcher's variables is a mistake, not a job of one.
void refuse_halves(const Variables& variables) {
  for (const auto& [one, other] : {std::pair{"RANK", "WORLD_SIZE"}, std::pair{"WORLD_SIZE", "RANK"},
                                   std::pair{"ASUP_SIZE", "ASUP_RANK"}})
    require(!variables.has(one) || variables.has(other),
            "{} is set but {} is not: set both, or neither for a job of one process", one, other);
}

JoinOptions from_launcher(const Variables& variables) {
  for (const char* name : {"ASUP_RANK", "ASUP_ROLE", "ASUP_JOIN"})
    if (variables.has(name)) return from_asup_run(variables);
  refuse_halves(variables);
  if (variables.has("RANK")) return from_torchrun(variables);
  if (variables.has("OMPI_COMM_WORLD_RANK")) return from_open_mpi(variables);
  if (variables.has("SLURM_PROCID")) return from_slurm(variables);
  require(read_servers(variables) == 0,
          "ASUP_SERVERS={}, but no launcher started this process: start the job with asup run "
          "--servers N, or unset ASUP_SERVERS",
          variables.text_or("ASUP_SERVERS", ""));
  return from_any(variables, "none");
}

void refuse_mpi_without_it(const JoinOptions& options) {
  require(
      options.links != LinkKind::mpi || options.launcher == "Open MPI" ||
          options.launcher == "Slurm",
      "links over MPI were asked for, but MPI did not start this process ({}): start the job "
      "with mpirun -n N, or use other links (ASUP_LINKS=auto)",
      options.launcher == "none" ? "no launcher's variables are set" : options.launcher + " did");
}

}  // namespace

Environment process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

Environment with_variable(Environment environment, std::string name, std::string value) {
  return [environment = std::move(environment), name = std::move(name),
          value = std::move(value)](const char* asked) {
    return asked == name ? std::optional(value) : environment(asked);
  };
}

std::span<const std::string_view> member_variables() {
  static constexpr std::string_view names[] = {
      "ASUP_RANK",      "ASUP_SIZE",        "ASUP_LOCAL_RANK",   "ASUP_LOCAL_SIZE",
      "ASUP_SERVERS",   "ASUP_SERVER_RANK", "ASUP_ROLE",         "ASUP_COORDINATOR",
      "ASUP_KEY_FD",    "ASUP_KEY_FILE",    "ASUP_NOTE_FD",      "ASUP_JOIN",
      "ASUP_ON_LOSS",   "ASUP_LINKS",       "ASUP_JOIN_TIMEOUT", "ASUP_CALL_TIMEOUT",
      "ASUP_INTERFACE", "ASUP_TLS"};
  return names;
}

JoinOptions identity_from(const Environment& environment) {
  const Variables variables(environment);
  JoinOptions options = from_launcher(variables);
  refuse_mpi_without_it(options);
  return options;
}

std::string first_slurm_host(const std::string& list) {
  const std::size_t end = list.find_first_of("[,");
  std::string host = list.substr(0, end);
  if (end != list.npos && list[end] == '[') {
    const std::size_t number_end = list.find_first_of("-,]", end + 1);
    const std::size_t close = list.find(']', end);
    require(number_end != list.npos && close != list.npos && number_end > end + 1,
            "the host list '{}' from Slurm cannot be read", list);
    host += list.substr(end + 1, number_end - end - 1);
    host += list.substr(close + 1, list.find_first_of("[,", close) - close - 1);
  }
  require(!host.empty() && host.find_first_of("[] ") == host.npos,
          "the host list '{}' from Slurm cannot be read", list);
  return host;
}

}  // namespace asup::net
