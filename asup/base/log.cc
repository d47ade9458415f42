#include "asup/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

#include <cstdlib>

namespace asup {

void set_up_log(const std::string& who) {
  auto logger = std::make_shared<spdlog::logger>(
      who, std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  const char* level = std::getenv("ASUP_LOG_LEVEL");
  logger->set_level(level ? spdlog::level::from_str(level) : spdlog::level::warn);
  logger->set_pattern("%H:%M:%S.%e %^%l%$ [%n] %v");
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace asup
