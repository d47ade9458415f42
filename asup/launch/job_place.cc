#include "asup/launch/job_place.h"

#include <filesystem>

#include "asup/base/error.h"
#include "asup/net/membership/address.h"
#include "asup/net/membership/join_options.h"
#include "asup/net/membership/key_exchange.h"

namespace asup::launch {

std::string name_of_folder(const std::string& folder) {
  return std::filesystem::weakly_canonical(std::filesystem::absolute(folder)).string();
}

std::optional<net::Key> key_of_user() {
  const auto file = net::process_environment()("ASUP_KEY_FILE");
  if (!file || file->empty()) return std::nullopt;
  return net::read_key_file(*file);
}

std::string key_socket_of(const std::string& job) {
  return net::key_socket_name("asup run " + job);
}

JobPlace find_job(const std::string& job) {
  for (const std::string& name : {job, name_of_folder(job)})
    if (const auto word = net::try_key_socket(key_socket_of(name)))
      return {word->coordinator, word->key};
  require(job.find(':') != job.npos,
          "no job of yours called '{}' runs on this host. A job's name is what asup run --name "
          "said, the run folder of asup train, else its launcher's pid; a job on another host is "
          "joined by its coordinator's address, host:port, and the key in ASUP_KEY_FILE",
          job);
  net::parse_endpoint(job, "--join");
  const auto key = key_of_user();
  require(key.has_value(),
          "--join {}: set ASUP_KEY_FILE to the file with the job's key, with which the job was "
          "started too",
          job);
  return {job, *key};
}

}  // namespace asup::launch
