#include "asup/sync/gradients/compress.h"

namespace asup {
namespace {

constexpr std::string_view kAuto = "auto";

std::optional<Compress> one_from(std::string_view text) {
  for (const auto& named : names_of(Compress{}))
    if (named.name == text) return named.value;
  return std::nullopt;
}

}  // namespace

CompressSetting CompressSetting::automatic(const std::vector<Compress>& others) {
  CompressSetting setting;
  setting.among = {Compress::none, Compress::bf16};
  for (const Compress other : others)
    if (!setting.may_be(other)) setting.among.push_back(other);
  return setting;
}

std::optional<CompressSetting> CompressSetting::from_text(std::string_view text) {
  if (!text.starts_with(kAuto)) {
    const auto one = one_from(text);
    return one ? std::optional<CompressSetting>(*one) : std::nullopt;
  }
  text.remove_prefix(kAuto.size());
  std::vector<Compress> others;
  if (!text.empty() && text.front() != ':') return std::nullopt;
  while (!text.empty()) {
    text.remove_prefix(1);  // the colon, or a comma
    const auto end = std::min(text.find(','), text.size());
    const auto one = one_from(text.substr(0, end));
    if (!one) return std::nullopt;
    others.push_back(*one);
    text.remove_prefix(end);
  }
  return automatic(others);
}

std::string CompressSetting::to_text() const {
  if (among.empty()) return "nothing";
  if (!is_auto()) return std::string(config::name_of_choice(among.front()));
  std::string text(kAuto);
  for (std::size_t i = 2; i < among.size(); ++i)
    text += (i == 2 ? ":" : ",") + std::string(config::name_of_choice(among[i]));
  return text;
}

}  // namespace asup
