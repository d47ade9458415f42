#include "asup/report/records.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace asup::report {

using json = nlohmann::ordered_json;

void StepRecord::add(const StepRecord& later) {
  const auto mine = static_cast<double>(samples);
  const auto theirs = static_cast<double>(later.samples);
  if (!std::isfinite(loss))
    loss = later.loss;
  else if (theirs > 0 && std::isfinite(later.loss))
    loss = (loss * mine + later.loss * theirs) / (mine + theirs);
  step = later.step;
  epoch = later.epoch;
  lr = later.lr;
  samples += later.samples;
  step_seconds += later.step_seconds;
  comm_s += later.comm_s;
  seconds = later.seconds;
  merges += later.merges;
  if (later.consensus_distance) consensus_distance = later.consensus_distance;
  if (later.noise_scale) noise_scale = later.noise_scale;
  sync = later.sync;
  parts = later.parts;
  waits = later.waits;
  skipped += later.skipped;
}

json to_json(const StepRecord& record) {
  json out = {{"step", record.step},
              {"epoch", record.epoch},
              {"loss", record.loss},
              {"lr", record.lr},
              {"samples", record.samples},
              {"samples_per_s", record.samples_per_s()},
              {"step_s", record.step_seconds},
              {"comm_s", record.comm_s},
              {"comm_share", record.comm_share()},
              {"seconds", record.seconds}};
  if (record.consensus_distance) {
    out["merges"] = record.merges;
    out["consensus_distance"] = *record.consensus_distance;
  }
  if (record.noise_scale) out["noise_scale"] = *record.noise_scale;
  if (!record.sync.empty()) out["sync"] = record.sync;
  if (!record.parts.empty()) out["parts"] = record.parts;
  if (!record.waits.empty()) out["waits_s"] = record.waits;
  if (record.skipped > 0) out["skipped"] = record.skipped;
  return out;
}

namespace {

constexpr std::string_view kTest = "test_", kValidation = "validation_";

std::string key(std::string_view set, std::string_view figure) {
  return std::string(set).append(figure);
}

}  // namespace

void put_figures(json& out, const EvalRecord& test) {
  const auto put = [&](std::string_view figure, const std::optional<double>& value) {
    if (value) out[key(test.validation ? kValidation : kTest, figure)] = *value;
  };
  put("loss", test.loss);
  put("accuracy", test.accuracy);
  put("top5", test.top5);
  put("perplexity", test.perplexity);
  put("bits_per_byte", test.bits_per_byte);
}

json to_json(const EvalRecord& record) {
  json out = {{"step", record.step}, {"epoch", record.epoch}};
  put_figures(out, record);
  out[key(record.validation ? kValidation : kTest, "samples")] = record.samples;
  out["eval_s"] = record.eval_seconds;
  out["seconds"] = record.seconds;
  return out;
}

json to_json(const RunFacts& facts) {
  json out = {{"model", facts.model},
              {"data", facts.data},
              {"optimizer", facts.optimizer},
              {"learning_rate", facts.learning_rate},
              {"sync", facts.sync},
              {"pace", facts.pace},
              {"links", facts.links},
              {"convolution_path", facts.convolution_path},
              {"memory_format", facts.memory_format},
              {"precision", facts.precision},
              {"workers", facts.workers},
              {"servers", facts.servers},
              {"threads", facts.threads},
              {"device", facts.device},
              {"batch", facts.batch},
              {"parameters", facts.parameters},
              {"train_samples", facts.train_samples},
              {"test_samples", facts.test_samples},
              {"steps", facts.steps},
              {"steps_per_epoch", facts.steps_per_epoch},
              {"first_step", facts.first_step},
              {"command", facts.command},
              {"began", facts.began},
              {"hosts", facts.hosts},
              {"versions", facts.versions}};
  if (!facts.then.empty()) out["then"] = facts.then;
  if (facts.pipeline > 1) {
    out["pipeline"] = facts.pipeline;
    out["pipeline_schedule"] = facts.pipeline_schedule;
    out["microbatches"] = facts.micro_batches;
    out["stages"] = facts.stages;
  }
  if (facts.tensor > 1) {
    out["tensor"] = facts.tensor;
    out["tensor_groups"] = facts.tensor_groups;
  }
  if (!facts.batch_schedule.empty()) {
    out["batch_schedule"] = facts.batch_schedule;
    out["updates"] = facts.updates;
  }
  if (facts.validation_samples > 0) out["validation_samples"] = facts.validation_samples;
  if (facts.tokens_per_sample > 0) out["tokens_per_sample"] = facts.tokens_per_sample;
  return out;
}

json to_json(const BestTest& best) {
  return {{"step", best.step}, {"figure", best.figure}, {"tests_since", best.tests_since}};
}

json to_json(const Summary& summary) {
  json out = {{"finished", summary.finished},
              {"step", summary.step},
              {"final_loss", summary.final_loss},
              {"seconds", summary.seconds},
              {"train_seconds", summary.train_seconds},
              {"samples", summary.samples},
              {"samples_per_s", summary.samples_per_s()},
              {"comm_s", summary.comm_s},
              {"comm_share", summary.comm_share()},
              {"bytes_sent", summary.bytes_sent},
              {"peak_memory_bytes", summary.peak_memory_bytes},
              {"peak_memory_bytes_max", summary.peak_memory_bytes_max},
              {"weights_sha256", summary.weights_sha256},
              {"checkpoint", summary.checkpoint}};
  if (summary.peak_device_memory_bytes > 0) {
    out["peak_device_memory_bytes"] = summary.peak_device_memory_bytes;
    out["peak_device_memory_bytes_max"] = summary.peak_device_memory_bytes_max;
  }
  out.update(to_json(summary.facts));
  if (summary.test) put_figures(out, *summary.test);
  if (summary.validation) put_figures(out, *summary.validation);
  if (summary.best) out["best_test"] = to_json(*summary.best);
  if (summary.ended_early) out["ended_early"] = true;
  if (summary.consensus_distance) out["consensus_distance"] = *summary.consensus_distance;
  if (summary.noise_scale) out["noise_scale"] = *summary.noise_scale;
  if (summary.bubble) out["bubble"] = *summary.bubble;
  if (summary.switched_after) out["switched_after"] = *summary.switched_after;
  if (!summary.parts.empty()) out["parts"] = summary.parts;
  if (!summary.lost.empty()) out["lost"] = summary.lost;
  if (summary.skipped_steps > 0) out["skipped_steps"] = summary.skipped_steps;
  if (summary.broken_samples > 0) out["broken_samples"] = summary.broken_samples;
  if (!summary.server.empty()) out["server"] = json::parse(summary.server);
  return out;
}

namespace {

// JSON has no NaN: it is written as null.
double number_in(const json& in) {
  return in.is_null() ? std::numeric_limits<double>::quiet_NaN() : in.get<double>();
}

}  // namespace

namespace {

std::optional<EvalRecord> figures_of(const json& in, std::string_view set) {
  const auto number = [&](std::string_view figure) -> std::optional<double> {
    const auto found = in.find(key(set, figure));
    return found == in.end() ? std::nullopt : std::optional(number_in(*found));
  };
  if (!in.contains(key(set, "accuracy"))) return std::nullopt;
  EvalRecord test;
  in.at(key(set, "accuracy")).get_to(test.accuracy);
  test.loss = number_in(in.at(key(set, "loss")));
  test.top5 = number("top5");
  test.perplexity = number("perplexity");
  test.bits_per_byte = number("bits_per_byte");
  test.validation = set == kValidation;
  return test;
}

}  // namespace

std::optional<EvalRecord> figures_of_test(const json& in) { return figures_of(in, kTest); }

std::optional<EvalRecord> figures_of_validation(const json& in) {
  return figures_of(in, kValidation);
}

RunFacts facts_from(const json& in) {
  RunFacts facts;
  in.at("model").get_to(facts.model);
  in.at("data").get_to(facts.data);
  in.at("optimizer").get_to(facts.optimizer);
  facts.learning_rate = in.value("learning_rate", "");
  in.at("sync").get_to(facts.sync);
  facts.then = in.value("then", "");
  facts.pace = in.value("pace", "");
  facts.servers = in.value("servers", std::int64_t{0});
  in.at("links").get_to(facts.links);
  in.at("convolution_path").get_to(facts.convolution_path);
  facts.memory_format = in.value("memory_format", facts.memory_format);
  facts.precision = in.value("precision", facts.precision);
  in.at("workers").get_to(facts.workers);
  in.at("threads").get_to(facts.threads);
  facts.device = in.value("device", "cpu");
  in.at("batch").get_to(facts.batch);
  facts.pipeline = in.value("pipeline", facts.pipeline);
  facts.pipeline_schedule = in.value("pipeline_schedule", "");
  facts.micro_batches = in.value("microbatches", std::int64_t{0});
  facts.stages = in.value("stages", "");
  facts.tensor = in.value("tensor", facts.tensor);
  facts.tensor_groups = in.value("tensor_groups", "");
  facts.batch_schedule = in.value("batch_schedule", "");
  facts.updates = in.value("updates", std::int64_t{0});
  in.at("parameters").get_to(facts.parameters);
  in.at("train_samples").get_to(facts.train_samples);
  in.at("test_samples").get_to(facts.test_samples);
  facts.validation_samples = in.value("validation_samples", std::int64_t{0});
  in.at("steps").get_to(facts.steps);
  in.at("steps_per_epoch").get_to(facts.steps_per_epoch);
  in.at("first_step").get_to(facts.first_step);
  facts.tokens_per_sample = in.value("tokens_per_sample", std::int64_t{0});
  facts.command = in.value("command", "");
  facts.began = in.value("began", "");
  facts.hosts = in.value("hosts", std::vector<std::string>());
  facts.versions = in.value("versions", "");
  return facts;
}

BestTest best_from(const json& in) {
  return {in.at("step"), number_in(in.at("figure")), in.at("tests_since")};
}

Summary summary_from(const json& in) {
  Summary summary;
  summary.facts = facts_from(in);
  in.at("finished").get_to(summary.finished);
  in.at("step").get_to(summary.step);
  summary.final_loss = number_in(in.at("final_loss"));
  in.at("seconds").get_to(summary.seconds);
  in.at("train_seconds").get_to(summary.train_seconds);
  in.at("samples").get_to(summary.samples);
  in.at("comm_s").get_to(summary.comm_s);
  in.at("bytes_sent").get_to(summary.bytes_sent);
  in.at("peak_memory_bytes").get_to(summary.peak_memory_bytes);
  in.at("peak_memory_bytes_max").get_to(summary.peak_memory_bytes_max);
  summary.peak_device_memory_bytes = in.value("peak_device_memory_bytes", std::uint64_t{0});
  summary.peak_device_memory_bytes_max = in.value("peak_device_memory_bytes_max", std::uint64_t{0});
  in.at("weights_sha256").get_to(summary.weights_sha256);
  in.at("checkpoint").get_to(summary.checkpoint);
  if (in.contains("consensus_distance"))
    summary.consensus_distance = number_in(in.at("consensus_distance"));
  if (in.contains("noise_scale")) summary.noise_scale = number_in(in.at("noise_scale"));
  if (in.contains("bubble")) summary.bubble = number_in(in.at("bubble"));
  if (in.contains("switched_after"))
    summary.switched_after = in.at("switched_after").get<std::int64_t>();
  if (in.contains("parts")) in.at("parts").get_to(summary.parts);
  if (in.contains("lost")) in.at("lost").get_to(summary.lost);
  summary.skipped_steps = in.value("skipped_steps", std::int64_t{0});
  summary.broken_samples = in.value("broken_samples", std::int64_t{0});
  if (in.contains("server")) summary.server = in.at("server").dump();
  summary.test = figures_of_test(in);
  summary.validation = figures_of_validation(in);
  if (const auto best = in.find("best_test"); best != in.end()) summary.best = best_from(*best);
  summary.ended_early = in.value("ended_early", false);
  return summary;
}

}  // namespace asup::report
