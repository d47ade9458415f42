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

kernels::Code code_of(Compress compress) {
  using enum Compress;
  switch (compress) {
    case bf16:
      return kernels::Code::bf16;
    case fp16:
      return kernels::Code::f16;
    case int8:
      return kernels::Code::int8;
    case int4:
      return kernels::Code::int4;
    case onebit:
      return kernels::Code::onebit;
    case none:
    case topk:
    case dgc:
    case powersgd:
      return kernels::Code::none;
  }
  return kernels::Code::none;
}

std::string names_of_codes() {
  std::vector<std::string_view> names;
  for (const auto& named : names_of(Compress{}))
    if (code_of(named.value) != kernels::Code::none) names.push_back(named.name);
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 < names.size() ? ", " : " or ") + std::string(names[i]);
  return text;
}

bool has_feedback(Compress compress, Feedback feedback) {
  if (code_of(compress) == kernels::Code::none) return false;
  if (feedback != Feedback::automatic) return feedback == Feedback::on;
  return compress == Compress::int4 || compress == Compress::onebit;
}

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
