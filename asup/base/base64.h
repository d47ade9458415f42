// Bytes as text, by RFC 4648. Pure; safe from any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace asup {

std::string to_base64(std::string_view bytes);

// Nothing where the text is none that to_base64() makes.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace asup
