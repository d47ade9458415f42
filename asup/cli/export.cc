// asup export: a trained model as a file that other programs read.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/checkpoint/torch_archive.h"
#include "asup/cli/command.h"
#include "asup/cli/usage.h"
#include "asup/train/weights.h"

namespace asup::cli {
namespace {

const std::vector<Example> kExamples{
    {"asup export runs/mine --format torch", "runs/mine/model.pt, for torch.load()"},
    {"asup export runs/mine --format torch --out resnet.pt"},
    {"asup export runs/killed --format safetensors --out resnet.safetensors"}};

constexpr const char* kFooter = R"(
A run leaves model.safetensors at its end; of one that has not come so far, the newest whole
checkpoint is taken. In Python: model.load_state_dict(torch.load("resnet.pt", weights_only=True)),
or safetensors.torch.load_file("resnet.safetensors"). ResNets have torchvision's names, and gpt has
those of transformers' GPT2LMHeadModel.)";

constexpr const char *kSafetensors = "safetensors", *kTorch = "torch";

struct ExportFlags {
  std::string from, format = kSafetensors, out;
};

std::string usual_out(const ExportFlags& flags) {
  const std::filesystem::path from(flags.from);
  const char* extension = flags.format == kTorch ? ".pt" : ".safetensors";
  if (std::filesystem::is_directory(from)) return (from / "model").string() + extension;
  return std::filesystem::path(from).replace_extension(extension).string();
}

int export_weights(const ExportFlags& flags) {
  const train::Weights weights = train::read_weights(flags.from);
  const std::string out = flags.out.empty() ? usual_out(flags) : flags.out;
  std::error_code none;
  require(!std::filesystem::equivalent(out, weights.path, none),
          "{}: is in this format already; --out names another file for a copy of it", out);
  if (flags.format == kTorch)
    write_atomically(out, checkpoint::torch_archive(weights.tensors));
  else
    train::write_weights(out, weights);
  fmt::print("{} tensors of {} in {}\n", weights.tensors.size(), weights.path, out);
  return 0;
}

}  // namespace

Command add_export_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("export", "Write a trained model for other programs");
  set_usage(*command, "Usage: asup export RUN|FILE [--format safetensors|torch] [--out FILE]");
  command->footer(kFooter);
  auto flags = std::make_shared<ExportFlags>();
  command->add_option("from", flags->from, "Run folder, or a file of safetensors")->required();
  command
      ->add_option("--format", flags->format,
                   "safetensors, or torch: a state_dict for Python's torch.load()")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({kSafetensors, kTorch}))
      ->capture_default_str();
  command->add_option("--out", flags->out, "Where to; default: model.pt or the like beside it")
      ->type_name("FILE");
  return {command, [flags] { return export_weights(*flags); }, {}, kExamples};
}

}  // namespace asup::cli
