#include "asup/sync/gradients/residuals.h"

#include <algorithm>
#include <cmath>

#include "asup/base/error.h"
#include "asup/kernels/update.h"

namespace asup::sync {
namespace {

torch::Tensor zeros_of(std::size_t count) {
  return torch::zeros({static_cast<std::int64_t>(count)}, torch::kFloat32);
}

std::span<float> numbers_of(const torch::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

torch::Tensor part(const torch::Tensor& of, const layout::Range& range) {
  return of.narrow(0, static_cast<std::int64_t>(range.begin),
                   static_cast<std::int64_t>(range.size()));
}

}  // namespace

Residuals::Residuals(const Buckets& buckets, const std::vector<NamedTensor>& parameters,
                     Compressor* compressor)
    : parameters_(parameters), compressor_(compressor) {
  take_layout(buckets);
  before_ = zeros();
  after_ = zeros();
}

void Residuals::take_layout(const Buckets& buckets) {
  places_.clear();
  sizes_.assign(buckets.size(), 0);
  for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    if (!buckets.coded(bucket)) continue;
    sizes_[bucket] = static_cast<std::size_t>(buckets.layout(bucket).elements);
    for (const auto& tensor : buckets.layout(bucket).tensors)
      places_.push_back({tensor.index, bucket, tensor.range.begin});
  }
}

layout::Range Residuals::kept_of(std::size_t bucket) const {
  return compressor_ ? compressor_->keeps_of(sizes_[bucket]) : layout::Range{0, sizes_[bucket]};
}

bool Residuals::keeps_whole(std::size_t bucket) const {
  return kept_of(bucket).size() == sizes_[bucket];
}

Residuals::ByBucket Residuals::zeros() const {
  ByBucket all(sizes_.size());
  for (std::size_t bucket = 0; bucket < sizes_.size(); ++bucket)
    if (sizes_[bucket] > 0)
      all[bucket] = zeros_of(static_cast<std::size_t>(kept_of(bucket).size()));
  return all;
}

const float* Residuals::carried(std::size_t bucket) const {
  return (first_round_ ? before_ : after_)[bucket].const_data_ptr<float>();
}

void Residuals::set_unit(double unit) {
  for (torch::Tensor& carried : before_)
    if (carried.defined() && unit_ > 0 && unit != unit_) carried.mul_(unit / unit_);
  unit_ = unit;
}

void Residuals::drop(std::size_t parameter) {
  for (const Place& place : places_) {
    if (place.parameter != parameter) continue;
    const layout::Range kept = kept_of(place.bucket);
    const auto elements = static_cast<std::uint64_t>(parameters_[parameter].tensor.numel());
    layout::Range here = layout::intersection({place.first, place.first + elements}, kept);
    if (here.empty()) continue;
    here = {here.begin - kept.begin, here.end - kept.begin};
    part(after_[place.bucket], here).copy_(part(before_[place.bucket], here));
  }
}

void Residuals::end_step(bool applied) {
  if (applied) std::swap(before_, after_);
  first_round_ = true;
}

void Residuals::move_to(const Buckets& buckets) {
  const auto before = by_parameter(before_), after = by_parameter(after_);
  take_layout(buckets);
  before_ = laid_out(before);
  after_ = laid_out(after);
}

std::vector<NamedTensor> Residuals::tensors() const {
  const auto carried = by_parameter();
  std::vector<NamedTensor> tensors;
  for (const Place& place : places_)
    tensors.push_back({parameters_[place.parameter].name, carried[place.parameter]});
  return tensors;
}

double Residuals::norm() const {
  double squares = 0;
  for (const torch::Tensor& carried : before_)
    if (carried.defined())
      squares += kernels::sum_of_squares(numbers_of(carried).data(), numbers_of(carried).size());
  return std::sqrt(squares);
}

void Residuals::clear() {
  for (torch::Tensor& carried : before_)
    if (carried.defined()) carried.zero_();
}

void Residuals::restore(std::span<const NamedTensor> tensors, const std::string& prefix) {
  std::vector<torch::Tensor> carried(parameters_.size());
  for (const Place& place : places_) {
    const std::string name = prefix + parameters_[place.parameter].name;
    const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
    check(found != tensors.end(), "nothing was kept that is called {}", name);
    carried[place.parameter] = found->tensor;
  }
  before_ = laid_out(carried);
}

std::vector<torch::Tensor> Residuals::by_parameter(const ByBucket& kept) const {
  ByBucket whole = kept;
  for (std::size_t bucket = 0; bucket < whole.size(); ++bucket) {
    if (!kept[bucket].defined() || keeps_whole(bucket)) continue;
    whole[bucket] = zeros_of(sizes_[bucket]);
    part(whole[bucket], kept_of(bucket)).copy_(kept[bucket]);
  }
  std::vector<torch::Tensor> tensors(parameters_.size());
  for (const Place& place : places_) tensors[place.parameter] = view(whole[place.bucket], place);
  return tensors;
}

Residuals::ByBucket Residuals::laid_out(const std::vector<torch::Tensor>& by_parameter) const {
  ByBucket all(sizes_.size());
  for (std::size_t bucket = 0; bucket < sizes_.size(); ++bucket)
    if (sizes_[bucket] > 0) all[bucket] = zeros_of(sizes_[bucket]);
  for (const Place& place : places_)
    view(all[place.bucket], place).copy_(by_parameter[place.parameter]);
  if (!compressor_) return all;
  ByBucket kept = zeros();
  for (std::size_t bucket = 0; bucket < sizes_.size(); ++bucket)
    if (sizes_[bucket] > 0)
      compressor_->share_out(numbers_of(all[bucket]), numbers_of(kept[bucket]));
  return kept;
}

torch::Tensor Residuals::view(const torch::Tensor& bucket, const Place& place) const {
  return host_view_like(parameters_[place.parameter].tensor, bucket.data_ptr<float>() + place.first,
                        std::make_shared<torch::Tensor>(bucket));
}

}  // namespace asup::sync
