#include "asup/config/setting.h"

#include <fmt/ranges.h>

#include "asup/base/error.h"

namespace asup::config {

std::string Setting::form() const {
  return choices.empty() ? field.form : fmt::format("{}", fmt::join(choices, "|"));
}

const Setting* find(std::span<const Setting> settings, std::string_view name) {
  for (const Setting& setting : settings)
    if (setting.name == name) return &setting;
  return nullptr;
}

void require_usual(std::span<const Setting> settings, const void* options, const void* usual,
                   std::string_view name, std::string_view because) {
  const Setting* setting = find(settings, name);
  check(setting != nullptr, "no setting {}", name);
  const std::string value = setting->field.text(options);
  require(value == setting->field.text(usual), "{} = {} has no effect: {}. Leave it out.", name,
          value, because);
}

}  // namespace asup::config
