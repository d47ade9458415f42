#include "asup/data/sampler.h"

#include <algorithm>
#include <numeric>

#include "asup/base/error.h"

namespace asup {
namespace {

void write(torch::serialize::OutputArchive& archive, const char* key, std::uint64_t value) {
  archive.write(key, torch::tensor(static_cast<std::int64_t>(value)), /*is_buffer=*/true);
}

std::uint64_t read(torch::serialize::InputArchive& archive, const char* key) {
  torch::Tensor value;
  require(archive.try_read(key, value, /*is_buffer=*/true) && value.numel() == 1,
          "this is no saved sampler: it has no {}", key);
  return static_cast<std::uint64_t>(value.item<std::int64_t>());
}

// None, where the saved sampler is of a version that had no classes.
std::uint64_t read_labels(torch::serialize::InputArchive& archive) {
  torch::Tensor value;
  return archive.try_read("labels", value, /*is_buffer=*/true) ? read(archive, "labels") : 0;
}

void require_same(torch::serialize::InputArchive& archive, const char* key, std::uint64_t mine) {
  const std::uint64_t saved = read(archive, key);
  require(saved == mine, "the saved sampler's {} was {}, this one's is {}", key, saved, mine);
}

}  // namespace

Sampler::Sampler(int rank, int ranks, std::size_t size, SamplerOptions options)
    : rank_(static_cast<std::size_t>(rank)),
      ranks_(static_cast<std::size_t>(ranks)),
      size_(size),
      options_(std::move(options)) {
  check(ranks >= 1 && rank >= 0 && rank < ranks, "there is no rank {} of {}", rank, ranks);
  require(size >= 1, "there are no samples to train on");
  begin(options_.epoch, std::min<std::size_t>(options_.position, size));
}

void Sampler::begin(std::uint64_t epoch, std::size_t position) {
  epoch_ = epoch;
  position_ = position;
  order_ = data::GlobalOrder(size_, options_.seed, options_.shuffle, options_.labels).order(epoch);
}

void Sampler::set_epoch(std::uint64_t epoch) {
  begin(epoch, 0);
  placed_ = true;
}

void Sampler::reset(std::optional<std::size_t> new_size) {
  const bool resized = new_size && *new_size != size_;
  if (resized) {
    require(*new_size >= 1, "there are no samples to train on");
    size_ = *new_size;
  }
  if (!placed_)
    begin(epoch_ + 1, 0);
  else if (resized)
    begin(epoch_, 0);
  placed_ = false;
}

std::optional<std::vector<std::size_t>> Sampler::next(std::size_t batch_size) {
  check(batch_size >= 1, "a batch needs at least 1 sample");
  placed_ = false;
  const std::size_t global_batch = ranks_ * batch_size;
  const std::size_t left = size_ - position_;
  std::size_t count = global_batch;
  if (left < global_batch) {
    require(options_.remainder != data::Remainder::drop || size_ >= global_batch,
            "{} ranks with a batch of {} need more than the {} samples there are; use a smaller "
            "batch, or keep or pad the remainder",
            ranks_, batch_size, size_);
    if (left == 0 || options_.remainder == data::Remainder::drop) return std::nullopt;
    if (options_.remainder == data::Remainder::keep) count = std::max(left, ranks_);
  }
  const data::Part part = data::part_of(count, rank_, ranks_);
  std::vector<std::size_t> indices;
  indices.reserve(part.size());
  for (std::size_t i = part.begin; i < part.end; ++i)
    indices.push_back(static_cast<std::size_t>(order_[(position_ + i) % size_]));
  position_ += std::min(left, global_batch);
  return indices;
}

void Sampler::save(torch::serialize::OutputArchive& archive) const {
  write(archive, "size", size_);
  write(archive, "seed", options_.seed);
  write(archive, "ranks", ranks_);
  write(archive, "epoch", epoch_);
  write(archive, "position", position_);
  write(archive, "labels", options_.labels.size());
}

void Sampler::load(torch::serialize::InputArchive& archive) {
  require_same(archive, "size", size_);
  require_same(archive, "seed", options_.seed);
  require_same(archive, "ranks", ranks_);
  const std::uint64_t labels = read_labels(archive);
  require(labels == options_.labels.size(),
          "the saved sampler had {} labels, this one has {}: classes were spread otherwise", labels,
          options_.labels.size());
  const std::uint64_t position = read(archive, "position");
  require(position <= size_, "the saved sampler stood at sample {} of {}", position, size_);
  begin(read(archive, "epoch"), position);
  placed_ = true;
}

EvalSampler::EvalSampler(int rank, int ranks, std::size_t size)
    : rank_(static_cast<std::size_t>(rank)), ranks_(static_cast<std::size_t>(ranks)), size_(size) {
  check(ranks >= 1 && rank >= 0 && rank < ranks, "there is no rank {} of {}", rank, ranks);
}

void EvalSampler::reset(std::optional<std::size_t> new_size) {
  size_ = new_size.value_or(size_);
  next_ = 0;
}

std::optional<std::vector<std::size_t>> EvalSampler::next(std::size_t batch_size) {
  check(batch_size >= 1, "a batch needs at least 1 sample");
  const data::Part part = data::part_of(size_, rank_, ranks_);
  const std::size_t first = part.begin + next_, last = std::min(first + batch_size, part.end);
  if (first == last) return std::nullopt;
  std::vector<std::size_t> indices(last - first);
  std::iota(indices.begin(), indices.end(), first);
  next_ += indices.size();
  return indices;
}

void EvalSampler::save(torch::serialize::OutputArchive& archive) const {
  write(archive, "next", next_);
}

void EvalSampler::load(torch::serialize::InputArchive& archive) {
  next_ = static_cast<std::size_t>(read(archive, "next"));
}

}  // namespace asup
