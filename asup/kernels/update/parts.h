// Parts of a step of the rules that keep squares of gradients or take norms; whole steps and their
// equations are in the files of the same names. A part moves parameters and momentum by its share.
// It divides by the second moment as it would be if the step ended with it, with the mean of the
// step's gradients so far (Gathered::square): in the first step there is no other, and parts with
// the same gradient come to a whole step. The second moment itself changes when the step ends.
//
// The last slot is the sum that Gathered adds up. Values only; safe from any thread.
#pragma once

#include "asup/kernels/update/gathered.h"

namespace asup::kernels {
namespace {

// Of adam, and of adamw, whose decay is beside the gradient.
template <bool kAmsgrad, bool kDecayBeside>
class AdamPart {
 public:
  static constexpr std::size_t kSlots = 3 + kAmsgrad;  // m, s, r, p

  AdamPart(const Rule& rule, const UpdateStep& step)
      : gathered_(step),
        momentum_(rule.beta1, 1 - rule.beta1, step.share),
        lr_(as_float(step.lr / missing_weight(rule.beta1, step.updates))),
        beta2_(as_float(rule.beta2)),
        gain2_(as_float(1 - rule.beta2)),
        scale_(as_float(1 / __builtin_sqrt(missing_weight(rule.beta2, step.updates)))),
        eps_(as_float(rule.eps)),
        weight_decay_(as_float(rule.weight_decay)),
        keep_(as_float(kept(1 - step.lr * rule.weight_decay, step.share))) {}

  void apply(Floats g, Floats& w, Floats* state) const {
    if constexpr (kDecayBeside)
      w *= keep_;
    else
      g += weight_decay_ * w;
    const Floats mean = gathered_.mean(g, state[2 + kAmsgrad]);
    const Floats decayed = beta2_ * state[1];
    Floats divided_by = decayed + gain2_ * gathered_.square(g, mean);
    if constexpr (kAmsgrad) divided_by = Max::apply<float>(state[2], divided_by);
    w -= lr_ * momentum_.advance(state[0], g) / (square_root(divided_by) * scale_ + eps_);
    if (!gathered_.ends_step()) return;
    state[1] = decayed + gain2_ * mean * mean;
    if constexpr (kAmsgrad) state[2] = Max::apply<float>(state[2], state[1]);
  }

 private:
  // Decay so strong that signs change has no power: it is the share of the way.
  static double kept(double whole, double share) {
    return whole > 0 ? power(whole, share) : 1 + share * (whole - 1);
  }

  Gathered gathered_;
  PartialMomentum momentum_;
  float lr_, beta2_, gain2_, scale_, eps_, weight_decay_, keep_;
};

template <bool kCentered, bool kMomentum>
class RmsPropPart {
 public:
  static constexpr std::size_t kSlots = 2 + kCentered + kMomentum;  // s, a, v, p

  RmsPropPart(const Rule& rule, const UpdateStep& step)
      : gathered_(step),
        momentum_(rule.momentum, 1, step.share),
        lr_(as_float(step.lr)),
        alpha_(as_float(rule.alpha)),
        gain_(as_float(1 - rule.alpha)),
        eps_(as_float(rule.eps)),
        weight_decay_(as_float(rule.weight_decay)) {}

  void apply(Floats g, Floats& w, Floats* state) const {
    g += weight_decay_ * w;
    const Floats mean = gathered_.mean(g, state[1 + kCentered + kMomentum]);
    const Floats decayed = alpha_ * state[0];
    Floats variance = decayed + gain_ * gathered_.square(g, mean), average = {};
    if constexpr (kCentered) {
      average = alpha_ * state[1] + gain_ * mean;
      variance -= average * average;
    }
    const Floats u = g / (square_root(variance) + eps_);
    // Without momentum, v would be u and move w by the share of it.
    if constexpr (kMomentum)
      w -= lr_ * momentum_.advance(state[1 + kCentered], u);
    else
      w -= lr_ * momentum_.from_u * u;
    if (!gathered_.ends_step()) return;
    state[0] = decayed + gain_ * mean * mean;
    if constexpr (kCentered) state[1] = average;
  }

 private:
  Gathered gathered_;
  PartialMomentum momentum_;
  float lr_, alpha_, gain_, eps_, weight_decay_;
};

class AsupPart {
 public:
  static constexpr std::size_t kSlots = 3;  // v, s, p

  AsupPart(const Rule& rule, const UpdateStep& step)
      : gathered_(step),
        momentum_(rule.momentum, 1, step.share),
        lr_(as_float(step.lr)),
        alpha_(as_float(rule.alpha)),
        gain_(as_float(1 - rule.alpha)),
        scale_(as_float(1 / missing_weight(rule.alpha, step.updates))),
        eps_(as_float(rule.eps)),
        weight_decay_(as_float(rule.weight_decay)) {}

  void apply(Floats g, Floats& w, Floats* state) const {
    g += weight_decay_ * w;
    const Floats mean = gathered_.mean(g, state[2]);
    const Floats decayed = alpha_ * state[1];
    const Floats divided_by = decayed + gain_ * gathered_.square(g, mean);
    w -= momentum_.advance(state[0], lr_ * g / square_root(divided_by * scale_ + eps_));
    if (gathered_.ends_step()) state[1] = decayed + gain_ * mean * mean;
  }

 private:
  Gathered gathered_;
  PartialMomentum momentum_;
  float lr_, alpha_, gain_, scale_, eps_, weight_decay_;
};

// The ratio is that of this part's direction, as far as it would go in a whole step.
class LambPart {
 public:
  static constexpr std::size_t kSlots = 3;  // m, s, p

  LambPart(const Rule& rule, const UpdateStep& step)
      : gathered_(step),
        momentum_(rule.beta1, 1 - rule.beta1, step.share),
        lr_(as_float(step.lr * step.trust_ratio * step.share)),
        mean_scale_(as_float(1 / missing_weight(rule.beta1, step.updates) / step.share)),
        beta2_(as_float(rule.beta2)),
        gain2_(as_float(1 - rule.beta2)),
        scale_(as_float(1 / __builtin_sqrt(missing_weight(rule.beta2, step.updates)))),
        eps_(as_float(rule.eps)),
        weight_decay_(as_float(rule.weight_decay)) {}

  void apply(Floats g, Floats& w, Floats* state) const { w -= lr_ * measured(g, w, state); }

  Floats measured(Floats g, Floats w, Floats* state) const {
    const Floats mean = gathered_.mean(g, state[2]);
    const Floats decayed = beta2_ * state[1];
    const Floats divided_by = decayed + gain2_ * gathered_.square(g, mean);
    const Floats way = mean_scale_ * momentum_.advance(state[0], g);
    if (gathered_.ends_step()) state[1] = decayed + gain2_ * mean * mean;
    return way / (square_root(divided_by) * scale_ + eps_) + weight_decay_ * w;
  }

 private:
  Gathered gathered_;
  PartialMomentum momentum_;
  float lr_, mean_scale_, beta2_, gain2_, scale_, eps_, weight_decay_;
};

// The ratio is that of the mean gradient so far.
template <bool kGathers>
class LarsPart {
 public:
  static constexpr std::size_t kSlots = 1 + kGathers;  // v, p

  LarsPart(const Rule& rule, const UpdateStep& step)
      : gathered_(step),
        momentum_(rule.momentum, 1, step.share),
        lr_(as_float(step.lr * step.trust_ratio)),
        weight_decay_(as_float(rule.weight_decay)) {}

  void apply(Floats g, Floats& w, Floats* state) const {
    if constexpr (kGathers) gathered_.mean(g, state[1]);
    w -= momentum_.advance(state[0], lr_ * (g + weight_decay_ * w));
  }

  Floats measured(Floats g, Floats, Floats* state) const { return gathered_.mean(g, state[1]); }

 private:
  Gathered gathered_;
  PartialMomentum momentum_;
  float lr_, weight_decay_;
};

}  // namespace
}  // namespace asup::kernels
