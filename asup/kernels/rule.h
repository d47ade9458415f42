// An update rule: how a gradient changes parameters, with all options but the learning rate, which
// changes from step to step. update.h applies it; one file each in update/ holds the equations.
// Values only; safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace asup::kernels {

struct Rule {
  // merge: what comes as the gradient are parameters, towards which ours move.
  enum class Kind : std::uint8_t {
    sgd,
    momentum,
    nesterov,
    rmsprop,
    adagrad,
    adam,
    adamw,
    lars,
    lamb,
    asup,
    merge
  };

  Kind kind = Kind::sgd;
  // Names, meanings and first values are those of torch::optim. A kind has some of them: rule.cc
  // lists which, and their ranges; the others keep the values they have here.
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  double alpha = 0.99;  // decay of the mean of squared gradients: rmsprop, asup
  double eps = 1e-8;
  bool centered = false;
  double beta1 = 0.9;
  double beta2 = 0.999;
  bool amsgrad = false;
  // lars, lamb: the trust coefficient; 0: no ratio, the rate is the learning rate
  double trust = 0.001;

  bool operator==(const Rule&) const = default;
};

std::string_view name_of(Rule::Kind kind);

// Floats of state that it keeps for each parameter. All of them are 0 before the first update.
std::size_t state_slots(const Rule& rule);

// How much of a step goes on into the next one: the momentum, or the decay of the first moment.
double momentum_of(const Rule& rule);

// Whether it needs the mean gradient of a whole step: those that keep squares of gradients, or take
// norms. They keep one float more for each parameter where steps come in parts (UpdateStep::share).
bool gathers_gradients(const Rule& rule);

// No rule has more.
inline constexpr std::size_t kMostStateSlots = 3;

// Whether it takes norms over whole tensors, so that a tensor's gradient must be complete before
// any of its parameters changes (see trust_ratio in update.h).
inline bool needs_whole_tensors(const Rule& rule) {
  return (rule.kind == Rule::Kind::lars || rule.kind == Rule::Kind::lamb) && rule.trust > 0;
}

// As it is for tensors of one dimension, biases and the scales of norms: LARS and LAMB move them
// without ratio and decay, as large-batch recipes do. Other rules are the same for all tensors.
Rule rule_of_vectors(const Rule& rule);

// For logs, messages and snapshots, such as "momentum momentum=0.9 dampening=0 weight_decay=0".
// Nothing is lost: parse_rule() gives back an equal rule.
std::string describe(const Rule& rule);

// Throws BadInput, which names what is wrong, unless describe() of some valid rule gives `text`.
Rule parse_rule(std::string_view text);

// Throws BadInput that names the option which is out of its range, or set though the kind has no
// such option.
void require_valid(const Rule& rule);

}  // namespace asup::kernels
