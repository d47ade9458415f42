#include "asup/kernels/step_power.h"

#include <cmath>

#include "asup/base/error.h"

namespace asup::kernels {
namespace {

// Below this lr · decay, w hardly changes within a step: decay is taken at the w of before.
constexpr double kFixedDecay = 1e-7;

// A step as LinearPower has it, whole.
LinearPower whole_step(const Rule& rule, double lr, double gain) {
  const double m = rule.momentum, decay = rule.weight_decay;
  const bool nesterov = rule.kind == Rule::Kind::nesterov;
  if (rule.kind == Rule::Kind::sgd) return {.ww = -lr * decay, .wg = -lr};
  const double by_v = nesterov ? m * m : m, by_g = nesterov ? 1 + m : gain;
  return {.ww = -lr * by_g * decay,
          .wv = -lr * by_v,
          .wg = -lr * by_g,
          .vw = gain * decay,
          .vv = m,
          .vg = gain};
}

LinearPower part_of_the_way(const LinearPower& step, double s) {
  return {s * step.ww, s * step.wv, s * step.wg, s * step.vw, 1 + s * (step.vv - 1), s * step.vg};
}

// Without a velocity: w + g / decay is multiplied by 1 − lr · decay in each step.
LinearPower plain_power(double lr, double decay, double s) {
  const double change = std::expm1(s * std::log1p(-lr * decay));
  return {.ww = change, .wg = change / decay};
}

// The gradient, with the decay of the w of before, moves (w, v) as without decay.
LinearPower power_at_fixed_decay(const Rule& rule, double lr, double gain, double s) {
  const MomentumPower part = momentum_power(rule.momentum, gain, s);
  const bool nesterov = rule.kind == Rule::Kind::nesterov;
  const double by_v = nesterov ? rule.momentum * part.from_v : part.from_v;
  const double by_g = nesterov ? s + rule.momentum * part.from_u : part.from_u;
  return {.ww = -lr * by_g * rule.weight_decay,
          .wv = -lr * by_v,
          .wg = -lr * by_g,
          .vw = part.gain * rule.weight_decay,
          .vv = part.keep,
          .vg = part.gain};
}

// The 2×2 matrix A of (w + g / decay, v), by its eigenvalues r · e^(±η) or r · e^(±iθ):
//   A^s = r^s cosh(sη) · I + r^(s−1) sinh(sη) / sinh(η) · (A − μI),  μ half the trace, r² = det A,
// with cos and sin for complex ones. Where they are equal, the quotient is s.
LinearPower coupled_power(const LinearPower& step, double decay, double s) {
  const double middle = (1 + step.ww + step.vv) / 2;
  const double determinant = (1 + step.ww) * step.vv - step.wv * step.vw;
  const double apart = middle * middle - determinant;
  if (determinant <= 0 || (apart >= 0 && middle <= 0)) return part_of_the_way(step, s);
  const double r = std::sqrt(determinant), root = std::sqrt(std::fabs(apart)) / r;
  const double angle = apart >= 0 ? std::asinh(root) : std::atan2(root, middle / r);
  const double along = apart >= 0 ? std::cosh(s * angle) : std::cos(s * angle);
  const double across = apart >= 0 ? std::sinh(s * angle) : std::sin(s * angle);
  const double scale = std::pow(r, s), q = scale / r * (root == 0 ? s : across / root);
  LinearPower result;
  result.ww = scale * along + q * (1 + step.ww - middle) - 1;
  result.wv = q * step.wv;
  result.wg = result.ww / decay;
  result.vw = q * step.vw;
  result.vv = scale * along + q * (step.vv - middle);
  result.vg = q * step.vg;
  return result;
}

}  // namespace

double power(double base, double share) { return base == 0 ? 0 : std::pow(base, share); }

MomentumPower momentum_power(double momentum, double gain, double share) {
  const double m = momentum, s = share;
  // The sum of m^0 … m^(n−1) at n = s, and the sum of such sums.
  const double sum = m == 1 ? s : m == 0 ? 1 : std::expm1(s * std::log(m)) / (m - 1);
  const bool near_one = std::fabs(m - 1) < 1e-8;
  const double sums = near_one ? s * (s + 1) / 2 : (s - m * sum) / (1 - m);
  return {power(m, s), gain * sum, m * sum, gain * sums};
}

LinearPower linear_power(const Rule& rule, const UpdateStep& step) {
  const double s = step.share, lr = step.lr, decay = rule.weight_decay;
  const bool is_plain = rule.kind == Rule::Kind::sgd;
  check(is_plain || rule.kind == Rule::Kind::momentum || rule.kind == Rule::Kind::nesterov,
        "kernels: {} is not linear", name_of(rule.kind));
  const double gain =
      rule.kind == Rule::Kind::momentum && step.updates > 1 ? 1 - rule.dampening : 1;
  if (is_plain && lr * decay == 0) return {.wg = -lr * s};
  if (is_plain)
    return lr * decay < 1 ? plain_power(lr, decay, s)
                          : part_of_the_way(whole_step(rule, lr, gain), s);
  // A velocity that is forgotten in each step is that of the last gradient.
  if (rule.momentum == 0) {
    const Rule plain{.weight_decay = decay};
    LinearPower result = linear_power(plain, {.lr = lr * gain, .share = s});
    // At the w of the step's begin, of which a power of 1 − lr · decay is left.
    const double left = 1 - lr * gain * decay;
    const double from_begin = left > 0 ? std::pow(left, s - 1) : 1;
    result.vw = gain * decay * from_begin;
    result.vv = 0;
    result.vg = gain * from_begin;
    return result;
  }
  if (std::fabs(lr * gain * decay) < kFixedDecay) return power_at_fixed_decay(rule, lr, gain, s);
  return coupled_power(whole_step(rule, lr, gain), decay, s);
}

}  // namespace asup::kernels
