#include "asup/train/moment.h"

#include <charconv>
#include <cmath>

namespace asup::train {

std::int64_t Moment::steps(std::int64_t of) const {
  return std::llround(is_share ? number / 100 * static_cast<double>(of) : number);
}

std::optional<Moment> moment_in(std::string_view text) {
  const bool is_share = text.ends_with('%');
  if (is_share) text.remove_suffix(1);
  double number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && stop == text.data() + text.size();
  const bool is_whole = is_number && number == std::floor(number);
  if (!is_number || !(number >= 0) || number > (is_share ? 100 : 1e9) || !(is_share || is_whole))
    return std::nullopt;
  return Moment{number, is_share};
}

}  // namespace asup::train
