// Learns who clicks on what from a log of clicks, with an embedding table that is larger than the
// memory of a worker: servers keep its rows, and a worker pulls those of its batch.
//
//   asup run -n 2 --servers 2 -- click_log
//   asup run -n 2 --servers 2 --env ASUP_SYNC=server --env ASUP_PACE=asp -- click_log
//
//   usage: click_log [steps [rows of the table [batch size of a process [folder of checkpoints]]]]
//
// With a folder, model and table are saved there four times, and a next run goes on from the last.
//
// The log is made up as it is read: a sample has some ids, a few of which are in most samples and
// most in few, and the clicks follow from a taste that each id has and that the model must find.
#include <asup/asup.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

using torch::Tensor;
using torch::nn::Linear, torch::nn::ReLU, torch::nn::Sequential;

constexpr std::int64_t kFields = 8;  // ids of a sample, each of a part of the table of its own
constexpr std::int64_t kWidth = 32;

struct Batch {
  Tensor ids;      // samples × fields
  Tensor clicked;  // 0 or 1
};

class ClickLog {
 public:
  ClickLog(std::int64_t rows, std::uint64_t seed) : per_field_(rows / kFields), random_(seed) {}

  Batch next(std::int64_t samples) {
    Batch batch{torch::empty({samples, kFields}, torch::kInt64), torch::empty({samples})};
    auto* id = batch.ids.mutable_data_ptr<std::int64_t>();
    auto* clicked = batch.clicked.mutable_data_ptr<float>();
    for (std::int64_t sample = 0; sample < samples; ++sample) {
      double taste = -1;
      for (std::int64_t field = 0; field < kFields; ++field, ++id) {
        *id = field * per_field_ + some_id();
        taste += taste_for(*id);
      }
      clicked[sample] = even() < 1 / (1 + std::exp(-taste)) ? 1 : 0;
    }
    return batch;
  }

 private:
  double even() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

  // Zipf's law: id n is n times as rare as the first.
  std::int64_t some_id() {
    const auto id = static_cast<std::int64_t>(std::pow(static_cast<double>(per_field_), even()));
    return std::min(id, per_field_) - 1;
  }

  // Between -1 and 1.
  static double taste_for(std::int64_t id) {
    const double much = 10'000 * std::sin(static_cast<double>(id) * 1.7 + 0.3);
    return 2 * (much - std::floor(much)) - 1;
  }

  const std::int64_t per_field_;
  std::mt19937_64 random_;
};

// The share of pairs of a click and none in which the click has the higher score.
double area_under_curve(const Tensor& scores, const Tensor& clicked) {
  const Tensor sorted = clicked.index_select(0, scores.argsort());
  const Tensor others_below = (1 - sorted).cumsum(0);
  const double clicks = clicked.sum().item<double>();
  const double others = static_cast<double>(clicked.size(0)) - clicks;
  return (others_below * sorted).sum().item<double>() / (clicks * others);
}

double megabytes(double bytes) { return bytes / (1 << 20); }

// What this process may allocate from here on is less than the table.
void limit_memory(double bytes) {
  const auto most = static_cast<rlim_t>(bytes);
  const rlimit limit{most, most};
  if (setrlimit(RLIMIT_DATA, &limit) != 0) std::perror("setrlimit");
}

double peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

// The argument at this place, a count above 0.
std::int64_t count_in(int argc, char** argv, int place, std::int64_t usual) {
  if (argc <= place) return usual;
  char* end = nullptr;
  const long long count = std::strtoll(argv[place], &end, 10);
  if (*end != 0 || count <= 0)
    throw asup::BadInput(std::string("'") + argv[place] +
                         "' is no count above 0: click_log [STEPS [ROWS [BATCH [FOLDER]]]]");
  return count;
}

int main(int argc, char** argv) {
  auto job = asup::Job::join();
  const std::int64_t steps = count_in(argc, argv, 1, 400);
  const std::int64_t rows = count_in(argc, argv, 2, 10'000'000);
  const std::int64_t batch = count_in(argc, argv, 3, 1024);
  torch::manual_seed(1);
  torch::set_num_threads(1);

  const double table_bytes = static_cast<double>(rows * kWidth) * sizeof(float);
  const double limit = table_bytes / 2;
  const bool limited = megabytes(limit) >= 512;  // torch itself needs some hundred
  if (limited) limit_memory(limit);

  asup::Embeddings embeddings(job);
  auto& table = embeddings.table("ids", rows, kWidth,
                                 {.optimizer = torch::optim::AdagradOptions(0.1), .seed = 1});
  Sequential model(Linear(kFields * kWidth, 32), ReLU(), Linear(32, 1));
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(2e-3));
  std::optional<asup::Checkpoint> checkpoint;
  if (argc > 4) checkpoint.emplace(job, argv[4]).add(embeddings);
  auto replica = checkpoint ? checkpoint->distribute(model, optimizer)
                            : embeddings.distribute(model, optimizer);
  asup::TrainingProgress progress = checkpoint ? checkpoint->progress() : asup::TrainingProgress{};

  const auto predict = [&](const Batch& of) {
    return model->forward(table.forward(of.ids).flatten(1)).squeeze(1);
  };
  const auto loss_of = [](const Tensor& scores, const Batch& of) {
    return torch::nn::functional::binary_cross_entropy_with_logits(scores, of.clicked);
  };
  const Batch test = ClickLog(rows, 1'000'000).next(8192);
  const auto report = [&](std::int64_t step) {
    torch::NoGradGuard no_grad;
    const Tensor scores = predict(test);
    std::printf("step %lld: log loss %.4f, AUC %.4f\n", static_cast<long long>(step),
                loss_of(scores, test).item<double>(), area_under_curve(scores, test.clicked));
    std::fflush(stdout);
  };

  ClickLog log(rows, static_cast<std::uint64_t>(job.rank()) + 1);
  for (std::int64_t step = 0; step < progress.step; ++step) (void)log.next(batch);  // seen before
  if (job.rank() == 0) report(progress.step);
  const auto start = std::chrono::steady_clock::now();
  while (progress.step < steps) {
    const Batch clicks = log.next(batch);
    optimizer.zero_grad();
    loss_of(predict(clicks), clicks).backward();
    replica->step();
    embeddings.step(static_cast<std::uint64_t>(batch));
    const std::int64_t step = ++progress.step;
    if (step < steps && step % std::max<std::int64_t>(1, steps / 4) != 0) continue;
    if (job.rank() == 0) report(step);
    if (checkpoint) checkpoint->save(progress);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  replica->synchronize();

  const asup::EmbeddingsStats stats = embeddings.stats();
  std::printf(
      "rank %d: %.0f rows/s pulled and %.0f pushed; peak memory %.0f MB, limit %s, "
      "table %.0f MB\n",
      job.rank(), static_cast<double>(stats.rows_pulled) / seconds.count(),
      static_cast<double>(stats.rows_pushed) / seconds.count(), megabytes(peak_memory()),
      limited ? (std::to_string(std::lround(megabytes(limit))) + " MB").c_str() : "none",
      megabytes(table_bytes));
}
