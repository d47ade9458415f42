// The update rules again, in doubles, one parameter at a time, straight from the papers and from
// torch's documentation.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "asup/kernels/rule.h"
#include "asup/kernels/update.h"

namespace asup::kernels::reference {

struct Parameter {
  double w = 0;
  double velocity = 0, mean = 0, square = 0, largest_square = 0;
};

inline void sgd_update(const Rule& rule, const UpdateStep& step, Parameter& p, double g) {
  g += rule.weight_decay * p.w;
  if (rule.kind == Rule::Kind::sgd) {
    p.w -= step.lr * g;
    return;
  }
  p.velocity = step.updates == 1 ? g : rule.momentum * p.velocity + (1 - rule.dampening) * g;
  const bool nesterov = rule.kind == Rule::Kind::nesterov;
  p.w -= step.lr * (nesterov ? g + rule.momentum * p.velocity : p.velocity);
}

inline void rmsprop_update(const Rule& rule, const UpdateStep& step, Parameter& p, double g) {
  g += rule.weight_decay * p.w;
  p.square = rule.alpha * p.square + (1 - rule.alpha) * g * g;
  p.mean = rule.alpha * p.mean + (1 - rule.alpha) * g;
  const double variance = rule.centered ? p.square - p.mean * p.mean : p.square;
  p.velocity = rule.momentum * p.velocity + g / (std::sqrt(variance) + rule.eps);
  p.w -= step.lr * p.velocity;
}

inline void adagrad_update(const Rule& rule, const UpdateStep& step, Parameter& p, double g) {
  g += rule.weight_decay * p.w;
  p.square += g * g;
  p.w -= step.lr * g / (std::sqrt(p.square) + rule.eps);
}

inline void adam_update(const Rule& rule, const UpdateStep& step, Parameter& p, double g) {
  const double t = static_cast<double>(step.updates);
  if (rule.kind == Rule::Kind::adamw)
    p.w -= step.lr * rule.weight_decay * p.w;
  else
    g += rule.weight_decay * p.w;
  p.mean = rule.beta1 * p.mean + (1 - rule.beta1) * g;
  p.square = rule.beta2 * p.square + (1 - rule.beta2) * g * g;
  p.largest_square = std::max(p.largest_square, p.square);
  const double mean = p.mean / (1 - std::pow(rule.beta1, t));
  const double square =
      (rule.amsgrad ? p.largest_square : p.square) / (1 - std::pow(rule.beta2, t));
  p.w -= step.lr * mean / (std::sqrt(square) + rule.eps);
}

inline void lars_update(const Rule& rule, const UpdateStep& step, Parameter& p, double g) {
  g += rule.weight_decay * p.w;
  p.velocity = rule.momentum * p.velocity + step.lr * step.trust_ratio * g;
  p.w -= p.velocity;
}

inline double lamb_direction(const Rule& rule, const UpdateStep& step, Parameter& p, double g) {
  const double t = static_cast<double>(step.updates);
  p.mean = rule.beta1 * p.mean + (1 - rule.beta1) * g;
  p.square = rule.beta2 * p.square + (1 - rule.beta2) * g * g;
  const double mean = p.mean / (1 - std::pow(rule.beta1, t));
  const double square = p.square / (1 - std::pow(rule.beta2, t));
  return mean / (std::sqrt(square) + rule.eps) + rule.weight_decay * p.w;
}

inline void lamb_update(const Rule& rule, const UpdateStep& step, Parameter& p, double g) {
  p.w -= step.lr * step.trust_ratio * lamb_direction(rule, step, p, g);
}

inline void asup_update(const Rule& rule, const UpdateStep& step, Parameter& p, double g) {
  g += rule.weight_decay * p.w;
  p.square = rule.alpha * p.square + (1 - rule.alpha) * g * g;
  const double mean_square =
      p.square / (1 - std::pow(rule.alpha, static_cast<double>(step.updates)));
  p.velocity = rule.momentum * p.velocity + step.lr * g / std::sqrt(mean_square + rule.eps);
  p.w -= p.velocity;
}

inline void update(const Rule& rule, const UpdateStep& step, Parameter& p, double g) {
  switch (rule.kind) {
    case Rule::Kind::sgd:
    case Rule::Kind::momentum:
    case Rule::Kind::nesterov:
      return sgd_update(rule, step, p, g);
    case Rule::Kind::rmsprop:
      return rmsprop_update(rule, step, p, g);
    case Rule::Kind::adagrad:
      return adagrad_update(rule, step, p, g);
    case Rule::Kind::adam:
    case Rule::Kind::adamw:
      return adam_update(rule, step, p, g);
    case Rule::Kind::lars:
      return lars_update(rule, step, p, g);
    case Rule::Kind::lamb:
      return lamb_update(rule, step, p, g);
    case Rule::Kind::asup:
      return asup_update(rule, step, p, g);
    case Rule::Kind::merge:
      p.w += step.lr * (g - p.w);
      return;
  }
}

}  // namespace asup::kernels::reference
