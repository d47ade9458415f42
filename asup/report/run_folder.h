// The folder a run leaves behind, and the names of what is in it. Used from one thread, on rank 0.
//
//   config.toml     every setting                 metrics.jsonl    a row a logging interval or test
//   summary.json    the run in figures            report.html      the run to look at
//   facts.json      what is known before the first step
//   failure.txt     why it failed, where it did
//   choices.json    what measurement chose        model.safetensors  the weights, to use
//   layers.json     what was measured of a model's layers, where it is cut into stages by that
//   evaluation.json the last test in detail       checkpoints/     to resume from
//   generated.json  what a language model writes  tokenizer.model  its tokens, where not bytes
//   job.txt         the job that has written it, where that may be started again
//   server.json     what the servers tell of the pace, as of the last sync point
//   timeline.json.gz  what all workers did and when, where it is recorded
//   .lock           who writes all this, as long as somebody does (run_lock.h)
#pragma once

#include <optional>
#include <string>

#include "asup/report/checkpoint_series.h"
#include "asup/report/run_lock.h"

namespace asup::report {

class RunFolder {
 public:
  explicit RunFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string config_file() const { return path_ + "/config.toml"; }
  std::string metrics_file() const { return path_ + "/metrics.jsonl"; }
  std::string summary_file() const { return path_ + "/summary.json"; }
  std::string report_file() const { return path_ + "/report.html"; }
  std::string facts_file() const { return path_ + "/facts.json"; }
  std::string failure_file() const { return path_ + "/failure.txt"; }
  std::string model_file() const { return path_ + "/model.safetensors"; }
  std::string choices_file() const { return path_ + "/choices.json"; }
  std::string layers_file() const { return path_ + "/layers.json"; }
  std::string evaluation_file() const { return path_ + "/evaluation.json"; }
  std::string generated_file() const { return path_ + "/generated.json"; }
  std::string tokenizer_file() const { return path_ + "/tokenizer.model"; }
  std::string server_file() const { return path_ + "/server.json"; }
  std::string timeline_file() const { return path_ + "/timeline.json.gz"; }
  std::string job_file() const { return path_ + "/job.txt"; }
  std::string checkpoints() const { return path_ + "/checkpoints"; }
  CheckpointSeries series() const { return CheckpointSeries(checkpoints()); }

  // Throws BadInput unless a run has been here.
  void check_is_run() const;

  // Throws BadInput, which names it, where another process writes the run and does not end soon.
  void check_free() const;

  // Throws BadInput where create() would, but for a run that is being written, and changes nothing.
  void check_can_create() const;

  // This process writes it from now on, as long as the lock is there. Throws BadInput as
  // check_free() does.
  RunLock lock(const std::string& who) const;
  // What writers that were killed have left. needs: the lock
  void remove_leftovers() const;

  // Makes the folder. A run that is there already moves to PATH.previous-N, the first number that
  // is free: returns where it is now. Throws BadInput for a folder that holds something else, is
  // being written, or cannot be made.
  std::optional<std::string> create() const;

 private:
  std::string path_;
};

// runs/MODEL-DATA-20260131-235959, by the local time; or with the name of the job, where it has
// one.
std::string default_run_folder(const std::string& model, const std::string& data,
                               const std::string& job = "");

}  // namespace asup::report
