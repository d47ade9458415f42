#include "asup/launch/launch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>

#include "asup/base/error.h"
#include "asup/base/task_queue.h"
#include "asup/base/thread.h"
#include "asup/launch/coordinator_place.h"
#include "asup/launch/job_place.h"
#include "asup/launch/local_ranks.h"
#include "asup/launch/process.h"
#include "asup/launch/remote_ranks.h"
#include "asup/launch/signals.h"
#include "asup/launch/supervisor.h"
#include "asup/net/membership/coordinator.h"
#include "asup/net/membership/key_exchange.h"
#include "asup/net/membership/variables.h"

namespace asup::launch {
namespace {

std::vector<Placement> placements_of(const LaunchOptions& options) {
  if (!options.hosts.empty()) return place(options.ranks, options.hosts, options.servers);
  return place(std::max(options.ranks, 1), {{"localhost"}}, options.servers);
}

net::Roles roles_of(const std::vector<Placement>& placements, const LaunchOptions& options) {
  return {placements.back().first_rank + placements.back().count, options.servers};
}

// "NAME" becomes "NAME=our value".
std::vector<std::string> with_values(const std::vector<std::string>& environment) {
  std::vector<std::string> variables;
  for (const std::string& variable : environment) {
    const std::size_t equals = variable.find('=');
    require(!variable.empty() && equals != 0, "--env '{}': a name is missing", variable);
    const char* ours = std::getenv(variable.c_str());
    require(equals != variable.npos || ours != nullptr, "--env {}: it is not set here", variable);
    variables.push_back(equals == variable.npos ? variable + "=" + ours : variable);
  }
  return variables;
}

// What the ranks of another host should hear of this process's environment.
std::vector<std::string> own_settings() {
  std::vector<std::string> settings;
  for (const std::string& variable : own_environment())
    for (const char* name : {"ASUP_LOG_LEVEL=", "ASUP_LINKS=", "OMP_NUM_THREADS="})
      if (variable.starts_with(name)) settings.push_back(variable);
  return settings;
}

net::TlsMode tls_of(const LaunchOptions& options) {
  if (!options.tls.empty()) return net::tls_mode_of(options.tls, "--tls");
  const net::Environment environment = net::process_environment();
  return net::tls_mode_of(net::Variables(environment).text_or("ASUP_TLS", "auto"), "ASUP_TLS");
}

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

std::string own_name(const LaunchOptions& options) {
  return options.job.empty() ? std::to_string(getpid()) : options.job;
}

class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options)
      : options_(options),
        placements_(placements_of(options)),
        roles_(roles_of(placements_, options)),
        tls_(tls_of(options)),
        output_(loop_, {options.prefix, options.output_dir, roles_}),
        supervisor_(options, roles_, output_) {
    if (!options.join.empty()) {
      place_ = find_job(options.join);
      supervisor_.take_joined();  // as far as this launcher is concerned
      return;
    }
    const auto key = key_of_user();
    place_.key = key ? *key : net::random_key();
    coordinator_.emplace(coordinator_options());
    place_.coordinator = advertised_address(coordinator_->address(), options_, placements_);
  }

  JobResult run() {
    loop_.watch(signals_.fd(), POLLIN, [this] { take_signals(); });
    loop_.watch(tasks_.fd(), POLLIN, [this] { tasks_.run_all(); });
    supervisor_.before_rank_ends([this] { tasks_.run_all(); });
    supervisor_.when_rank_ends([this](const RankEnd& end) {
      if (!coordinator_) return;
      coordinator_->process_ended(end.rank, end.who() + " " + end.how() + " before it joined");
    });
    for (const Placement& placement : placements_) start(placement);
    while (!supervisor_.finished()) {
      loop_.run_once(after(Seconds(0.1)));
      supervisor_.keep_time();
    }
    if (coordinator_) coordinator_->stop();
    tasks_.run_all();
    flush();
    return supervisor_.result();
  }

 private:
  net::CoordinatorOptions coordinator_options() {
    net::CoordinatorOptions options{.listen = coordinator_place(options_, placements_)};
    options.remedy = "choose another with --port, or none and any free one is taken";
    options.key = place_.key;
    options.tls = tls_;
    options.key_socket = key_socket_of(own_name(options_));
    require(!net::try_key_socket(options.key_socket),
            "a job of yours called '{}' runs on this host already: join it by asup run --join {}, "
            "or give this one another name or folder",
            own_name(options_), own_name(options_));
    options.stays_open = true;
    options.size = roles_.members();
    options.servers = roles_.servers;
    options.join_timeout = options_.join_timeout;
    options.callbacks.on_admitted = [this](const net::Member&) {
      tasks_.post([this] { supervisor_.take_admitted(); });
    };
    options.callbacks.on_failed = [this](const std::string& why) {
      tasks_.post([this, why] { supervisor_.take_join_failure(why); });
    };
    options.callbacks.on_complete = [this](const net::Roster& roster) {
      tasks_.post([this, roster] { take_generation(roster); });
    };
    options.callbacks.on_lost = [this](const net::Loss& loss) {
      tasks_.post([this, loss] { take_loss(loss); });
    };
    options.callbacks.on_left = [this](const net::Member& member) {
      tasks_.post([this, member] { take_guest_gone(member); });
    };
    options.callbacks.on_late = [this](const net::Member& member, Seconds silence) {
      tasks_.post([this, member, silence] {
        output_.note(fmt::format("{}: {} has been silent for {:.0f} s", options_.name,
                                 member.describe(), silence.count()));
        if (is_own(member)) supervisor_.take_silence(static_cast<int>(member.id) - 1);
      });
    };
    options.callbacks.on_heard = [this](const net::Member& member) {
      tasks_.post([this, member] {
        if (is_own(member)) supervisor_.take_word(static_cast<int>(member.id) - 1);
      });
    };
    return options;
  }

  // A member's place may change from one generation to the next; its id is its first place, from 1.
  bool is_own(const net::Member& member) const {
    return member.id <= static_cast<std::uint64_t>(roles_.members());
  }

  void take_generation(const net::Roster& roster) {
    supervisor_.take_joined();
    if (roster.generation == 1) return;
    output_.note(
        fmt::format("{}: the job goes on with {}", options_.name, roster.roles().describe()));
    for (const net::Member& member : roster.members)
      if (!is_own(member) && guests_.insert(member.id).second)
        output_.note(fmt::format("{}: {} joined", options_.name, member.describe()));
    supervisor_.take_guests(guests_.size() - gone_guests_.size());
  }

  void take_guest_gone(const net::Member& member) {
    if (guests_.contains(member.id) && gone_guests_.insert(member.id).second)
      supervisor_.take_guests(guests_.size() - gone_guests_.size());
  }

  void take_loss(const net::Loss& loss) {
    const net::Member& member = loss.member;
    const int rank = static_cast<int>(member.id) - 1;
    if (is_own(member) && loss.ended) return supervisor_.take_loss(rank);
    if (is_own(member))
      return supervisor_.take_exclusion(rank, fmt::format("{}: {}", member.describe(), loss.why),
                                        loss.late);
    output_.note(
        fmt::format("{}: {}, which had joined, is lost", options_.name, member.describe()));
    take_guest_gone(member);
  }

  HostJob job_for(const Placement& placement) const {
    HostJob job;
    job.joins = !options_.join.empty();
    job.goes_on_after_loss = options_.on_loss == OnLoss::go_on;
    job.size = roles_.workers;
    job.servers = roles_.servers;
    job.own_servers = placement.servers;
    job.first_rank = placement.first_rank;
    job.count = placement.count;
    job.coordinator = place_.coordinator;
    job.key = place_.key;
    job.program = options_.program;
    job.server_program = server_program_on(placement.host);
    job.grace = options_.grace;
    if (!placement.host.local()) {
      job.directory = std::filesystem::current_path();
      job.environment = own_settings();
    }
    const auto set = [&](const char* name, const std::string& value) {
      if (!value.empty()) set_variable(job.environment, name, value);
    };
    set("ASUP_INTERFACE", interface_for(placement.host, options_));
    set("ASUP_LINKS", options_.links);
    set("ASUP_TLS", std::string(net::to_text(tls_)));
    set("ASUP_JOIN_TIMEOUT", fmt::format("{}", options_.join_timeout.count()));
    set("ASUP_CALL_TIMEOUT", fmt::format("{}", options_.call_timeout.count()));
    for (const std::string& variable : with_values(options_.environment))
      job.environment.push_back(variable);
    return job;
  }

  std::vector<std::string> server_program_on(const HostSpec& host) const {
    if (!options_.server_program.empty()) return options_.server_program;
    return {host.local() ? own_program() : options_.remote_asup, "server"};
  }

  void start(const Placement& placement) {
    const HostJob job = job_for(placement);
    if (options_.verbose && std::getenv("OMP_NUM_THREADS") == nullptr && placement.host.local())
      output_.note(fmt::format("{}: OMP_NUM_THREADS={}, {} cores for {} ranks", options_.name,
                               std::max(1, usable_cores() / std::max(1, job.count)), usable_cores(),
                               job.count));
    if (!placement.host.local()) {
      const RemoteOptions remote{placement.host.name, options_.ssh, options_.remote_asup};
      return supervisor_.add(std::make_unique<RemoteRanks>(loop_, supervisor_, remote, job));
    }
    auto ranks = std::make_unique<LocalRanks>(loop_, supervisor_);
    LocalRanks& here = *ranks;
    supervisor_.add(std::move(ranks));
    here.start(job, [this](int rank) {
      const bool direct = rank == 0 && options_.inherit_rank_zero;
      return RankOutput{direct, direct ? "" : output_.file_of(rank)};
    });
  }

  void take_signals() {
    for (const int number : signals_.take()) {
      if (number == SIGCHLD)
        loop_.reap();
      else
        supervisor_.take_signal(number);
    }
  }

  // A reader that is slow (a pager) gets all of it, unless a signal says that nobody waits.
  void flush() {
    while (!output_.empty()) {
      loop_.run_once(after(Seconds(1)));
      const auto result = supervisor_.result();
      if (result.exit_status > 128) return;
    }
  }

  const LaunchOptions& options_;
  const std::vector<Placement> placements_;
  const net::Roles roles_;
  const net::TlsMode tls_;
  JobPlace place_;
  Signals signals_;
  PollLoop loop_;
  TaskQueue tasks_;  // what the coordinator's thread hands to this one
  Output output_;
  Supervisor supervisor_;
  std::set<std::uint64_t> guests_, gone_guests_;  // ids of those who joined, and of them who left
  std::optional<net::Coordinator> coordinator_;   // none where the job is another launcher's
};

}  // namespace

bool JobResult::is_bad_input() const {
  constexpr int kBadInput = 2;
  return culprit && !culprit->killed() && culprit->exit_code() == kBadInput;
}

JobResult run(const LaunchOptions& options) {
  require(!options.program.empty(), "no program to run");
  require(options.join.empty() || options.servers == 0,
          "--join adds workers to a job; the servers it has are those it began with");
  require(options.ranks >= 0 && options.servers >= 0, "{} ranks and {} servers", options.ranks,
          options.servers);
  LaunchOptions complete = options;
  if (!options.join.empty()) complete.on_loss = OnLoss::go_on;  // each is on its own
  if (complete.remote_asup.empty() && !options.hosts.empty()) complete.remote_asup = own_program();
  return Launcher(complete).run();
}

}  // namespace asup::launch
