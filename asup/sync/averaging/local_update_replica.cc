#include "asup/sync/averaging/local_update_replica.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <thread>
#include <utility>

#include "asup/base/error.h"
#include "asup/sync/gradients/clip.h"
#include "asup/sync/model/buffer_exchange.h"
#include "asup/sync/model/kept_tensors.h"
#include "asup/sync/model/optimizer_state.h"

namespace asup::sync {
namespace {

// The parameters that are exchanged, once it is sure that all ranks have the same.
const std::vector<NamedTensor>& agreed(Communicator& communicator, const TrainedModel& model,
                                       const std::vector<AgreedValue>& settings) {
  auto facts = agreed_values("parameter", model.parameters());
  for (auto& fact : agreed_values("buffer", model.buffers())) facts.push_back(std::move(fact));
  facts.insert(facts.end(), settings.begin(), settings.end());
  check_agreed(communicator, facts);
  return model.trainable();
}

// The same on all ranks, and another one in each job: jobs that share a link are put off apart.
std::uint64_t seed_of_jitter(Communicator& communicator) {
  std::int64_t seed = std::random_device()();
  communicator.broadcast(buffer_of(std::span(&seed, 1))).or_throw();
  return static_cast<std::uint64_t>(seed);
}

}  // namespace

LocalUpdateReplica::LocalUpdateReplica(Communicator& communicator, torch::nn::Module& module,
                                       torch::optim::Optimizer& optimizer,
                                       const std::vector<AgreedValue>& settings, Seconds jitter)
    : communicator_(communicator),
      bytes_before_(communicator.bytes_moved()),
      jitter_(jitter),
      model_(module, optimizer),
      finite_(model_, NonFinite::skip, /*warns=*/true),
      flat_(communicator, agreed(communicator, model_, settings)),
      random_(seed_of_jitter(communicator)) {
  broadcast_tensors(communicator, model_.parameters());
  broadcast_tensors(communicator, model_.buffers());
  finite_.keep_buffers();
}

StepResult LocalUpdateReplica::step() {
  const StepResult result = step_alone();
  after_step();
  return result;
}

// A step that is left out has trained on no samples: a merge does not weigh this worker by them.
StepResult LocalUpdateReplica::step_alone() {
  check(sync_,
        "there can be no step while synchronization is off: end the NoSync scope before step()");
  model_.check_unchanged();
  before_step();
  const Batches batch = std::exchange(described_, {}).value_or(Batches{1, 0, false});
  if (!finite_.admits(steps_++)) return StepResult::skipped;
  model_.step();
  batches_.samples += batch.samples;
  batches_.loss += batch.loss;
  batches_.described = batches_.described && batch.described;
  return StepResult::applied;
}

double LocalUpdateReplica::clip_grad_norm(double max_norm) {
  const double norm = clip_gradients(model_.trainable(), max_norm);
  finite_.found_norm(norm);
  return norm;
}

void LocalUpdateReplica::describe_batch(std::uint64_t samples, double loss) {
  described_ = Batches{static_cast<double>(samples), loss};
}

void LocalUpdateReplica::draw_jitter_per_rank() {
  random_.seed(random_() + static_cast<std::uint64_t>(communicator_.rank()));
}

void LocalUpdateReplica::apply_jitter() {
  if (jitter_ <= Seconds(0)) return;
  const auto start = Clock::now();
  std::this_thread::sleep_for(jitter_ * std::uniform_real_distribution<>()(random_));
  waited(start);
}

std::vector<std::int64_t> LocalUpdateReplica::counts_of_all(std::int64_t own) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(communicator_.size()));
  expect(communicator_.all_gather(buffer_of(std::span(&own, 1)), buffer_of(std::span(counts))));
  return counts;
}

void LocalUpdateReplica::expect(const Outcome& outcome) const {
  outcome.or_throw(fmt::format("exchanging models after step {}", steps_));
}

void LocalUpdateReplica::find_distance() {
  double sum = flat_.squared_distance();
  expect(communicator_.all_reduce(buffer_of(std::span(&sum, 1))));
  found_distance(sum / communicator_.size(), std::pow(flat_.all().norm().item<double>(), 2));
}

void LocalUpdateReplica::found_distance(double squared, double mean_squared) {
  consensus_distance_ = mean_squared > 0 ? std::sqrt(std::max(0.0, squared) / mean_squared) : 0;
}

// Workers may have taken different numbers of steps.
bool LocalUpdateReplica::models_differ() {
  std::int32_t differ = has_moved() ? 1 : 0;
  expect(communicator_.all_reduce(buffer_of(std::span(&differ, 1)), ReduceOp::max));
  return differ > 0;
}

// Not in flat(), where an exchange may be under way. Models that are one stay as they are: their
// mean may be off by rounding.
void LocalUpdateReplica::with_mean_model(const std::function<void()>& use) {
  const KeptTensors statistics(model_.buffers());
  average_buffers();
  if (!models_differ()) return use();
  const KeptTensors own(model_.trainable());
  average_packed(communicator_, model_.trainable());
  std::array<double, 2> squares{own.squared_distance(), 0};
  for (const NamedTensor& parameter : model_.trainable())
    squares[1] += std::pow(parameter.tensor.detach().norm().item<double>(), 2);
  expect(communicator_.all_reduce(buffer_of(std::span(squares)), ReduceOp::average));
  found_distance(squares[0], squares[1]);
  use();
}

void LocalUpdateReplica::average_buffers() {
  if (!model_.buffers().empty()) average_packed(communicator_, model_.buffers());
}

void LocalUpdateReplica::check_equal() {
  check_equal_tensors(communicator_, "parameter", model_.parameters());
}

void LocalUpdateReplica::gather_optimizer_state() {
  if (keeps_own_optimizer()) average_state(communicator_, model_.optimizer(), model_.parameters());
}

ReplicaStats LocalUpdateReplica::stats() const {
  return {.steps = steps_,
          .wait_seconds = wait_seconds_,
          .exchange_seconds = exchange_seconds_,
          .bytes_moved = communicator_.bytes_moved() - bytes_before_,
          .merges = merges_,
          .consensus_distance = consensus_distance_,
          .skipped = finite_.skipped(),
          .skipped_in_succession = finite_.in_succession(),
          .skipped_lately = finite_.lately()};
}

MadeReplica as_made(std::unique_ptr<LocalUpdateReplica> replica, NonFinite policy) {
  MadeReplica made;
  replica->set_non_finite(policy);
  made.local = replica.get();
  made.replica = std::move(replica);
  return made;
}

}  // namespace asup::sync
