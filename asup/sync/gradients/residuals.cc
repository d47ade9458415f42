#include "asup/sync/gradients/residuals.h"

#include <algorithm>

namespace asup::sync {

Residuals::Residuals(const Buckets& buckets, const std::vector<NamedTensor>& parameters)
    : parameters_(parameters),
      places_(places_in(buckets)),
      before_(zeros(buckets)),
      after_(zeros(buckets)) {}

std::vector<Residuals::Place> Residuals::places_in(const Buckets& buckets) {
  std::vector<Place> places;
  for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket)
    for (const auto& tensor : buckets.layout(bucket).tensors)
      if (buckets.coded(bucket)) places.push_back({tensor.index, bucket, tensor.range.begin});
  return places;
}

Residuals::ByBucket Residuals::zeros(const Buckets& buckets) {
  ByBucket all(buckets.size());
  for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket)
    if (buckets.coded(bucket))
      all[bucket] = torch::zeros({static_cast<std::int64_t>(buckets.layout(bucket).elements)});
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
  for (const Place& place : places_)
    if (place.parameter == parameter) view(after_, place).copy_(view(before_, place));
}

void Residuals::end_step(bool applied) {
  if (applied) std::swap(before_, after_);
  first_round_ = true;
}

void Residuals::move_to(const Buckets& buckets) {
  const std::vector<Place> places = places_in(buckets);
  for (ByBucket* all : {&before_, &after_}) {
    const ByBucket moved = zeros(buckets);
    for (const Place& to : places) {
      const auto from = std::find_if(places_.begin(), places_.end(), [&](const Place& place) {
        return place.parameter == to.parameter;
      });
      view(moved, to).copy_(view(*all, *from));
    }
    *all = moved;
  }
  places_ = places;
}

std::vector<NamedTensor> Residuals::tensors() const {
  std::vector<NamedTensor> tensors;
  for (const Place& place : places_)
    tensors.push_back({parameters_[place.parameter].name, view(before_, place)});
  return tensors;
}

torch::Tensor Residuals::view(const ByBucket& all, const Place& place) const {
  const torch::Tensor& memory = all[place.bucket];
  return host_view_like(parameters_[place.parameter].tensor, memory.data_ptr<float>() + place.first,
                        std::make_shared<torch::Tensor>(memory));
}

}  // namespace asup::sync
