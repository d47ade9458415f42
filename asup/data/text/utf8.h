// UTF-8, as far as reading texts needs it. Pure; safe from any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace asup::data {

// Where the first character begins that is not UTF-8 (RFC 3629: no surrogates, nothing overlong,
// nothing above U+10FFFF); none where all of the text is.
std::optional<std::size_t> first_bad_character(std::string_view text);

// The largest place up to `at` where a character begins. needs: UTF-8.
std::size_t character_start(std::string_view text, std::size_t at);

}  // namespace asup::data
