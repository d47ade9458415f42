#include "asup/train/checkpoint/checkpoint.h"

#include <algorithm>
#include <sstream>

#include "asup/base/error.h"
#include "asup/collective/text_exchange.h"
#include "asup/report/run_folder.h"
#include "asup/sync/model/agreement.h"
#include "asup/sync/model/optimizer_state.h"
#include "asup/train/checkpoint/tensor_pack.h"
#include "asup/train/settings.h"

namespace asup::train {
namespace {

using Json = nlohmann::ordered_json;

Json config_json(const TrainConfig& config) {
  Json out;
  for (const SettingValue& value : values_of(config))
    if (value.setting->scope != config::Scope::call)
      out[std::string(value.setting->name)] = value.text;
  return out;
}

// Throws BadInput for a setting that this version does not have.
TrainConfig config_in(const Json& json) {
  config::Given given;
  for (const auto& [name, text] : json.items()) given.say(name, text.get<std::string>(), name);
  return config_from(std::move(given));
}

Json header_of(const CheckpointInfo& info) {
  Json header{{"step", info.step},
              {"ranks", info.ranks},
              {"config", config_json(info.config)},
              {"choices", to_json(info.choices)},
              {"totals",
               {{"seconds", info.totals.seconds},
                {"train_seconds", info.totals.train_seconds},
                {"comm_s", info.totals.comm_s},
                {"samples", info.totals.samples},
                {"bytes_sent", info.totals.bytes_sent}}}};
  if (!info.samples_by_worker.empty()) header["samples_by_worker"] = info.samples_by_worker;
  if (info.switched_after) header["switched_after"] = *info.switched_after;
  if (has_phases(info.config)) header["stall"] = info.stall.to_json();
  return header;
}

Totals totals_from(const Json& json) {
  Totals totals;
  json.at("seconds").get_to(totals.seconds);
  json.at("train_seconds").get_to(totals.train_seconds);
  json.at("comm_s").get_to(totals.comm_s);
  json.at("samples").get_to(totals.samples);
  json.at("bytes_sent").get_to(totals.bytes_sent);
  return totals;
}

at::Generator generator() { return at::globalContext().defaultGenerator(at::kCPU); }

// A rank's own, and the random generator's state under a name that no module can give.
std::vector<sync::NamedTensor> rank_state(const Trained& trained, const torch::Tensor& random) {
  auto tensors = trained.own;
  tensors.push_back({"(random generator)", random});
  return tensors;
}

std::string pack_optimizer(const torch::optim::Optimizer& optimizer) {
  torch::serialize::OutputArchive archive;
  optimizer.save(archive);
  std::ostringstream out;
  archive.save_to(out);
  return std::move(out).str();
}

// The archive also holds the options of the time; those in force are this run's.
void unpack_optimizer(const std::string& bytes, torch::optim::Optimizer& optimizer) {
  std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> options;
  for (const auto& group : optimizer.param_groups()) options.push_back(group.options().clone());
  std::istringstream in(bytes);
  torch::serialize::InputArchive archive;
  archive.load_from(in);
  optimizer.load(archive);
  for (std::size_t i = 0; i < options.size(); ++i) {
    optimizer.param_groups()[i].set_options(std::move(options[i]));
  }
}

// Runs `action`, and makes its complaint every rank's.
template <typename Action>
void together(Communicator& communicator, const Action& action) {
  std::string complaint;
  try {
    action();
  } catch (const std::exception& error) {
    complaint = error.what();
  }
  sync::agree(communicator, complaint);
}

std::string section_of_rank(int rank) { return fmt::format("rank {}", rank); }
std::string optimizer_of(const std::string& section) { return "optimizer of " + section; }
std::string parameters_of(const std::string& section) { return "parameters of " + section; }
std::string replica_of(const std::string& section) { return "replica of " + section; }

// What a file has of ranks' own.
struct Saved {
  std::vector<std::string> ranks;  // sections of those that have left something
  bool models = false, optimizers = false;

  bool knows(const std::string& rank) const {
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  }
};

Saved saved_in(const CheckpointFile& file) {
  Saved saved;
  for (const auto& section : file.sections)
    if (section.name.starts_with("rank ")) saved.ranks.push_back(section.name);
  require(!saved.ranks.empty(), "the checkpoint has nothing of any rank");
  saved.models = file.has_section(parameters_of(saved.ranks.front()));
  saved.optimizers = file.has_section(optimizer_of(saved.ranks.front()));
  return saved;
}

// Of rank 0's file, on all ranks.
Saved share_saved(Communicator& communicator, const CheckpointFile& file) {
  Saved saved;
  together(communicator, [&] {
    if (communicator.rank() == 0) saved = saved_in(file);
  });
  const Json json = Json::parse(broadcast_text(
      communicator,
      Json{{"ranks", saved.ranks}, {"models", saved.models}, {"optimizers", saved.optimizers}}
          .dump()));
  json.at("ranks").get_to(saved.ranks);
  json.at("models").get_to(saved.models);
  json.at("optimizers").get_to(saved.optimizers);
  return saved;
}

// The mean of the ranks' optimizers. `trained` has it then.
std::string mean_of_optimizers(const CheckpointFile& file, const Saved& saved,
                               const Trained& trained) {
  std::vector<torch::Tensor> parameters;
  for (const auto& named : sync::parameters_of(trained.module))
    if (named.tensor.requires_grad()) parameters.push_back(named.tensor);
  sync::OptimizerState state(trained.optimizer, parameters);
  const auto load = [&](const std::string& rank) {
    state.clear();
    unpack_optimizer(file.section(optimizer_of(rank)), trained.optimizer);
  };
  sync::OptimizerState::Counts most = state.counts();
  for (const std::string& rank : saved.ranks) {
    load(rank);
    const auto counts = state.counts();
    std::transform(most.begin(), most.end(), counts.begin(), most.begin(),
                   [](auto a, auto b) { return std::max(a, b); });
  }
  std::vector<torch::Tensor> tensors, sums;
  for (const std::string& rank : saved.ranks) {
    load(rank);
    state.complete(most);
    tensors.clear();
    for (const auto& kind : state.tensors())
      for (const torch::Tensor& tensor : kind)
        if (tensor.defined()) tensors.push_back(tensor);
    for (std::size_t i = 0; i < tensors.size(); ++i)
      rank == saved.ranks.front() ? sums.push_back(tensors[i].to(torch::kFloat64))
                                  : void(sums[i].add_(tensors[i]));
  }
  torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    tensors[i].copy_(sums[i].div_(static_cast<double>(saved.ranks.size())));
  return pack_optimizer(trained.optimizer);
}

}  // namespace

CheckpointInfo info_of(const CheckpointFile& file, const std::string& path) try {
  CheckpointInfo info;
  file.header.at("step").get_to(info.step);
  file.header.at("ranks").get_to(info.ranks);
  info.config = config_in(file.header.at("config"));
  info.choices = choices_from(file.header.at("choices"));
  info.totals = totals_from(file.header.at("totals"));
  if (file.header.contains("switched_after"))
    info.switched_after = file.header.at("switched_after").get<std::int64_t>();
  if (file.header.contains("stall")) info.stall = Stall::from_json(file.header.at("stall"));
  if (file.header.contains("samples_by_worker"))
    file.header.at("samples_by_worker").get_to(info.samples_by_worker);
  return info;
} catch (const nlohmann::json::exception& error) {
  throw BadInput(
      fmt::format("{}: is a checkpoint of another version of asup ({})", path, error.what()));
} catch (const BadInput& error) {
  throw BadInput(
      fmt::format("{}: is a checkpoint of another version of asup ({})", path, error.what()));
}

CheckpointFile read_newest_checkpoint(const std::string& run_folder) {
  const report::RunFolder folder(run_folder);
  folder.check_is_run();
  const auto found = folder.list_checkpoints();
  require(!found.empty(), "{}: has no checkpoint to resume from (in checkpoints/)", run_folder);
  try {
    return read_checkpoint_file(found.back());
  } catch (const BadInput& error) {
    if (found.size() == 1) throw;
    throw BadInput(
        fmt::format("{}. Delete it to resume from {}", error.what(), found[found.size() - 2]));
  }
}

void check_can_resume(const CheckpointInfo& info, const TrainConfig& config, std::int64_t steps) {
  const std::vector<SettingValue> before = values_of(info.config);
  for (const SettingValue& now : values_of(config)) {
    if (now.setting->scope != config::Scope::fixed) continue;
    for (const SettingValue& was : before)
      require(was.setting->name != now.setting->name || was.text == now.text,
              "resume: the run has {} = {}, which cannot become {}. Leave it as it was.",
              now.setting->name, was.text, now.text);
  }
  require(info.step <= steps,
          "resume: the run has done {} steps, which is more than the {} asked for.", info.step,
          steps);
}

void save_checkpoint(Communicator& communicator, const std::string& path,
                     const CheckpointInfo& info, const Trained& trained) {
  const bool own_optimizer = trained.own_optimizer || trained.own_model;
  const auto tensors = sync::parameters_of(trained.module);
  const std::string optimizer = pack_optimizer(trained.optimizer);
  const auto gather = [&](std::string text) {
    return gather_texts_at_first(communicator, std::move(text));
  };
  const auto names = gather(section_of_rank(trained.rank));
  const auto states = gather(pack_tensors(rank_state(trained, generator().get_state())));
  const auto optimizers = gather(own_optimizer ? optimizer : "");
  const auto models = gather(trained.own_model ? pack_tensors(tensors) : "");
  const auto replicas = gather(pack_tensors(trained.replica.own));
  together(communicator, [&] {
    if (communicator.rank() != 0) return;
    CheckpointFile file;
    file.header = header_of(info);
    file.sections.push_back(
        {"parameters", trained.own_model ? mean_of_packs(models, tensors) : pack_tensors(tensors)});
    if (!own_optimizer) file.sections.push_back({"optimizer", optimizer});
    file.sections.push_back({"replica", pack_tensors(trained.replica.common)});
    for (std::size_t i = 0; i < names.size(); ++i) {
      file.sections.push_back({names[i], states[i]});
      file.sections.push_back({replica_of(names[i]), replicas[i]});
      if (own_optimizer) file.sections.push_back({optimizer_of(names[i]), optimizers[i]});
      if (trained.own_model) file.sections.push_back({parameters_of(names[i]), models[i]});
    }
    write_checkpoint_file(path, std::move(file));
  });
}

void restore_checkpoint(Communicator& communicator, const CheckpointFile& file,
                        const Trained& trained) {
  const bool reads = communicator.rank() == 0;
  const Saved saved = share_saved(communicator, file);
  const bool as_many = saved.ranks.size() == static_cast<std::size_t>(communicator.size());
  const bool each_its_own = saved.models && as_many && trained.own_model;
  const bool mean = saved.models && !each_its_own;

  // A rank that has left nothing begins with what was the first's.
  const auto section_for = [&](int rank) {
    if (as_many) return saved.ranks[static_cast<std::size_t>(rank)];
    return saved.knows(section_of_rank(rank)) ? section_of_rank(rank) : saved.ranks.front();
  };
  // To each rank what was its own; "" where the file has none.
  const auto deal_out = [&](const auto& section_of) {
    std::vector<std::string_view> texts;
    for (int rank = 0; reads && rank < communicator.size(); ++rank) {
      const std::string name = section_of(section_for(rank));
      texts.push_back(file.has_section(name) ? std::string_view(file.section(name)) : "");
    }
    return scatter_texts(communicator, texts);
  };
  std::string common_optimizer;
  together(communicator, [&] {
    if (!reads) return;
    if (mean) common_optimizer = mean_of_optimizers(file, saved, trained);
    if (!saved.optimizers) common_optimizer = file.section("optimizer");
  });
  const std::string own = deal_out([](const std::string& rank) { return rank; });
  const std::string own_replica = deal_out(replica_of);
  const std::string replica = broadcast_text(
      communicator, reads && file.has_section("replica") ? file.section("replica") : "");
  const std::string optimizer = saved.optimizers && !mean
                                    ? deal_out(optimizer_of)
                                    : broadcast_text(communicator, common_optimizer);
  const std::string parameters =
      each_its_own ? deal_out(parameters_of)
                   : broadcast_text(communicator, reads ? file.section("parameters") : "");
  together(communicator, [&] {
    torch::Tensor random = generator().get_state();
    unpack_tensors(parameters, sync::parameters_of(trained.module));
    unpack_optimizer(optimizer, trained.optimizer);
    unpack_tensors(own, rank_state(trained, random));
    // Another rank's would repeat its numbers.
    if (!as_many && !saved.knows(section_of_rank(trained.rank))) random = generator().get_state();
    // What another way of staying in step has left is not known here.
    if (!replica.empty()) unpack_known(replica, trained.replica.common);
    if (!own_replica.empty() && as_many) unpack_known(own_replica, trained.replica.own);
    generator().set_state(random);
  });
  if (saved.optimizers && !saved.models && !trained.own_optimizer)
    sync::average_state(communicator, trained.optimizer, sync::parameters_of(trained.module));
}

void restore_parameters(Communicator& communicator, const CheckpointFile& file,
                        torch::nn::Module& module) {
  const std::string parameters =
      broadcast_text(communicator, communicator.rank() == 0 ? file.section("parameters") : "");
  together(communicator, [&] { unpack_tensors(parameters, sync::parameters_of(module)); });
}

}  // namespace asup::train
