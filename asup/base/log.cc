#include "asup/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

#include <cstdlib>
#include <memory>

namespace asup {
namespace {

std::unique_ptr<spdlog::logger> make_log(const std::string& who) {
  auto logger = std::make_unique<spdlog::logger>(
      who, std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  const char* level = std::getenv("ASUP_LOG_LEVEL");
  logger->set_level(level ? spdlog::level::from_str(level) : spdlog::level::warn);
  logger->set_pattern("%H:%M:%S.%e %^%l%$ [%n] %v");
  return logger;
}

// Never destroyed: threads may log while the process ends.
std::unique_ptr<spdlog::logger>& the_log() {
  static auto& logger = *new std::unique_ptr<spdlog::logger>(make_log("asup"));
  return logger;
}

}  // namespace

spdlog::logger& log() { return *the_log(); }

void set_up_log(const std::string& who) { the_log() = make_log(who); }

}  // namespace asup
