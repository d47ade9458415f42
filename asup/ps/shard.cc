#include "asup/ps/shard.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "asup/base/error.h"
#include "asup/base/out_of_memory.h"
#include "asup/kernels/copy.h"

namespace asup::ps {
namespace {

// Elements of one part of a job: large enough that taking it costs nothing, small enough that a few
// threads end together.
constexpr std::uint64_t kPart = 64 * 1024;

// Goes along sorted ranges that do not overlap.
template <typename Item>
class Cursor {
 public:
  Cursor(std::span<const Item> items, std::uint64_t at) : items_(items) {
    next_ = static_cast<std::size_t>(
        std::partition_point(items.begin(), items.end(),
                             [&](const Item& item) { return range_of(item).end <= at; }) -
        items.begin());
  }

  // The item that holds the element, or none; from one call to the next, `at` only grows.
  const Item* at(std::uint64_t at) {
    while (next_ < items_.size() && range_of(items_[next_]).end <= at) ++next_;
    const bool covered = next_ < items_.size() && range_of(items_[next_]).begin <= at;
    return covered ? &items_[next_] : nullptr;
  }
  // Up to here at() gives the same. needs: a call of at() before
  std::uint64_t until(std::uint64_t at) const {
    if (next_ == items_.size()) return std::numeric_limits<std::uint64_t>::max();
    const Range range = range_of(items_[next_]);
    return range.begin <= at ? range.end : range.begin;
  }

 private:
  static Range range_of(const Range& item) { return item; }
  static Range range_of(const Stretch& item) { return item.range; }
  static Range range_of(const Shard::Segment& item) { return item.range; }

  std::span<const Item> items_;
  std::size_t next_;
};

}  // namespace

Floats::Floats(std::size_t count) : size_(count) {
  if (count == 0) return;
  const std::size_t bytes = count * sizeof(float);
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw OutOfMemory(fmt::format("no memory for {} parameters", count));
  madvise(data, bytes, MADV_HUGEPAGE);
  data_ = static_cast<float*>(data);
}

Floats::~Floats() {
  if (data_) munmap(data_, size_ * sizeof(float));
}

Shard::Shard(Range range, const ServerSetup& setup, std::vector<std::uint64_t> cuts)
    : range_(range), rules_(setup.rules), parameters_(range.size()) {
  for (std::size_t slot = 0; slot < state_slots(setup); ++slot) state_.emplace_back(range.size());
  const std::vector<layout::Part> parts = parts_in(setup.layout, range);
  for (const layout::Part& part : parts)
    if (std::ranges::find(setup.copies, part.tensor) != setup.copies.end())
      copies_.push_back(part.range);
  for (const layout::Part& part : parts)
    if (kernels::needs_whole_tensors(rules_[group_of(setup, part.tensor)]))
      tensors_.push_back(part.range);
  cuts.push_back(range.begin);
  cuts.push_back(range.end);
  for (const layout::Part& part : parts) cuts.push_back(part.range.begin);
  // Under LARS and LAMB a run of elements is never longer than its tensor.
  for (const Range& tensor : tensors_) cuts.insert(cuts.end(), {tensor.begin, tensor.end});
  std::erase_if(cuts, [&](std::uint64_t at) { return at < range.begin || at > range.end; });
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::size_t next = 0;  // the first part that begins after the segment's begin
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    while (next < parts.size() && parts[next].range.begin <= cuts[i]) ++next;
    const std::size_t group = next > 0 ? group_of(setup, parts[next - 1].tensor) : 0;
    segments_.push_back({{cuts[i], cuts[i + 1]}, group});
  }
}

std::uint64_t Shard::bytes() const { return range_.size() * sizeof(float) * (1 + state_.size()); }

void Shard::begin_with(Floats parameters, std::vector<Floats> state) {
  const auto fits = [&](const Floats& floats) { return floats.size() == range_.size(); };
  check(fits(parameters) && (state.empty() || state.size() == state_.size()) &&
            std::all_of(state.begin(), state.end(), fits),
        "{} parameters and {} slots for a shard of {} and {}", parameters.size(), state.size(),
        range_.size(), state_.size());
  parameters_ = std::move(parameters);
  for (std::size_t slot = 0; slot < state.size(); ++slot) state_[slot] = std::move(state[slot]);
}

double Shard::steps_of(Range tensor) const {
  const auto found = std::find_if(segments_.begin(), segments_.end(), [&](const Segment& segment) {
    return segment.range.begin <= tensor.begin && tensor.begin < segment.range.end;
  });
  return found == segments_.end() ? 0 : static_cast<double>(found->updates) + found->gathered;
}

void Shard::set_steps(Range tensor, double steps) {
  for (Segment& segment : segments_) {
    if (segment.range.begin < tensor.begin || segment.range.begin >= tensor.end) continue;
    segment.updates = static_cast<std::uint64_t>(steps);
    segment.gathered = steps - std::floor(steps);
  }
}

std::size_t Shard::parts() const {
  return static_cast<std::size_t>((range_.size() + kPart - 1) / kPart);
}

// Walks along a job's memory: which sources and targets hold the elements at hand.
struct Shard::Walk {
  Walk(const Shard& shard, const Job& job, Range part) : segments(shard.segments_, part.begin) {
    for (const Source& source : job.sources) sources.emplace_back(source.gradient, part.begin);
    for (const Target& target : job.targets) targets.emplace_back(target.ranges, part.begin);
  }

  // The end of the run of elements from `at` that have the same sources and targets.
  std::uint64_t look(std::uint64_t at, std::uint64_t end) {
    segment = segments.at(at);
    end = std::min(end, segments.until(at));
    gradients.clear();
    for (auto& source : sources) {
      gradients.push_back(source.at(at));
      end = std::min(end, source.until(at));
    }
    wanted.clear();
    for (auto& target : targets) {
      wanted.push_back(target.at(at) != nullptr);
      end = std::min(end, target.until(at));
    }
    return end;
  }
  bool trained() const {
    return std::any_of(gradients.begin(), gradients.end(), [](auto* stretch) { return stretch; });
  }

  Cursor<Segment> segments;
  std::vector<Cursor<Stretch>> sources;
  std::vector<Cursor<Range>> targets;
  const Segment* segment = nullptr;
  std::vector<const Stretch*> gradients;  // of each source, at hand
  std::vector<bool> wanted;               // by each target
};

namespace {

// Sources count by their weights and by their learning rates, where these differ. One rate is not
// averaged, so that a synchronous step has it to the last bit.
Shard::Job::Group group_of_job(const Shard::Job& job, std::size_t group) {
  const auto& sources = job.sources;
  const double first = sources.front().lr[group];
  const bool is_one = std::ranges::all_of(
      sources, [&](const Shard::Source& source) { return source.lr[group] == first; });
  double mean = 0;
  for (const Shard::Source& source : sources) mean += source.weight * source.lr[group];
  Shard::Job::Group made{(is_one ? first : mean) * job.gain, 1, {}};
  for (const Shard::Source& source : sources)
    made.weights.push_back(is_one ? source.weight : source.weight * source.lr[group] / mean);
  return made;
}

}  // namespace

namespace {

// The segment has a share more of its step, which ends where it is whole.
void advance(Shard::Segment& segment, double share) {
  segment.step = segment.updates + 1;
  segment.gathered_before = segment.gathered;
  const kernels::UpdateStep update{.share = share, .gathered = segment.gathered};
  segment.gathered += share;
  if (!update.ends_step()) return;
  ++segment.updates;
  const double beyond = segment.gathered - 1;
  segment.gathered = beyond > 1e-9 ? beyond - std::floor(beyond) : 0;
}

}  // namespace

void Shard::begin(Job& job) {
  job.groups.clear();
  for (std::size_t group = 0; group < rules_.size(); ++group) {
    job.groups.push_back(group_of_job(job, group));
    // Merging knows no steps: what is pushed counts by the gain alone.
    if (rules_[group].kind != kernels::Rule::Kind::merge) job.groups.back().share = job.share;
  }
  for (Segment& segment : segments_) {
    const bool trained =
        std::any_of(job.sources.begin(), job.sources.end(), [&](const Source& source) {
          Cursor<Stretch> cursor(source.gradient, segment.range.begin);
          return cursor.at(segment.range.begin) != nullptr;
        });
    if (trained) advance(segment, job.groups[segment.group].share);
  }
  job.trust.assign(tensors_.size(), 1.0);
  if (job.compares) job.compared.assign(parts(), {});
  if (job.clip > 0) job.squares.assign(parts(), 0.0);
}

namespace {

// The gradient of the elements from `at` on, averaged over the sources that have one there.
kernels::Gradient gradient_at(const Shard::Job& job, std::size_t group, Range shard,
                              std::uint64_t at, const std::vector<const Stretch*>& stretches,
                              std::vector<kernels::GradientSource>& parts) {
  const std::vector<double>& weights = job.groups[group].weights;
  double sum = 0;
  for (std::size_t i = 0; i < stretches.size(); ++i)
    if (stretches[i]) sum += weights[i];
  parts.clear();
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    if (!stretches[i]) continue;
    const Shard::Source& source = job.sources[i];
    parts.push_back({stretches[i]->data + (at - stretches[i]->range.begin),
                     static_cast<float>(weights[i] / sum * source.scale * job.factor),
                     source.seen ? source.seen + (at - shard.begin) : nullptr,
                     static_cast<float>(job.compensation * source.scale)});
  }
  return parts;
}

}  // namespace

// Of a whole step the learning rate has the gain in it, which for a part is its share's affair.
kernels::UpdateStep Shard::step_of(const Job& job, const Segment& segment) const {
  const Job::Group& group = job.groups[segment.group];
  return {.lr = group.lr / group.share,
          .updates = segment.step,
          .share = group.share,
          .gathered = segment.gathered_before};
}

bool Shard::gathers(const Job& job, const Segment& segment) const {
  return !step_of(job, segment).is_whole() && kernels::gathers_gradients(rules_[segment.group]);
}

std::size_t Shard::measures(const Job& job) const {
  return job.sources.empty() ? 0 : tensors_.size();
}

void Shard::measure(Job& job, std::size_t part) const {
  const Range tensor = tensors_[part];
  Walk walk(*this, job, tensor);
  kernels::SquareSums sums;
  std::vector<kernels::GradientSource> parts;
  std::vector<const float*> state;
  for (std::uint64_t at = tensor.begin; at < tensor.end;) {
    const std::uint64_t end = walk.look(at, tensor.end);
    if (walk.trained()) {
      const std::size_t group = walk.segment->group;
      const std::uint64_t offset = at - range_.begin;
      state.clear();
      for (std::size_t slot = 0; slot < kernels::state_slots(rules_[group]); ++slot)
        state.push_back(state_[slot].data() + offset);
      if (gathers(job, *walk.segment)) state.push_back(state_.back().data() + offset);
      sums += kernels::sums_for_ratio(
          rules_[group], step_of(job, *walk.segment), parameters() + offset, state.data(),
          gradient_at(job, group, range_, at, walk.gradients, parts), end - at);
    }
    at = end;
  }
  job.trust[part] = kernels::trust_ratio(rules_[walk.segment->group], sums);
}

Range Shard::range_of(std::size_t part) const {
  return {range_.begin + part * kPart, std::min(range_.end, range_.begin + (part + 1) * kPart)};
}

// Of gradients as they were computed: neither clipped nor compensated.
void Shard::compare(Job& job, std::size_t part) const {
  const Range whole = range_of(part);
  const auto count = static_cast<double>(job.sources.size());
  Walk walk(*this, job, whole);
  std::vector<kernels::GradientSource> parts;
  for (std::uint64_t at = whole.begin; at < whole.end;) {
    const std::uint64_t end = walk.look(at, whole.end);
    parts.clear();
    double sum = 0;
    for (std::size_t i = 0; i < job.sources.size(); ++i) {
      const Stretch* stretch = walk.gradients[i];
      if (!stretch) break;
      const float* data = stretch->data + (at - stretch->range.begin);
      parts.push_back({data, static_cast<float>(job.sources[i].weight)});
      sum += kernels::sum_of_squares(data, end - at);
    }
    if (parts.size() == job.sources.size())
      job.compared[part] +=
          {sum / count,
           kernels::sums_of_squares(parameters() + (at - range_.begin), parts, end - at).gradient};
    at = end;
  }
}

void Shard::add_squares(Job& job, std::size_t part) const {
  const Range whole = range_of(part);
  Walk walk(*this, job, whole);
  Cursor<Range> copies(copies_, whole.begin);
  std::vector<kernels::GradientSource> parts;
  for (std::uint64_t at = whole.begin; at < whole.end;) {
    const bool is_copy = copies.at(at) != nullptr;
    const std::uint64_t end = std::min(walk.look(at, whole.end), copies.until(at));
    if (walk.trained() && !is_copy)
      job.squares[part] +=
          kernels::sums_of_squares(
              parameters() + (at - range_.begin),
              gradient_at(job, walk.segment->group, range_, at, walk.gradients, parts), end - at)
              .gradient;
    at = end;
  }
}

void Shard::run(const Job& job, std::size_t part) {
  const Range whole = range_of(part);
  Walk walk(*this, job, whole);
  Cursor<Range> tensors(tensors_, whole.begin);
  std::vector<kernels::GradientSource> parts;
  std::vector<float*> copies;
  std::vector<float*> state;
  for (std::uint64_t at = whole.begin; at < whole.end;) {
    const std::uint64_t end = walk.look(at, whole.end);
    const std::uint64_t offset = at - range_.begin;
    copies.clear();
    for (std::size_t i = 0; i < job.targets.size(); ++i)
      if (walk.wanted[i]) copies.push_back(job.targets[i].data + offset);
    if (walk.trained()) {
      const std::size_t group = walk.segment->group;
      kernels::UpdateStep step = step_of(job, *walk.segment);
      if (const Range* tensor = tensors.at(at))
        step.trust_ratio = job.trust[static_cast<std::size_t>(tensor - tensors_.data())];
      state.clear();
      for (std::size_t slot = 0; slot < kernels::state_slots(rules_[group]); ++slot)
        state.push_back(state_[slot].data() + offset);
      if (gathers(job, *walk.segment)) state.push_back(state_.back().data() + offset);
      kernels::update(rules_[group], step, parameters() + offset, state.data(),
                      gradient_at(job, group, range_, at, walk.gradients, parts), copies, end - at);
    } else {
      for (float* copy : copies)
        kernels::copy(copy, parameters() + offset, (end - at) * sizeof(float));
    }
    at = end;
  }
}

}  // namespace asup::ps
