#include "asup/distribute/checkpoint.h"

#include <fmt/ranges.h>

#include <exception>
#include <filesystem>
#include <thread>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/checkpoint/reader.h"
#include "asup/checkpoint/trained.h"
#include "asup/checkpoint/writer.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/collective/text_exchange.h"
#include "asup/distribute/embeddings.h"
#include "asup/distribute/variables.h"
#include "asup/report/run_lock.h"
#include "asup/sync/model/agreement.h"
#include "asup/sync/model/kept_tensors.h"

namespace asup {
namespace {

using Json = nlohmann::ordered_json;

// In the checkpoint's folder.
constexpr const char* kTables = "tables";

Json to_json(const TrainingProgress& progress, const Strategy& strategy, bool has_tables) {
  return {{"program", true},         {"strategy", strategy.name()},   {"step", progress.step},
          {"epoch", progress.epoch}, {"position", progress.position}, {"notes", progress.notes},
          {"tables", has_tables}};
}

TrainingProgress progress_from(const Json& json, const std::string& path) try {
  require(json.contains("program"), "{}: is of a run of asup train, not of a program", path);
  TrainingProgress progress;
  json.at("step").get_to(progress.step);
  json.at("epoch").get_to(progress.epoch);
  json.at("position").get_to(progress.position);
  json.at("notes").get_to(progress.notes);
  return progress;
} catch (const Json::exception& error) {
  throw BadInput(
      fmt::format("{}: is a checkpoint of another version of asup ({})", path, error.what()));
}

// So that training may go on while they are written.
torch::Tensor copy_of(const torch::Tensor& tensor) {
  return tensor.detach().to(torch::kCPU, tensor.scalar_type(), /*non_blocking=*/false,
                            /*copy=*/true);
}

}  // namespace

void TrainingProgress::advance(std::uint64_t samples, std::uint64_t size) {
  ++step;
  position += samples;
  if (position < size) return;
  position = 0;
  ++epoch;
}

class Checkpoint::State {
 public:
  State(Job& job, std::string folder, CheckpointOptions options)
      : job_(job),
        folder_(std::move(folder)),
        series_(folder_),
        options_(options),
        number_(job.next_communicator_id()),
        communicator_(make_communicator(job, {.beside = true})) {
    sync::together(*communicator_, [&] {
      if (job_.rank() == 0) lock();
    });
    std::error_code none;
    sees_folder_ = std::filesystem::is_directory(folder_, none);
  }
  ~State() {
    if (writer_.joinable()) writer_.join();
    if (failure_) log().error("the last checkpoint in {} was not written", folder_);
  }

  void add(Embeddings& embeddings) {
    check(embeddings_ == nullptr && model_ == nullptr,
          "tables are added to a checkpoint once, before its distribute()");
    embeddings_ = &embeddings;
  }

  std::unique_ptr<DistributedReplica> distribute(torch::nn::Module& model,
                                                 torch::optim::Optimizer& optimizer,
                                                 const Strategy& strategy) {
    check(model_ == nullptr, "a checkpoint is of one model: make another for another");
    model_ = &model;
    optimizer_ = &optimizer;
    const auto reader = open();
    if (reader) restore(*reader, false).common(model, optimizer);
    if (reader && embeddings_)
      sync::together(*communicator_, [&] { embeddings_->load(tables_in(path_)); });
    auto replica = embeddings_ ? embeddings_->distribute(model, optimizer, strategy)
                               : asup::distribute(job_, model, optimizer, strategy);
    replica_ = replica.get();
    left_ = replica_->left();
    if (reader) bring_back_own(*reader);
    return replica;
  }

  void save(const TrainingProgress& progress) {
    check(replica_ != nullptr, "there is nothing to save yet: call distribute() of the checkpoint");
    const bool saved = replica_->together([&] { start_write(progress); });
    if (!saved)
      log().warn("a worker was lost in the checkpoint of step {}: the next one is whole",
                 progress.step);
  }

  void wait() {
    if (writer_.joinable()) writer_.join();
    if (const auto failure = std::exchange(failure_, nullptr)) std::rethrow_exception(failure);
  }

  const TrainingProgress& progress() const { return progress_; }
  bool resumed() const { return resumed_; }

 private:
  static std::string tables_in(const std::string& checkpoint) {
    return (std::filesystem::path(checkpoint) / kTables).string();
  }

  // One that is damaged, or not of these tables, throws BadInput.
  void verify(const std::string& path) const {
    checkpoint::Folder folder(path);
    folder.verify();
    if (embeddings_ && folder.index().run.value("tables", false))
      embeddings_->verify(tables_in(path));
  }

  // The newest that is whole, of which all ranks know; null where there is none.
  std::unique_ptr<checkpoint::Reader> open() {
    sync::together(*communicator_, [&] {
      if (job_.rank() != 0) return;
      const report::FoundCheckpoint found =
          series_.newest_whole([&](const std::string& path) { verify(path); });
      for (const auto& damaged : found.newer)
        log().warn("a checkpoint is passed over: {}", damaged.why);
      require(!found.path.empty() || found.newer.empty(),
              "{}: none of its {} checkpoints is whole; the newest: {}. Give another folder to "
              "begin anew",
              folder_, found.newer.size(), found.newer.empty() ? "" : found.newer.front().why);
      path_ = found.path;
    });
    path_ = broadcast_text(*communicator_, path_);
    if (path_.empty()) return nullptr;
    auto reader = std::make_unique<checkpoint::Reader>(*communicator_, path_);
    sync::together(*communicator_, [&] {
      const Json& run = reader->index().run;
      progress_ = progress_from(run, path_);
      const bool has_tables = run.value("tables", false);
      require(has_tables || !embeddings_,
              "{}: has no embedding tables, and this program has added some", path_);
      require(!has_tables || embeddings_,
              "{}: has embedding tables, and this program has added none: call add() of the "
              "checkpoint before distribute()",
              path_);
    });
    resumed_ = true;
    return reader;
  }

  checkpoint::Restore restore(checkpoint::Reader& reader, bool same_way) {
    return {reader, *communicator_, job_.rank(), same_way};
  }

  // By another way than before, workers do not go on with what another replica has kept.
  void bring_back_own(checkpoint::Reader& reader) {
    const std::string before = reader.index().run.value("strategy", "");
    const bool same_way = before == replica_->strategy().name();
    const checkpoint::Trained trained = this->trained();
    restore(reader, same_way).own(trained);
    if (same_way) replica_->restore(trained.replica);
  }

  checkpoint::Trained trained() {
    ServerReplica* servers = replica_->servers();
    return {*model_,
            *optimizer_,
            servers ? servers->unshared() : sync::buffers_of(*model_),
            replica_->keeps_own_optimizer(),
            job_.rank(),
            {},
            replica_->state()};
  }

  void start_write(const TrainingProgress& progress) {
    if (left_ != replica_->left()) regroup();
    wait();
    checkpoint::Trained trained = this->trained();
    trained.fetched_state = replica_->fetch_optimizer_state();
    if (replica_->models_differ())
      replica_->with_mean_model([&] {
        for (const auto& [name, tensor] : sync::parameters_of(*model_))
          trained.mean_model.push_back({name, copy_of(tensor)});
      });
    std::vector<checkpoint::WrittenPart> parts;
    replica_->with_whole_model([&] {
      parts = checkpoint::parts_of_rank(checkpoint::tensors_of(trained), communicator_->rank(),
                                        communicator_->size());
      for (auto& written : parts) written.part.tensor = copy_of(written.part.tensor);
    });
    const std::string path = series_.path(progress.step);
    if (embeddings_)
      sync::together(*communicator_,
                     [&] { embeddings_->save(tables_in(checkpoint::unfinished_path(path))); });
    writer_ = std::thread([this, path,
                           run = to_json(progress, replica_->strategy(), embeddings_ != nullptr),
                           parts = std::move(parts)] { write(path, run, parts); });
  }

  void lock() {
    std::filesystem::create_directories(folder_);
    const auto& me = job_.roster().members[static_cast<std::size_t>(job_.rank())];
    lock_ = report::RunLock::take(folder_, me.describe(), options_.patience);
  }

  // Those who are left write by a communicator of their own, the first of them into the folder.
  void regroup() {
    if (writer_.joinable()) writer_.join();
    if (std::exchange(failure_, nullptr))
      log().warn("a worker was lost while a checkpoint was written to {}: it is left out", folder_);
    const std::vector<int>& left = replica_->left();
    communicator_ = make_communicator(
        job_, left, fmt::format("{}/{}", number_, fmt::join(left, ",")), {.beside = true});
    sync::together(*communicator_, [&] {
      check(communicator_->rank() != 0 || sees_folder_,
            "the worker that kept the checkpoints in {} was lost, and rank {} does not see that "
            "folder: start the job again, and it goes on from the last of them",
            folder_, job_.rank());
      if (communicator_->rank() == 0 && !lock_) lock();
    });
    left_ = left;
  }

  // On the writer's thread. One that fails leaves the others in place.
  void write(const std::string& path, const Json& run,
             const std::vector<checkpoint::WrittenPart>& parts) try {
    std::set<std::string> beside;
    if (embeddings_) beside.insert(kTables);
    sees_folder_ = checkpoint::write(*communicator_, path, run, parts, beside);
    if (communicator_->rank() == 0) series_.keep(options_.keep);
  } catch (...) {
    failure_ = std::current_exception();
  }

  // Constant after construction.
  Job& job_;
  const std::string folder_;
  const report::CheckpointSeries series_;
  const CheckpointOptions options_;
  const std::uint64_t number_;  // among the job's communicators: names those of who is left

  std::optional<report::RunLock> lock_;         // of who writes the folder
  std::vector<int> left_;                       // whom the communicator is of
  std::unique_ptr<Communicator> communicator_;  // the writer's, while there is one
  torch::nn::Module* model_ = nullptr;
  torch::optim::Optimizer* optimizer_ = nullptr;
  DistributedReplica* replica_ = nullptr;
  Embeddings* embeddings_ = nullptr;
  std::string path_;  // that training went on from, as rank 0 sees it
  TrainingProgress progress_;
  bool resumed_ = false;
  // What the writer leaves behind when it has been joined.
  std::thread writer_;
  std::exception_ptr failure_;
  bool sees_folder_ = false;  // the same one as rank 0
};

Checkpoint::Checkpoint(Job& job, std::string folder, CheckpointOptions options)
    : state_(std::make_unique<State>(job, std::move(folder), options)) {}
Checkpoint::~Checkpoint() = default;

void Checkpoint::add(Embeddings& embeddings) { state_->add(embeddings); }

std::unique_ptr<DistributedReplica> Checkpoint::distribute(torch::nn::Module& model,
                                                           torch::optim::Optimizer& optimizer) {
  refuse_unknown_variables(own_variables());
  return distribute(model, optimizer, Strategy::from(net::process_environment()));
}

std::unique_ptr<DistributedReplica> Checkpoint::distribute(torch::nn::Module& model,
                                                           torch::optim::Optimizer& optimizer,
                                                           const Strategy& strategy) {
  return state_->distribute(model, optimizer, strategy);
}

const TrainingProgress& Checkpoint::progress() const { return state_->progress(); }
bool Checkpoint::resumed() const { return state_->resumed(); }
void Checkpoint::save(const TrainingProgress& progress) { state_->save(progress); }
void Checkpoint::wait() { state_->wait(); }

}  // namespace asup
