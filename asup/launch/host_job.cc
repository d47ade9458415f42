#include "asup/launch/host_job.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "asup/base/error.h"
#include "asup/base/thread.h"
#include "asup/launch/process.h"

namespace asup::launch {

using Json = nlohmann::json;

std::vector<std::string> HostJob::environment_of(int rank, int key_fd,
                                                 std::vector<std::string> base) const {
  const auto set = [&](const char* name, const std::string& value) {
    set_variable(base, name, value);
  };
  for (const std::string& variable : environment) {
    const std::size_t equals = variable.find('=');
    set_variable(base, variable.substr(0, equals), variable.substr(equals + 1));
  }
  set("ASUP_RANK", std::to_string(rank));
  set("ASUP_SIZE", std::to_string(size));
  set("ASUP_LOCAL_RANK", std::to_string(rank - first_rank));
  set("ASUP_LOCAL_SIZE", std::to_string(count));
  set("ASUP_COORDINATOR", coordinator);
  set("ASUP_KEY_FD", std::to_string(key_fd));
  // Ranks that each took all cores would slow each other down many times over.
  if (get_variable(base, "OMP_NUM_THREADS").empty())
    set("OMP_NUM_THREADS", std::to_string(std::max(1, usable_cores() / count)));
  return base;
}

std::string to_json(const HostJob& job) {
  const Json json{{"size", job.size},
                  {"first_rank", job.first_rank},
                  {"count", job.count},
                  {"coordinator", job.coordinator},
                  {"key", net::to_hex(job.key)},
                  {"program", job.program},
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
    const Json json = Json::parse(text);
    json.at("size").get_to(job.size);
    json.at("first_rank").get_to(job.first_rank);
    json.at("count").get_to(job.count);
    json.at("coordinator").get_to(job.coordinator);
    job.key = net::key_from_hex(json.at("key").get<std::string>());
    json.at("program").get_to(job.program);
    json.at("directory").get_to(job.directory);
    json.at("environment").get_to(job.environment);
    job.grace = Seconds(json.at("grace").get<double>());
  } catch (const Json::exception& error) {
    throw BadInput(fmt::format("the job description cannot be read: {}", error.what()));
  }
  require(job.count >= 1 && job.first_rank >= 0 && job.first_rank + job.count <= job.size,
          "the job description asks for {} ranks from {} on in a job of {}", job.count,
          job.first_rank, job.size);
  require(!job.program.empty(), "the job description names no program");
  return job;
}

}  // namespace asup::launch
