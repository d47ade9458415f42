#include "asup/launch/host_job.h"

#include <algorithm>
#include <numeric>

#include "asup/base/error.h"
#include "asup/base/json.h"
#include "asup/base/thread.h"
#include "asup/launch/process.h"

namespace asup::launch {

using Json = nlohmann::json;

std::vector<int> HostJob::members() const {
  std::vector<int> members(static_cast<std::size_t>(count));
  std::iota(members.begin(), members.end(), first_rank);
  for (const int server : own_servers) members.push_back(size + server);
  return members;
}

std::vector<std::string> HostJob::environment_of(int member, std::vector<std::string> base) const {
  const auto set = [&](const char* name, const std::string& value) {
    set_variable(base, name, value);
  };
  for (const std::string& variable : environment) {
    const std::size_t equals = variable.find('=');
    set_variable(base, variable.substr(0, equals), variable.substr(equals + 1));
  }
  const auto server = roles().server(member);
  // An empty variable counts as none: what was set around us is about another job.
  set("ASUP_JOIN", joins ? "1" : "");
  set("ASUP_ON_LOSS", goes_on_after_loss ? "continue" : "end");
  set("ASUP_ROLE", joins ? "" : server ? "server" : "worker");
  set("ASUP_RANK", server || joins ? "" : std::to_string(member));
  set("ASUP_LOCAL_RANK", server ? "" : std::to_string(member - first_rank));
  set("ASUP_SERVER_RANK", server ? std::to_string(*server) : "");
  set("ASUP_SIZE", joins ? "" : std::to_string(size));
  set("ASUP_LOCAL_SIZE", std::to_string(count));
  set("ASUP_SERVERS", std::to_string(servers));
  set("ASUP_COORDINATOR", coordinator);
  // Ranks that each took all cores would slow each other down many times over.
  if (get_variable(base, "OMP_NUM_THREADS").empty())
    set("OMP_NUM_THREADS", std::to_string(std::max(1, usable_cores() / std::max(1, count))));
  return base;
}

std::string to_json(const HostJob& job) {
  const Json json{{"joins", job.joins},
                  {"goes_on_after_loss", job.goes_on_after_loss},
                  {"size", job.size},
                  {"servers", job.servers},
                  {"first_rank", job.first_rank},
                  {"count", job.count},
                  {"own_servers", job.own_servers},
                  {"coordinator", job.coordinator},
                  {"key", net::to_hex(job.key)},
                  {"program", job.program},
                  {"server_program", job.server_program},
                  {"directory", job.directory},
                  {"environment", job.environment},
                  {"grace", job.grace.count()}};
  try {
    return json.dump();
  } catch (const Json::exception&) {
    throw BadInput("a job for other hosts can only have UTF-8 in its arguments and variables");
  }
}

HostJob parse_host_job(const std::string& text) {
  HostJob job;
  try {
    const Json json = parse_json(text);
    json.at("joins").get_to(job.joins);
    json.at("goes_on_after_loss").get_to(job.goes_on_after_loss);
    job.size = whole_in<int>(json, "size");
    job.servers = whole_in<int>(json, "servers");
    job.first_rank = whole_in<int>(json, "first_rank");
    job.count = whole_in<int>(json, "count");
    job.own_servers = wholes_in<int>(json, "own_servers");
    json.at("coordinator").get_to(job.coordinator);
    job.key = net::key_from_hex(json.at("key").get<std::string>());
    json.at("program").get_to(job.program);
    json.at("server_program").get_to(job.server_program);
    json.at("directory").get_to(job.directory);
    json.at("environment").get_to(job.environment);
    job.grace = Seconds(json.at("grace").get<double>());
  } catch (const std::exception& error) {
    throw BadInput(fmt::format("the job description cannot be read: {}", error.what()));
  }
  require(job.count >= 0 && job.first_rank >= 0 && job.first_rank <= job.size - job.count,
          "the job description asks for {} ranks from {} on in a job of {}", job.count,
          job.first_rank, job.size);
  for (const int server : job.own_servers)
    require(server >= 0 && server < job.servers,
            "the job description asks for server {} in a job of {} servers", server, job.servers);
  require(job.count > 0 || !job.own_servers.empty(), "the job description asks for no process");
  require((job.count == 0 || !job.program.empty()) &&
              (job.own_servers.empty() || !job.server_program.empty()),
          "the job description names no program");
  return job;
}

}  // namespace asup::launch
