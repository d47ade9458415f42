// The field of a number that may be left open, by a word for it: `auto` where asup chooses, `none`
// where there is to be none.
//
//   struct TrainConfig { std::optional<double> lr{}; … };
//   {"lr", field_or<&TrainConfig::lr, kAuto>(), "learning rate; auto: …", {0, 1000, true, false}}
//
// Values only; safe from any thread.
#pragma once

#include <optional>

#include "asup/config/setting.h"

namespace asup::config {

inline constexpr char kAuto[] = "auto", kNone[] = "none", kEnd[] = "end";

template <typename T>
T number_from(const Value& value, const Bounds& bounds, std::string_view where) {
  if constexpr (std::is_same_v<T, double>)
    return real_from(value, bounds, where);
  else
    return whole_from(value, bounds, where);
}

template <auto member, const char* word>
Field field_or() {
  using Options = typename detail::Member<decltype(member)>::Struct;
  using T = typename detail::Member<decltype(member)>::Type::value_type;
  return {detail::form_of<T>() + "|" + word,
          [](const void* options) {
            const auto& value = static_cast<const Options*>(options)->*member;
            return value ? detail::text_of_value(*value) : std::string(word);
          },
          [](const void* options) {
            const auto& value = static_cast<const Options*>(options)->*member;
            return value ? detail::toml_of_value(*value) : toml_text(word);
          },
          [](const Setting& setting, void* options, const Value& value, std::string_view where) {
            std::optional<T> read;
            Bounds bounds = setting.bounds;
            bounds.word = word;
            if (text_of(value) != word) read = number_from<T>(value, bounds, where);
            static_cast<Options*>(options)->*member = read;
          }};
}

}  // namespace asup::config
