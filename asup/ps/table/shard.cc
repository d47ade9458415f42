#include "asup/ps/table/shard.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "asup/base/error.h"
#include "asup/kernels/update.h"

namespace asup::ps::table {
namespace {

// Floats of a row's parameters that are gathered for one call of the kernels: enough that the call
// costs nothing, few enough that all of it stays in the first-level caches.
constexpr std::size_t kBlockFloats = 1024;
constexpr std::size_t kLineFloats = layout::kCacheLine / sizeof(float);

// Goes along the rows of a source.
class Position {
 public:
  Position(const Shard::Source& source, std::size_t width) : chunks_(source.chunks), width_(width) {
    skip_empty();
  }

  bool at_end() const { return chunk_ == chunks_.size(); }
  std::uint64_t row() const { return chunks_[chunk_].rows()[at_]; }
  const float* gradient() const { return chunks_[chunk_].gradient() + at_ * width_; }
  void advance() {
    ++at_;
    skip_empty();
  }

 private:
  void skip_empty() {
    while (chunk_ < chunks_.size() && at_ == chunks_[chunk_].count) {
      ++chunk_;
      at_ = 0;
    }
  }

  std::span<const Chunk> chunks_;
  std::size_t width_, chunk_ = 0, at_ = 0;
};

double common_rate(std::span<const Shard::Source> sources) {
  const bool is_one = std::ranges::all_of(
      sources, [&](const Shard::Source& source) { return source.lr == sources.front().lr; });
  if (is_one) return sources.front().lr;
  double sum = 0, weights = 0;
  for (const Shard::Source& source : sources) {
    sum += source.weight * source.lr;
    weights += source.weight;
  }
  return sum / weights;
}

// SparseAdam adds eps to the root of the second moment before the correction, Adam after it.
kernels::Rule with_eps_of_step(kernels::Rule rule, std::uint64_t step) {
  if (rule.kind == kernels::Rule::Kind::adam)
    rule.eps /= std::sqrt(1 - std::pow(rule.beta2, static_cast<double>(step)));
  return rule;
}

}  // namespace

// Rows side by side: parameters, state slot by slot, and the gradient of each source.
struct Shard::Block {
  Block(std::size_t width, std::size_t slots, std::size_t sources)
      : width(width),
        most(std::max<std::size_t>(1, kBlockFloats / width)),
        places(most),
        parameters(most * width),
        state(slots, std::vector<float>(most * width)),
        gradients(sources, std::vector<float>(most * width)) {
    for (auto& slot : state) slots_at.push_back(slot.data());
    for (auto& gradient : gradients) parts.push_back({.data = gradient.data()});
  }

  const std::size_t width, most;
  std::size_t count = 0;
  std::vector<std::uint64_t> places;
  std::vector<float> parameters;
  std::vector<std::vector<float>> state, gradients;
  std::vector<float*> slots_at;
  std::vector<kernels::GradientSource> parts;
};

Shard::Shard(const TableSetup& setup, int server, int servers)
    : setup_(setup),
      server_(server),
      servers_(servers),
      rows_(rows_on(setup.rows, server, servers)),
      width_(setup.width),
      record_(record_floats(setup)),
      words_((rows_ + 511) / 512 * 8) {  // whole lines of the cache: records begin with one
  if (rows_ == 0) return;
  void* data = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(data != MAP_FAILED, "server {} has no room for the {} MB of its rows of table {}", server,
          bytes() >> 20, setup.name);
  kept_ = static_cast<std::uint64_t*>(data);
  records_ = reinterpret_cast<float*>(kept_ + words_);
}

Shard::~Shard() {
  if (kept_) munmap(kept_, bytes());
}

bool Shard::has(std::span<const std::uint64_t> rows) const {
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i] >= setup_.rows || server_of(rows[i], servers_) != server_ ||
        (i > 0 && rows[i] <= rows[i - 1]))
      return false;
  return true;
}

void Shard::read(std::span<const std::uint64_t> rows, float* to) const {
  for (std::size_t i = 0; i < rows.size(); ++i, to += width_) {
    const std::uint64_t place = place_of(rows[i], servers_);
    if (is_kept(place))
      std::memcpy(to, record(place), width_ * sizeof(float));
    else
      initial_row(setup_, rows[i], to);
  }
}

void Shard::update(std::span<const Source> sources, double share) {
  steps_ += share;
  if (sources.empty()) return;
  const double lr = common_rate(sources);
  Block block(width_, record_ / width_ - 1, sources.size());
  std::vector<Position> positions;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    positions.emplace_back(sources[i], width_);
    const double rate = lr > 0 ? sources[i].lr / lr : 1;
    block.parts[i].weight = static_cast<float>(sources[i].weight * rate);
  }
  for (;;) {
    const Position* next = nullptr;
    for (const Position& position : positions)
      if (!position.at_end() && (!next || position.row() < next->row())) next = &position;
    if (!next || block.count == block.most) update(block, lr);
    if (!next) return;
    const std::uint64_t row = next->row(), place = place_of(row, servers_);
    for (std::size_t at = 0; at < record_; at += kLineFloats)
      __builtin_prefetch(record(place) + at);
    for (std::size_t i = 0; i < positions.size(); ++i) {
      float* gradient = block.gradients[i].data() + block.count * width_;
      if (positions[i].at_end() || positions[i].row() != row) {
        std::memset(gradient, 0, width_ * sizeof(float));
        continue;
      }
      std::memcpy(gradient, positions[i].gradient(), width_ * sizeof(float));
      positions[i].advance();
    }
    block.places[block.count++] = place;
  }
}

void Shard::update(Block& block, double lr) {
  if (block.count == 0) return;
  const std::size_t bytes = width_ * sizeof(float);
  for (std::size_t i = 0; i < block.count; ++i) {
    float* from = record(block.places[i]);
    if (!is_kept(block.places[i])) {
      initial_record(block.places[i], from);
      keep(block.places[i]);
    }
    std::memcpy(block.parameters.data() + i * width_, from, bytes);
    for (std::size_t slot = 0; slot < block.state.size(); ++slot)
      std::memcpy(block.slots_at[slot] + i * width_, from + (1 + slot) * width_, bytes);
  }
  // Adam's corrections are those of the step that the update is of, or is a share of.
  const auto step = static_cast<std::uint64_t>(std::max(1.0, std::ceil(steps_ - 1e-9)));
  kernels::update(with_eps_of_step(setup_.rule, step), {.lr = lr, .updates = step},
                  block.parameters.data(), block.slots_at.data(), block.parts, {},
                  block.count * width_);
  for (std::size_t i = 0; i < block.count; ++i) {
    float* to = record(block.places[i]);
    std::memcpy(to, block.parameters.data() + i * width_, bytes);
    for (std::size_t slot = 0; slot < block.state.size(); ++slot)
      std::memcpy(to + (1 + slot) * width_, block.slots_at[slot] + i * width_, bytes);
  }
  block.count = 0;
}

void Shard::keep(std::uint64_t place) {
  kept_[place / 64] |= std::uint64_t{1} << (place % 64);
  ++rows_kept_;
}

void Shard::initial_record(std::uint64_t place, float* to) const {
  initial_row(setup_, row_at(place, server_, servers_), to);
  std::memset(to + width_, 0, (record_ - width_) * sizeof(float));
}

void Shard::read_records(layout::Range places, float* to) const {
  for (std::uint64_t place = places.begin; place < places.end; ++place, to += record_)
    if (is_kept(place))
      std::memcpy(to, record(place), record_ * sizeof(float));
    else
      initial_record(place, to);
}

// Records as they are at the beginning take no memory.
void Shard::write_records(layout::Range places, const float* from) {
  std::vector<float> initial(record_);
  for (std::uint64_t place = places.begin; place < places.end; ++place, from += record_) {
    if (!is_kept(place)) {
      initial_record(place, initial.data());
      if (std::memcmp(initial.data(), from, record_ * sizeof(float)) == 0) continue;
      keep(place);
    }
    std::memcpy(record(place), from, record_ * sizeof(float));
  }
}

}  // namespace asup::ps::table
