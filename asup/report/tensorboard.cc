#include "asup/report/tensorboard.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "asup/report/event_file.h"

namespace asup::report {
namespace {

class TensorBoardWriter : public Observer {
 public:
  TensorBoardWriter(const std::string& folder, std::int64_t first_step)
      : file_(folder, first_step) {}

  void started(const RunFacts& facts) override { tokens_ = facts.tokens_per_sample; }

  void logged(const StepRecord& record) override {
    std::vector<EventFile::Scalar> scalars{{"train/loss", record.loss},
                                           {"train/learning_rate", record.lr},
                                           {"train/samples_per_s", record.samples_per_s()},
                                           {"train/communication_share", record.comm_share()}};
    if (record.consensus_distance)
      scalars.push_back({"train/consensus_distance", *record.consensus_distance});
    if (record.noise_scale) scalars.push_back({"train/noise_scale", *record.noise_scale});
    if (record.skipped > 0)
      scalars.push_back({"train/skipped_steps", static_cast<double>(record.skipped)});
    if (tokens_ > 0)
      scalars.push_back(
          {"train/tokens_per_s", static_cast<double>(tokens_) * record.samples_per_s()});
    file_.add(record.step, scalars);
  }

  void evaluated(const EvalRecord& record) override {
    const auto of = [&](const char* test, const char* validation) {
      return record.validation ? validation : test;
    };
    std::vector<EventFile::Scalar> scalars{
        {of("test/loss", "validation/loss"), record.loss},
        {of("test/accuracy", "validation/accuracy"), record.accuracy}};
    if (record.top5) scalars.push_back({of("test/top5", "validation/top5"), *record.top5});
    if (record.perplexity) scalars.push_back({"test/perplexity", *record.perplexity});
    file_.add(record.step, scalars);
  }

  void pictured(std::int64_t step, const std::string& name, const Picture& picture) override {
    file_.add(step, "test/" + name, picture);
  }

  // Servers tell the mean since they began, over samples; the curve is of the samples since it was
  // last told.
  void servers_reported(std::int64_t step, const std::string& text) override {
    const auto report = nlohmann::json::parse(text);
    const double samples = report.value("samples", 0.0);
    const double late = samples * report.value("mean_staleness_steps", 0.0);
    if (samples > samples_) {
      const EventFile::Scalar mean{"servers/staleness_steps",
                                   (late - late_) / (samples - samples_)};
      file_.add(step, std::span(&mean, 1));
    }
    samples_ = samples;
    late_ = late;
  }

 private:
  EventFile file_;
  std::int64_t tokens_ = 0;        // of a sample
  double samples_ = 0, late_ = 0;  // applied so far, and the steps that they were late in sum
};

}  // namespace

std::unique_ptr<Observer> make_tensorboard_writer(const std::string& folder,
                                                  std::int64_t first_step) {
  return std::make_unique<TensorBoardWriter>(folder, first_step);
}

}  // namespace asup::report
