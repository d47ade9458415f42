#include "asup/kernels/rule.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <variant>
#include <vector>

#include "asup/base/error.h"
#include "asup/base/numbers.h"
#include "asup/base/suggest.h"

namespace asup::kernels {
namespace {

using Kind = Rule::Kind;

struct Option {
  std::string_view name;
  std::variant<double Rule::*, bool Rule::*> member;
  double most = std::numeric_limits<double>::max();  // of a number
  bool below_most = false;                           // `most` itself is out of range
  double least = 0;

  bool allows(double value) const {
    return value >= least && (below_most ? value < most : value <= most);
  }
  std::string range() const {
    if (least < 0) return "finite";
    if (most > 1) return "finite and at least 0";
    return below_most ? "at least 0 and below 1" : "from 0 to 1";
  }
};

constexpr double kFinite = std::numeric_limits<double>::max();

constexpr Option kMomentum{"momentum", &Rule::momentum};
constexpr Option kDampening{"dampening", &Rule::dampening, kFinite, false, -kFinite};
constexpr Option kWeightDecay{"weight_decay", &Rule::weight_decay};
constexpr Option kAlpha{"alpha", &Rule::alpha, 1};
constexpr Option kAlphaBelowOne{"alpha", &Rule::alpha, 1, true};  // 1 - alpha^t is divided by
constexpr Option kEps{"eps", &Rule::eps};
constexpr Option kCentered{"centered", &Rule::centered};
constexpr Option kBeta1{"beta1", &Rule::beta1, 1, true};
constexpr Option kBeta2{"beta2", &Rule::beta2, 1, true};
constexpr Option kAmsgrad{"amsgrad", &Rule::amsgrad};
constexpr Option kTrust{"trust", &Rule::trust};

constexpr Option kEveryOption[] = {kMomentum, kDampening, kWeightDecay, kAlpha,   kEps,
                                   kCentered, kBeta1,     kBeta2,       kAmsgrad, kTrust};

struct KindRow {
  Kind kind;
  std::string_view name;
  std::vector<Option> options;
};

const std::vector<KindRow>& kinds() {
  static const std::vector<KindRow> rows{
      {Kind::sgd, "sgd", {kWeightDecay}},
      {Kind::momentum, "momentum", {kMomentum, kDampening, kWeightDecay}},
      {Kind::nesterov, "nesterov", {kMomentum, kWeightDecay}},
      {Kind::rmsprop, "rmsprop", {kAlpha, kEps, kMomentum, kCentered, kWeightDecay}},
      {Kind::adagrad, "adagrad", {kEps, kWeightDecay}},
      {Kind::adam, "adam", {kBeta1, kBeta2, kEps, kAmsgrad, kWeightDecay}},
      {Kind::adamw, "adamw", {kBeta1, kBeta2, kEps, kAmsgrad, kWeightDecay}},
      {Kind::lars, "lars", {kTrust, kMomentum, kWeightDecay}},
      {Kind::lamb, "lamb", {kTrust, kBeta1, kBeta2, kEps, kWeightDecay}},
      {Kind::asup, "asup", {kMomentum, kAlphaBelowOne, kEps, kWeightDecay}},
      {Kind::merge, "merge", {}},
  };
  return rows;
}

const KindRow& row_of(Kind kind) {
  for (const KindRow& row : kinds())
    if (row.kind == kind) return row;
  throw Error(fmt::format("kernels: there is no update rule {}", static_cast<int>(kind)));
}

const KindRow& row_of(std::string_view name) {
  std::vector<std::string> names;
  for (const KindRow& row : kinds()) {
    if (row.name == name) return row;
    names.emplace_back(row.name);
  }
  throw BadInput(fmt::format("update rule: there is no '{}'{}; there are {}", name,
                             did_you_mean(name, names), fmt::join(names, ", ")));
}

std::string value_of(const Rule& rule, const Option& option) {
  if (const auto* flag = std::get_if<bool Rule::*>(&option.member))
    return rule.**flag ? "yes" : "no";
  return fmt::format("{}", rule.*std::get<double Rule::*>(option.member));
}

void set(Rule& rule, const Option& option, std::string_view value) {
  if (const auto* flag = std::get_if<bool Rule::*>(&option.member)) {
    require(value == "yes" || value == "no",
            "update rule {}: {} is '{}', which is neither yes nor no", name_of(rule.kind),
            option.name, value);
    rule.** flag = value == "yes";
    return;
  }
  const auto number = number_in<double>(value);
  require(number.has_value(), "update rule {}: {} is '{}', which is no number", name_of(rule.kind),
          option.name, value);
  rule.*std::get<double Rule::*>(option.member) = *number;
}

// The first word, which is taken off `text` with the space after it.
std::string_view take_word(std::string_view& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

void require_in_range(const Rule& rule, const Option& option) {
  const auto* number = std::get_if<double Rule::*>(&option.member);
  if (number == nullptr) return;
  require(option.allows(rule.**number), "update rule {}: {} is {}; it must be {}",
          name_of(rule.kind), option.name, rule.**number, option.range());
}

}  // namespace

std::string_view name_of(Rule::Kind kind) { return row_of(kind).name; }

std::size_t state_slots(const Rule& rule) {
  switch (rule.kind) {
    case Kind::sgd:
    case Kind::merge:
      return 0;
    case Kind::momentum:
    case Kind::nesterov:
    case Kind::lars:
    case Kind::adagrad:
      return 1;
    case Kind::rmsprop:
      return 1 + std::size_t{rule.centered} + std::size_t{rule.momentum > 0};
    case Kind::adam:
    case Kind::adamw:
      return 2 + std::size_t{rule.amsgrad};
    case Kind::lamb:
    case Kind::asup:
      return 2;
  }
  return row_of(rule.kind).options.size();  // throws: there is no such kind
}

Rule rule_of_vectors(const Rule& rule) {
  Rule of_vectors = rule;
  if (rule.kind == Kind::lars || rule.kind == Kind::lamb)
    of_vectors.trust = of_vectors.weight_decay = 0;
  return of_vectors;
}

double momentum_of(const Rule& rule) {
  switch (rule.kind) {
    case Kind::adam:
    case Kind::adamw:
    case Kind::lamb:
      return rule.beta1;
    case Kind::sgd:
    case Kind::momentum:
    case Kind::nesterov:
    case Kind::rmsprop:
    case Kind::adagrad:
    case Kind::lars:
    case Kind::asup:
    case Kind::merge:
      return rule.momentum;
  }
  return 0;
}

bool gathers_gradients(const Rule& rule) {
  switch (rule.kind) {
    case Kind::sgd:
    case Kind::momentum:
    case Kind::nesterov:
    case Kind::merge:
      return false;
    case Kind::lars:
      return needs_whole_tensors(rule);
    case Kind::rmsprop:
    case Kind::adagrad:
    case Kind::adam:
    case Kind::adamw:
    case Kind::lamb:
    case Kind::asup:
      return true;
  }
  return false;
}

std::string describe(const Rule& rule) {
  const KindRow& row = row_of(rule.kind);
  std::string text(row.name);
  for (const Option& option : row.options)
    text += fmt::format(" {}={}", option.name, value_of(rule, option));
  return text;
}

Rule parse_rule(std::string_view text) {
  const std::string_view whole = text;
  const KindRow& row = row_of(take_word(text));
  Rule rule{.kind = row.kind};
  for (const Option& option : row.options) {
    const std::string_view word = take_word(text);
    const std::size_t equals = std::min(word.find('='), word.size());
    require(word.substr(0, equals) == option.name && equals < word.size(),
            "update rule {}: '{}' stands where {}=… was expected", row.name, word, option.name);
    set(rule, option, word.substr(equals + 1));
  }
  require(text.empty(), "update rule {}: it has no '{}'", row.name, text);
  require_valid(rule);
  require(describe(rule) == whole, "update rule: '{}' is written as '{}'", whole, describe(rule));
  return rule;
}

void require_valid(const Rule& rule) {
  const KindRow& row = row_of(rule.kind);
  for (const Option& option : kEveryOption) {
    const auto own = std::ranges::find(row.options, option.name, &Option::name);
    if (own != row.options.end())
      require_in_range(rule, *own);
    else
      require(value_of(rule, option) == value_of({}, option),
              "update rule {}: it has no {}, which is {}", row.name, option.name,
              value_of(rule, option));
  }
}

}  // namespace asup::kernels
