#include "tests/ps/pace/cluster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace asup::ps::pace {

Cluster::Cluster(const SchedulerOptions& options, Scene scene)
    : options_(options),
      scene_(std::move(scene)),
      head_(options),
      workers_(static_cast<std::size_t>(options.workers)),
      version_(options.version) {}

void Cluster::run(double until) {
  for (int worker = 0; worker < options_.workers; ++worker)
    if (!workers_[static_cast<std::size_t>(worker)].is_here && now_ == 0) join(worker);
  while (step(until)) {
  }
}

void Cluster::at(double time, std::function<void(Cluster&)> action) {
  actions_.emplace(time, std::move(action));
}

void Cluster::lose(int worker) {
  workers_[static_cast<std::size_t>(worker)].is_here = false;
  workers_[static_cast<std::size_t>(worker)].done = kForever;
  workers_[static_cast<std::size_t>(worker)].is_at_sync_point = false;
  carry_out(head_.left(worker, now_));
  workers_[static_cast<std::size_t>(worker)] = {};
  pass_sync_point();
}

void Cluster::join(int worker) {
  workers_[static_cast<std::size_t>(worker)] = {};
  workers_[static_cast<std::size_t>(worker)].is_here = true;
  carry_out(head_.arrived(worker, now_));
}

bool Cluster::step(double until) {
  const auto next =
      std::min_element(workers_.begin(), workers_.end(),
                       [](const Worker& a, const Worker& b) { return a.done < b.done; });
  const double wake = head_.wake().value_or(kForever);
  const double action = actions_.empty() ? kForever : actions_.begin()->first;
  const double time = std::min({next->done, wake, action});
  if (time == kForever || time > until) return false;
  now_ = std::max(now_, time);
  if (action == time) {
    const auto act = actions_.begin()->second;
    actions_.erase(actions_.begin());
    act(*this);
  } else if (wake < next->done) {
    carry_out(head_.tick(now_));
  } else {
    Push push;
    push.worker = static_cast<int>(next - workers_.begin());
    push.number = next->number++;
    push.version = next->version;
    push.samples = next->lease ? next->lease->samples() : 1;
    push.loss_sum = (loss ? loss(next->applied) : 1) * static_cast<double>(push.samples);
    if (on_push) on_push(push);
    next->pushes[push.number] = next->lease;
    next->done = kForever;
    carry_out(head_.pushed(push, now_));
  }
  pass_sync_point();
  return true;
}

void Cluster::pass_sync_point() {
  std::set<int> met;
  for (std::size_t worker = 0; worker < workers_.size(); ++worker)
    if (workers_[worker].is_at_sync_point) met.insert(static_cast<int>(worker));
  for (const int worker : met) {
    workers_[static_cast<std::size_t>(worker)].is_at_sync_point = false;
    carry_out(head_.passed_sync_point(worker, met, now_));
  }
}

void Cluster::carry_out(const Decisions& decisions) {
  for (const Decision& decision : decisions) {
    if (on_decision) on_decision(decision);
    std::visit([&](const auto& one) { carry_out(one); }, decision);
  }
  // Those who are sent to a sync point are all sent at once.
  const auto is_sync_point = [](const Decision& decision) {
    const auto* release = std::get_if<Clearance>(&decision);
    return release != nullptr && release->to == Clearance::To::sync_point;
  };
  const auto sent = std::count_if(decisions.begin(), decisions.end(), is_sync_point);
  if (sent > 0) {
    ++sync_points_;
    EXPECT_EQ(sent, std::count_if(workers_.begin(), workers_.end(),
                                  [](const Worker& worker) { return worker.is_here; }));
    for (const Worker& worker : workers_) {
      EXPECT_TRUE(worker.pushes.empty()) << "a push was left at a sync point";
      EXPECT_EQ(worker.done, kForever) << "a worker was at work at a sync point";
    }
  }
}

void Cluster::carry_out(const Update& update) {
  EXPECT_EQ(update.version, ++version_);
  EXPECT_FALSE(update.parts.empty());
  double weights = 0;
  std::uint64_t samples = 0;
  for (const Update::Part& part : update.parts) {
    weights += part.weight;
    Worker& worker = workers_[static_cast<std::size_t>(part.worker)];
    const auto found = worker.pushes.find(part.number);
    ASSERT_NE(found, worker.pushes.end()) << "worker " << part.worker << " push " << part.number;
    const auto lease = found->second;
    worker.pushes.erase(found);
    const std::uint64_t count = lease ? lease->samples() : 1;
    samples += count;
    history_.push_back(
        {now_, static_cast<double>(count), static_cast<double>(count) * part.staleness.steps});
    if (!lease) continue;
    auto& step = applied_[lease->step];
    if (step.size() < lease->end) step.resize(lease->end);
    for (std::uint64_t i = lease->begin; i < lease->end; ++i) ++step[i];
  }
  EXPECT_NEAR(weights, 1, 1e-12);
  EXPECT_EQ(samples, update.samples);
  samples_ += samples;
  lr_moved_ += update.gain;
}

void Cluster::carry_out(const Drop& drop) {
  EXPECT_EQ(workers_[static_cast<std::size_t>(drop.worker)].pushes.erase(drop.number), 1u);
}

void Cluster::carry_out(const Clearance& release) {
  Worker& worker = workers_[static_cast<std::size_t>(release.worker)];
  EXPECT_TRUE(worker.is_here) << "a worker was released that is not here";
  EXPECT_EQ(worker.done, kForever) << "a worker was released that is at work";
  EXPECT_EQ(release.version, version_);
  if (release.to == Clearance::To::end) {
    ++ended_;
    return;
  }
  if (release.to == Clearance::To::sync_point) {
    worker.is_at_sync_point = true;
    return;
  }
  worker.version = release.version;
  worker.applied = samples_;
  worker.lease = release.lease;
  double length = 1;
  if (release.lease)
    length = static_cast<double>(release.lease->samples()) * options_.workers /
             static_cast<double>(options_.work->batch);
  worker.done = now_ + scene_(release.worker, length, now_);
}

Cluster::Span Cluster::span(double from, double to) const {
  Span span;
  for (const Applied& applied : history_) {
    if (applied.time <= from || applied.time > to) continue;
    span.samples += applied.samples;
    span.staleness += applied.staleness;
  }
  return span;
}

}  // namespace asup::ps::pace
