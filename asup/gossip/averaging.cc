#include "asup/gossip/averaging.h"

#include <algorithm>
#include <array>

#include "asup/base/error.h"
#include "asup/kernels/code.h"

namespace asup::gossip {
namespace {

constexpr std::size_t kBlock = 1024;  // elements

}  // namespace

bool Averaging::visit(std::span<float> model) {
  check(model.size() == own_.size(), "a model of {} elements among those of {}", model.size(),
        own_.size());
  if (has_difference_) {
    for (std::size_t i = 0; i < model.size(); ++i) {
      model[i] += difference_[i];
      difference_[i] = 0;
    }
    has_difference_ = false;
  }
  if (under_way_) return false;
  std::copy(model.begin(), model.end(), own_.begin());
  return true;
}

void Averaging::begin() {
  check(!under_way_, "an exchange begins while another is under way");
  under_way_ = true;
  averaged_ = 0;
}

bool Averaging::complete(std::size_t most) {
  check(under_way_, "no exchange is under way that could be completed");
  const std::size_t end = averaged_ + std::min(most, own_.size() - averaged_);
  while (averaged_ < end) {
    const std::size_t count = std::min(kBlock, end - averaged_);
    const float* sent = own_.data() + averaged_;
    std::array<float, kBlock> rounded;
    if (in_bf16_) {
      std::array<std::byte, 2 * kBlock> code;
      kernels::encode(kernels::Code::bf16, code.data(), sent, count, {.decoded = rounded.data()});
      sent = rounded.data();
    }
    for (std::size_t i = 0; i < count; ++i, ++averaged_) {
      const float change = (theirs_[averaged_] - sent[i]) / 2;
      own_[averaged_] += change;
      difference_[averaged_] += change;
    }
  }
  has_difference_ = true;
  under_way_ = averaged_ < own_.size();
  return !under_way_;
}

}  // namespace asup::gossip
