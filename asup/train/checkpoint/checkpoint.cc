#include "asup/train/checkpoint/checkpoint.h"

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

std::string section_of_rank(int rank) { return fmt::format("rank {}", rank); }
// A worker that was lost has left none; it begins with the first one's.
std::string first_section_of_rank(const CheckpointFile& file) {
  for (const auto& section : file.sections)
    if (section.name.starts_with("rank ")) return section.name;
  return section_of_rank(0);
}
std::string optimizer_of(const std::string& section) { return "optimizer of " + section; }

// ",rank 0,rank 1,": those that the file has a state of.
std::string ranks_in(const CheckpointFile& file) {
  std::string names = ",";
  for (const auto& section : file.sections)
    if (section.name.starts_with("rank ")) names += section.name + ",";
  return names;
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
  const std::string optimizer = pack_optimizer(trained.optimizer);
  const auto names = gather_texts(communicator, section_of_rank(trained.rank));
  const auto states =
      gather_texts(communicator, pack_tensors(rank_state(trained, generator().get_state())));
  const auto optimizers = gather_texts(communicator, trained.own_optimizer ? optimizer : "");
  together(communicator, [&] {
    if (communicator.rank() != 0) return;
    CheckpointFile file;
    file.header = header_of(info);
    file.sections.push_back({"parameters", pack_tensors(sync::parameters_of(trained.module))});
    file.sections.push_back({"optimizer", optimizer});
    if (!trained.replica.empty())
      file.sections.push_back({"replica", pack_tensors(trained.replica)});
    for (std::size_t i = 0; i < names.size(); ++i) {
      file.sections.push_back({names[i], states[i]});
      if (trained.own_optimizer) file.sections.push_back({optimizer_of(names[i]), optimizers[i]});
    }
    write_checkpoint_file(path, std::move(file));
  });
}

void restore_checkpoint(Communicator& communicator, const CheckpointFile& file,
                        const Trained& trained) {
  const bool reads = communicator.rank() == 0;
  // The first of these sections that is there.
  const auto share = [&](const std::string& name, const std::string& or_else) {
    return broadcast_text(communicator,
                          reads ? file.section(file.has_section(name) ? name : or_else) : "");
  };
  const std::string known = broadcast_text(communicator, reads ? ranks_in(file) : "");
  const bool is_known = known.find("," + section_of_rank(trained.rank) + ",") != known.npos;
  const std::string parameters = share("parameters", "parameters");
  // Another way of staying in step has left none, or another.
  const std::string replica = broadcast_text(
      communicator, reads && file.has_section("replica") ? file.section("replica") : "");
  const bool was_own = reads && file.has_section(optimizer_of(first_section_of_rank(file)));
  const bool had_own = !broadcast_text(communicator, was_own ? "yes" : "").empty();
  std::string own, optimizer;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    const std::string name = section_of_rank(rank);
    std::string state = share(name, first_section_of_rank(file));
    std::string of_rank = share(optimizer_of(name), "optimizer");
    if (rank != communicator.rank()) continue;
    own = std::move(state);
    optimizer = std::move(of_rank);
  }
  together(communicator, [&] {
    torch::Tensor random = generator().get_state();
    unpack_tensors(parameters, sync::parameters_of(trained.module));
    unpack_optimizer(optimizer, trained.optimizer);
    unpack_tensors(own, rank_state(trained, random));
    if (!is_known) random = generator().get_state();  // another rank's would repeat its numbers
    if (!replica.empty() && !trained.replica.empty()) unpack_tensors(replica, trained.replica);
    generator().set_state(random);
  });
  if (had_own && !trained.own_optimizer)
    sync::average_state(communicator, trained.optimizer, sync::parameters_of(trained.module));
}

void restore_parameters(Communicator& communicator, const CheckpointFile& file,
                        torch::nn::Module& module) {
  const std::string parameters =
      broadcast_text(communicator, communicator.rank() == 0 ? file.section("parameters") : "");
  together(communicator, [&] { unpack_tensors(parameters, sync::parameters_of(module)); });
}

}  // namespace asup::train
