// Environment variables read with care: each value is checked, and what is wrong with it is said in
// terms of its name. Values only.
#pragma once

#include <string>

#include "asup/net/membership/join_options.h"

namespace asup::net {

class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  // An empty variable counts as one that is not set.
  bool has(const char* name) const;
  std::string text(const char* name) const;  // throws BadInput where it is not set
  std::string text_or(const char* name, std::string otherwise) const;
  long number(const char* name, long least, long most) const;  // throws BadInput
  Seconds seconds_or(const char* name, Seconds otherwise) const;

  // The first of the names that is set; the first name where none is.
  const char* first_of(std::initializer_list<const char*> names) const;

 private:
  const Environment& environment_;
};

}  // namespace asup::net
