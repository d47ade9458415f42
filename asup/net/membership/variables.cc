#include "asup/net/membership/variables.h"

#include <cmath>

#include "asup/base/error.h"
#include "asup/base/numbers.h"

namespace asup::net {

bool Variables::has(const char* name) const {
  const auto value = environment_(name);
  return value && !value->empty();
}

std::string Variables::text(const char* name) const {
  require(has(name), "{} is not set", name);
  return *environment_(name);
}

std::string Variables::text_or(const char* name, std::string otherwise) const {
  return has(name) ? text(name) : std::move(otherwise);
}

long Variables::number(const char* name, long least, long most) const {
  const std::string value = text(name);
  const auto number = number_in<long>(value);
  require(number && *number >= least && *number <= most,
          "{}='{}': a whole number from {} to {} is needed", name, value, least, most);
  return *number;
}

Seconds Variables::seconds_or(const char* name, Seconds otherwise) const {
  if (!has(name)) return otherwise;
  const std::string value = text(name);
  const auto number = number_in<double>(value);
  require(number && std::isfinite(*number) && *number > 0 && *number <= 1e6,
          "{}='{}': a number of seconds above 0 is needed", name, value);
  return Seconds(*number);
}

const char* Variables::first_of(std::initializer_list<const char*> names) const {
  for (const char* name : names)
    if (has(name)) return name;
  return *names.begin();
}

}  // namespace asup::net
