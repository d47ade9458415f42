#include "asup/ps/pace/sample_allocator.h"

#include <algorithm>
#include <cmath>

#include "asup/base/error.h"

namespace asup::ps::pace {
namespace {

// Balanced leases, by their length when all share a step.
constexpr double kMostShared = 1.5;

// When `samples` would be done if all workers shared them perfectly and none had to wait: the time
// at which what each does after it is free sums up to them.
double ideal_end(const std::vector<Speeds::Worker>& workers, double samples) {
  std::vector<Speeds::Worker> by_time = workers;
  std::sort(by_time.begin(), by_time.end(),
            [](const auto& a, const auto& b) { return a.busy < b.busy; });
  double rate = 0, end = 0;
  for (std::size_t i = 0; i < by_time.size(); ++i) {
    rate += 1 / by_time[i].seconds_per_sample;
    end = by_time[i].busy + samples / rate;
    if (i + 1 == by_time.size() || end <= by_time[i + 1].busy) break;
    samples -= (by_time[i + 1].busy - by_time[i].busy) * rate;
  }
  return end;
}

}  // namespace

void require_sense(const Workload& work) {
  require(work.batch >= 1, "a batch of no samples; use a batch of at least 1");
  require(work.steps >= 1, "no steps to do; use at least one");
  require(work.steps_per_epoch >= 1, "an epoch of no steps; use a smaller batch");
  require(work.grain >= 1 && work.grain <= work.batch, "leases in grains of {} of a batch of {}",
          work.grain, work.batch);
  require(work.last_batch <= work.batch,
          "the last step of an epoch has {} samples, more than the {} of a step", work.last_batch,
          work.batch);
  require(work.first_step <= work.steps, "the job is to go on at step {}, but has only {}",
          work.first_step, work.steps);
  require(std::is_sorted(work.sync_points.begin(), work.sync_points.end()),
          "sync points must be ascending");
  require(work.sync_points.empty() || work.sync_points.back() <= work.steps,
          "a sync point at step {}, beyond the last of {}",
          work.sync_points.empty() ? 0 : work.sync_points.back(), work.steps);
}

double step_weight(const Workload& work, std::uint64_t step) {
  const bool is_last = step % work.steps_per_epoch == work.steps_per_epoch - 1;
  return is_last && work.last_batch > 0
             ? static_cast<double>(work.batch) / static_cast<double>(work.last_batch)
             : 1;
}

SampleAllocator::SampleAllocator(const Workload& work, Dealing dealing, int shares)
    : work_((require_sense(work), work)),
      dealing_(dealing),
      shares_(static_cast<std::uint64_t>(shares)),
      has_pairs_(work.batch >= 2 * shares_),
      total_(samples_between(work.first_step, work.steps)),
      step_(work.first_step) {
  check(shares >= 1, "steps of {} leases", shares);
  // The state that a job is resumed from was saved at its sync point, or after it.
  while (sync_points_passed_ < work_.sync_points.size() &&
         work_.sync_points[sync_points_passed_] <= step_)
    ++sync_points_passed_;
}

void SampleAllocator::joins(int worker) {
  check(members_.try_emplace(worker).second, "worker {} joined twice", worker);
}

int SampleAllocator::leaves(int worker) {
  const auto found = members_.find(worker);
  check(found != members_.end(), "worker {} left, but was not here", worker);
  const Member member = std::move(found->second);
  members_.erase(found);
  for (const auto& [number, lease] : member.out) give_back(lease);
  if (member.part) give_back(*member.part);
  go_on_if_done();
  return static_cast<int>(member.out.size()) + (member.part ? 1 : 0);
}

void SampleAllocator::give_back(const Lease& lease) {
  const auto is_before = [](const Lease& a, const Lease& b) {
    return a.step != b.step ? a.step < b.step : a.begin < b.begin;
  };
  returned_.insert(std::upper_bound(returned_.begin(), returned_.end(), lease, is_before), lease);
}

void SampleAllocator::balance(std::map<int, double> lengths) {
  check(dealing_ == Dealing::in_order, "fixed parts cannot be balanced");
  lengths_ = std::move(lengths);
  served_.clear();
}

std::optional<Lease> SampleAllocator::lease(int worker, const Speeds& speeds) {
  if (!has_lease_for(worker, speeds)) return std::nullopt;
  Member& member = members_.at(worker);
  Lease lease;
  if (!returned_.empty()) {
    Lease& first = returned_.front();
    lease = first;
    lease.end = first.begin + fair_length(worker, first.samples(), speeds);
    first.begin = lease.end;
    if (first.samples() == 0) returned_.pop_front();
  } else if (dealing_ == Dealing::fixed) {
    if (!is_dealt_) deal();
    lease = *member.part;
    member.part.reset();
  } else {
    lease = next_run(worker);
    lease.end = lease.begin + fair_length(worker, lease.samples(), speeds);
    offset_ = lease.end;
    if (served_.contains(worker)) served_.clear();
    served_.insert(worker);
    if (offset_ == samples_of(step_)) {
      ++step_;
      offset_ = 0;
      served_.clear();
    }
  }
  member.out.emplace(member.leases++, lease);
  return lease;
}

bool SampleAllocator::has_lease_for(int worker, const Speeds& speeds) const {
  const auto found = members_.find(worker);
  check(found != members_.end(), "worker {} wants a lease, but has not joined", worker);
  const Member& member = found->second;
  if (!returned_.empty()) return fair_length(worker, returned_.front().samples(), speeds) > 0;
  if (dealing_ == Dealing::in_order)
    return step_ < sync_point() && fair_length(worker, next_run(worker).samples(), speeds) > 0;
  if (is_dealt_) return member.part.has_value();
  const auto place = static_cast<std::uint64_t>(std::distance(members_.begin(), found));
  return step_ < sync_point() && part_of(step_, place, members_.size()).samples() > 0;
}

void SampleAllocator::done(int worker, std::uint64_t number, bool dropped) {
  const std::uint64_t samples = taken_out(worker, number).samples();
  done_ += samples;
  if (dropped) dropped_ += samples;
  go_on_if_done();
}

void SampleAllocator::redo(int worker, std::uint64_t number) {
  give_back(taken_out(worker, number));
}

Lease SampleAllocator::taken_out(int worker, std::uint64_t number) {
  const auto found = members_.find(worker);
  check(found != members_.end() && found->second.out.contains(number),
        "worker {} is done with its lease {}, which it does not have", worker, number);
  const Lease lease = found->second.out.at(number);
  found->second.out.erase(number);
  return lease;
}

std::optional<Lease> SampleAllocator::last_of(int worker) const {
  const auto found = members_.find(worker);
  if (found == members_.end() || found->second.out.empty()) return std::nullopt;
  return found->second.out.rbegin()->second;
}

bool SampleAllocator::at_sync_point() const {
  return sync_points_passed_ < work_.sync_points.size() && step_ == sync_point() && !is_dealt_ &&
         !is_out() && returned_.empty();
}

std::uint64_t SampleAllocator::sync_point() const {
  return sync_points_passed_ < work_.sync_points.size() ? work_.sync_points[sync_points_passed_]
                                                        : work_.steps;
}

void SampleAllocator::pass() {
  check(at_sync_point(), "a sync point was passed at step {}, where none is", step_);
  while (sync_points_passed_ < work_.sync_points.size() &&
         work_.sync_points[sync_points_passed_] <= step_)
    ++sync_points_passed_;
}

void SampleAllocator::sync_point_soon() {
  const std::uint64_t step = is_dealt_ || offset_ > 0 ? step_ + 1 : step_;
  if (step >= sync_point()) return;
  work_.sync_points.insert(
      work_.sync_points.begin() + static_cast<std::ptrdiff_t>(sync_points_passed_), step);
}

bool SampleAllocator::at_end() const {
  return sync_points_passed_ == work_.sync_points.size() && step_ == work_.steps && !is_dealt_ &&
         !is_out() && returned_.empty();
}

std::uint64_t SampleAllocator::samples_of(std::uint64_t step) const {
  const bool is_last = step % work_.steps_per_epoch == work_.steps_per_epoch - 1;
  return is_last && work_.last_batch > 0 ? work_.last_batch : work_.batch;
}

void SampleAllocator::deal() {
  std::uint64_t place = 0;
  for (auto& [id, member] : members_) {
    const Lease part = part_of(step_, place++, members_.size());
    member.part = part.samples() > 0 ? std::optional(part) : std::nullopt;
  }
  is_dealt_ = true;
}

// Fixed: once all of a step is done, the next can be dealt out.
void SampleAllocator::go_on_if_done() {
  if (!is_dealt_ || !returned_.empty()) return;
  for (const auto& [id, member] : members_) {
    if (member.part) return;
    for (const auto& [number, lease] : member.out)
      if (lease.step == step_) return;
  }
  ++step_;
  is_dealt_ = false;
}

bool SampleAllocator::is_out() const {
  return std::any_of(members_.begin(), members_.end(),
                     [](const auto& entry) { return !entry.second.out.empty(); });
}

Lease SampleAllocator::next_run(int worker) const {
  return lengths_.empty() ? even_run() : balanced_run(worker);
}

// What is left of the part that comes next.
Lease SampleAllocator::even_run() const {
  for (std::uint64_t index = 0;; ++index) {
    const Lease part = part_of(step_, index, shares_);
    if (offset_ < part.end) return {step_, offset_, part.end};
  }
}

// The worker's share of what is left of the step, among those who are free to take some. Where the
// others are at work, there is nobody to share with: it takes what it usually does.
Lease SampleAllocator::balanced_run(int worker) const {
  const std::uint64_t left = samples_of(step_) - offset_;
  const bool is_new_split = served_.contains(worker);
  double sum = 0;
  for (const auto& [id, member] : members_) {
    const bool is_free = member.out.empty() && (is_new_split || !served_.contains(id));
    if (is_free || id == worker) sum += length_of(id);
  }
  const double even = static_cast<double>(work_.batch) / static_cast<double>(shares_);
  const double share = static_cast<double>(left) * length_of(worker) / sum;
  const double most = even * kMostShared * length_of(worker);
  const auto samples = static_cast<std::uint64_t>(std::llround(std::min(share, most)));
  return {step_, offset_, offset_ + leaving_none_alone(samples, left)};
}

// Part `index` of a step's samples dealt out in `parts`, as data::part_of does it; with fewer parts
// where some would be of one sample.
Lease SampleAllocator::part_of(std::uint64_t step, std::uint64_t index, std::uint64_t parts) const {
  const std::uint64_t count = samples_of(step);
  if (has_pairs_) parts = std::clamp<std::uint64_t>(count / 2, 1, parts);
  if (index >= parts) return {step, count, count};
  const std::uint64_t each = count / parts, longer = count % parts;
  const std::uint64_t begin = index * each + std::min(index, longer);
  return {step, begin, begin + each + (index < longer ? 1 : 0)};
}

// About so many of those that are left: one at least, and all or two fewer rather than to leave
// one. In grains where there are larger ones: all rather than to leave less than one.
std::uint64_t SampleAllocator::leaving_none_alone(std::uint64_t samples, std::uint64_t left) const {
  if (work_.grain > 1) {
    const std::uint64_t whole = std::max(samples / work_.grain, std::uint64_t{1}) * work_.grain;
    return left < whole + work_.grain ? left : whole;
  }
  if (!has_pairs_) return std::clamp<std::uint64_t>(samples, 1, left);
  if (left < 4) return left;
  samples = std::clamp<std::uint64_t>(samples, 2, left);
  return left - samples == 1 ? left - 2 : samples;
}

double SampleAllocator::length_of(int worker) const {
  const auto found = lengths_.find(worker);
  return found == lengths_.end() ? 1 : found->second;
}

// How much of a lease of `full` samples this worker should take so that it is done about when the
// others are done with all that is left before the sync point; 0 where that is hardly anything.
std::uint64_t SampleAllocator::fair_length(int worker, std::uint64_t full,
                                           const Speeds& speeds) const {
  const auto own = speeds.workers.find(worker);
  if (dealing_ == Dealing::fixed || own == speeds.workers.end()) return full;
  std::vector<Speeds::Worker> others;
  double fastest = own->second.seconds_per_sample, latest = 0;
  for (const auto& [id, other] : speeds.workers) {
    if (!members_.contains(id)) continue;
    others.push_back(other);
    if (id == worker) others.back().busy = 0;
    fastest = std::min(fastest, other.seconds_per_sample);
    latest = std::max(latest, others.back().busy);
  }
  std::uint64_t left = samples_between(step_, sync_point()) - offset_;
  for (const Lease& lease : returned_) left += lease.samples();

  // The others take whole leases, so that the end comes half a lease after the ideal one, on
  // average, and no earlier than what is already under way.
  const double end = std::max(ideal_end(others, static_cast<double>(left)), latest) +
                     0.5 * static_cast<double>(full) * fastest;
  const double samples = end / own->second.seconds_per_sample;
  if (samples >= static_cast<double>(full)) return full;
  // For the fastest it is never less than half, so that all gets done.
  return samples >= 0.25 * static_cast<double>(full)
             ? leaving_none_alone(static_cast<std::uint64_t>(samples), full)
             : 0;
}

std::uint64_t SampleAllocator::samples_between(std::uint64_t step, std::uint64_t end) const {
  if (end <= step) return 0;
  const std::uint64_t last_steps = end / work_.steps_per_epoch - step / work_.steps_per_epoch;
  const std::uint64_t shorter = work_.last_batch > 0 ? work_.batch - work_.last_batch : 0;
  return (end - step) * work_.batch - last_steps * shorter;
}

}  // namespace asup::ps::pace
