// What a run tells about itself: at its start, as it goes, at its end. Values only; safe from any
// thread. to_json() gives the objects of metrics.jsonl and summary.json.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace asup::report {

// Known before the first step.
struct RunFacts {
  std::string folder;
  std::string moved_to;  // where the run is now that was in the folder before this one, or ""
  std::string model;
  std::string data;
  std::string optimizer;
  std::string learning_rate;  // and its course, in words
  std::string sync;
  std::string then;                          // the way that the run changes to, or ""
  std::string pace;                          // where there are servers
  std::string links;                         // how the ranks reach each other, in words
  std::string convolution_path;              // its name; compute_note says how it was chosen,
  std::string memory_format = "contiguous";  // how images lie,
  std::string precision = "fp32";            // and what the model computes in
  std::string compute_note;
  std::string data_note;  // how the data were opened, where a person should know
  std::string sync_note;  // what the way to stay in step has measured and chosen
  std::string init_note;  // which weights it begins with, where that was said
  std::int64_t workers = 1;
  std::int64_t servers = 0;
  std::int64_t threads = 1;    // of a worker
  std::string device = "cpu";  // where workers compute: "cuda:0", "cpu, cuda:0"
  std::int64_t pipeline = 1;   // workers that a model's layers are spread over
  std::string pipeline_schedule;
  std::int64_t micro_batches = 0;
  std::string stages;         // of a pipeline, in words: which layers are where
  std::int64_t tensor = 1;    // workers that compute a model's layers together,
  std::string tensor_groups;  // in words: who with whom
  std::int64_t batch = 0;
  std::string batch_schedule;   // where batches grow: 4@50%,
  std::int64_t updates = 0;     // and updates in all
  std::int64_t parameters = 0;  // numbers that are trained
  std::int64_t train_samples = 0;
  std::int64_t test_samples = 0;
  std::int64_t validation_samples = 0;  // set aside of the training set; 0: none
  std::int64_t tokens_per_sample = 0;   // of a language model; 0: samples are images
  std::int64_t steps = 0;
  std::int64_t steps_per_epoch = 0;
  std::int64_t first_step = 0;  // above 0 for a resumed run
  // Where it comes from.
  std::string command;             // as a person typed it
  std::string began;               // this call: 2026-01-31T23:59:59+0100
  std::vector<std::string> hosts;  // of the workers
  std::string versions;            // "asup 0.1.0, torch 2.13.0, AVX-512 kernels"

  std::int64_t epochs() const { return (steps + steps_per_epoch - 1) / steps_per_epoch; }
};

// One step, or several that follow each other.
struct StepRecord {
  std::int64_t step = 0;   // the last one, counted from 1
  std::int64_t epoch = 0;  // the one it belongs to, counted from 1
  double loss = 0;         // mean over the samples of all ranks; NaN: all steps were skipped
  double lr = 0;
  std::int64_t samples = 0;
  double step_seconds = 0;  // that the steps took
  double comm_s = 0;        // of these, a rank stood still for the exchange: mean over the ranks
  double seconds = 0;       // since the run began, resumed parts counted
  // Where workers step on their own: how often models were exchanged, and how far apart they were
  // the last time (ReplicaStats).
  std::int64_t merges = 0;
  std::optional<double> consensus_distance{};
  std::optional<double> noise_scale{};  // of gradients, in samples, where it is known
  std::string sync{};                   // the way of these steps, where the run changes it
  std::vector<std::int64_t> parts{};    // of a whole batch, by worker, where it is balanced
  // By worker, at sync points: seconds that it stood still since the last one; NaN: it is lost.
  std::vector<double> waits{};
  std::int64_t skipped = 0;  // of the steps, or of workers' own, whose gradients were no numbers

  double samples_per_s() const { return step_seconds > 0 ? samples / step_seconds : 0; }
  double comm_share() const { return step_seconds > 0 ? comm_s / step_seconds : 0; }
  // Puts a later record's steps to these.
  void add(const StepRecord& later);
};

// A test. Its keys in JSON begin with what it was on: test_loss, or validation_loss.
struct EvalRecord {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  double loss = 0;
  double accuracy = 0;
  std::int64_t samples = 0;
  double eval_seconds = 0;
  double seconds = 0;  // since the run began
  // Of a language model: accuracy is then the share of tokens that it thought the likeliest.
  std::optional<double> perplexity{}, bits_per_byte{};
  std::optional<double> top5{};  // of images of more than 5 classes
  bool validation = false;       // on training samples that were set aside, not on the test set
};

// Of tests between, the one that the model did best in: of images by its accuracy, of text by its
// loss.
struct BestTest {
  std::int64_t step = 0;
  double figure = 0;
  std::int64_t tests_since = 0;
};

struct Summary {
  RunFacts facts;
  bool finished = false;                   // every step of the run is done, or no more are of use
  std::int64_t step = 0;                   // the last one
  std::optional<EvalRecord> test;          // the last one
  std::optional<EvalRecord> validation{};  // the last one too
  std::optional<BestTest> best{};
  bool ended_early = false;  // no test was better for as long as `--patience` says
  double final_loss = 0;     // of the last row of metrics.jsonl
  double seconds = 0;
  double train_seconds = 0;
  double comm_s = 0;
  std::int64_t samples = 0;
  std::optional<double> consensus_distance{};    // the last one
  std::optional<double> noise_scale{};           // the last one
  std::optional<std::int64_t> switched_after{};  // the step after which it did
  std::vector<std::int64_t> parts{};             // as at the end, where batches are balanced
  std::vector<std::int64_t> lost{};              // workers that the others went on without
  std::optional<double> bubble{};                // share of a step that a pipeline's workers wait
  std::int64_t broken_samples = 0;               // that could not be read in this call
  std::int64_t skipped_steps = 0;                // since their gradients were no numbers
  std::uint64_t bytes_sent = 0;                  // by all ranks
  std::uint64_t peak_memory_bytes = 0;           // of all ranks together
  std::uint64_t peak_memory_bytes_max = 0;       // of the largest rank
  std::uint64_t peak_device_memory_bytes = 0;    // the same for tensors on GPUs
  std::uint64_t peak_device_memory_bytes_max = 0;
  std::string weights_sha256;  // over parameters and buffers, by name
  std::string checkpoint;      // the last one's file name, or ""
  std::string server;          // JSON: what the servers tell of the pace of this call, or ""

  double samples_per_s() const { return train_seconds > 0 ? samples / train_seconds : 0; }
  double comm_share() const { return train_seconds > 0 ? comm_s / train_seconds : 0; }
};

nlohmann::ordered_json to_json(const RunFacts& facts);
nlohmann::ordered_json to_json(const StepRecord& record);
nlohmann::ordered_json to_json(const EvalRecord& record);
nlohmann::ordered_json to_json(const Summary& summary);
nlohmann::ordered_json to_json(const BestTest& best);
// Puts in how good the model was: test_loss, test_accuracy, and what else is known of it.
void put_figures(nlohmann::ordered_json& out, const EvalRecord& test);

// Of what to_json() wrote; a key that is missing or of another type throws nlohmann's exceptions.
RunFacts facts_from(const nlohmann::ordered_json& json);
Summary summary_from(const nlohmann::ordered_json& json);
BestTest best_from(const nlohmann::ordered_json& json);
// How good the model was, of a row of metrics.jsonl or of summary.json; none where that tells of no
// test.
std::optional<EvalRecord> figures_of_test(const nlohmann::ordered_json& json);
// The same of validation samples.
std::optional<EvalRecord> figures_of_validation(const nlohmann::ordered_json& json);

}  // namespace asup::report
