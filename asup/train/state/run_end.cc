// How a run ends: the last test and checkpoint, its summary, the trained weights, the report.
#include <sys/resource.h>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/checkpoint/weights_sha256.h"
#include "asup/data/text/tokenizer.h"
#include "asup/distribute/recorded_timeline.h"
#include "asup/report/report.h"
#include "asup/train/device.h"
#include "asup/train/settings.h"
#include "asup/train/state/count_broken.h"
#include "asup/train/state/generate.h"
#include "asup/train/state/inputs.h"
#include "asup/train/state/run_state.h"

namespace asup::train {
namespace {

std::uint64_t peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;  // ru_maxrss counts kilobytes
}

}  // namespace

TrainEnd RunState::conclude() {
  if (switches()) return {};
  // Who was late for a sync point may lack what the others have done there.
  std::array<std::int32_t, 2> wanted{wants_last_test() ? 1 : 0, wants_last_checkpoint() ? 1 : 0};
  control().all_reduce(buffer_of(std::span(wanted)), ReduceOp::max).or_throw();
  if (wanted[0] > 0) test();
  if (wanted[1] > 0) save();
  collect_timeline();
  TrainEnd result{summarise(), !is_finished(), first_rank_};
  const Weights weights = mean_weights();
  if (first_rank_) {
    result.summary.weights_sha256 = checkpoint::weights_sha256(weights.tensors);
    write_atomically(folder_.choices_file(), to_json(context_.choices).dump(1) + "\n");
    write_weights(folder_.model_file(), weights);
    write_atomically(folder_.summary_file(), to_json(result.summary).dump(1) + "\n");
    if (timeline_) timeline_->write();
    report::write_report(folder_.path());
  }
  return result;
}

// The weights to use, with statistics that all ranks share; where the folder is kept.
Weights RunState::mean_weights() {
  Weights weights;
  with_model_to_use([&] {
    if (context_.spread) weights = {{}, context_.spread->gather(), describe_model()};
    if (!first_rank_) return;
    if (!context_.spread) weights = copy_weights(*context_.model, describe_model());
    // It takes a while, in which the others wait: a run that is to go on writes at its end.
    if (context_.test->text() && is_finished()) write_generated(weights);
  });
  return weights;
}

// Where the model is spread over workers, it is put together here, where the whole
// model's weights are for a moment in any case.
void RunState::write_generated(const Weights& weights) {
  std::shared_ptr<models::Model> model = context_.model;
  if (context_.spread) {
    model = make_model(config_, *context_.test);
    load_weights(*model, weights, config_);
  }
  const auto generated = generate(*model, *context_.test,
                                  {.temperature = config_.temperature,
                                   .top_k = config_.top_k,
                                   .seed = static_cast<std::uint64_t>(config_.seed)});
  // A token may be a part of a character.
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  write_atomically(folder_.generated_file(), generated.dump(1, ' ', false, kReplace) + "\n");
}

Metadata RunState::describe_model() const {
  return train::describe_model(config_, *context_.train,
                               std::string(models::name_of(context_.path.convolution)), step_);
}

report::Summary RunState::summarise() {
  report::Summary summary;
  summary.facts = context_.facts;
  summary.finished = is_finished();
  summary.ended_early = ends_early() && step_ < context_.length.steps;
  summary.step = step_;
  summary.test = test_;
  summary.validation = validation_;
  summary.best = best_;
  summary.final_loss = last_loss_;
  const CheckpointInfo info = checkpoint_info();
  summary.seconds = info.totals.seconds;
  summary.train_seconds = info.totals.train_seconds;
  summary.comm_s = info.totals.comm_s;
  summary.samples = info.totals.samples;
  summary.skipped_steps = info.totals.skipped_steps;
  summary.bytes_sent = info.totals.bytes_sent;
  summary.peak_memory_bytes = sum_over_ranks(peak_memory());
  summary.peak_memory_bytes_max = sum_over_ranks(peak_memory(), ReduceOp::max);
  const std::uint64_t on_device = peak_device_memory(context_.device);
  summary.peak_device_memory_bytes = sum_over_ranks(on_device);
  summary.peak_device_memory_bytes_max = sum_over_ranks(on_device, ReduceOp::max);
  summary.checkpoint = checkpoint_;
  summary.consensus_distance = context_.replica->stats().consensus_distance;
  summary.noise_scale = noise_scale();
  summary.switched_after = context_.switched_after;
  summary.lost = lost_;
  summary.broken_samples =
      count_broken(control(), *context_.train) + count_broken(control(), *context_.test);
  if (context_.validation) summary.broken_samples += count_broken(control(), *context_.validation);
  summary.parts = context_.choices.parts;
  if (context_.spread && context_.spread->has_stages()) {
    summary.bubble = context_.spread->bubble();
    control().all_reduce(buffer_of(std::span(&*summary.bubble, 1)), ReduceOp::average).or_throw();
  }
  if (context_.server && first_rank_) summary.server = keep_server_report();
  return summary;
}

std::uint64_t RunState::sum_over_ranks(std::uint64_t value, ReduceOp op) {
  auto sum = static_cast<std::int64_t>(value);
  control().all_reduce(buffer_of(std::span(&sum, 1)), op).or_throw();
  return static_cast<std::uint64_t>(sum);
}

}  // namespace asup::train
