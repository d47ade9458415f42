#include "asup/data/text/text_dataset.h"

#include <algorithm>

#include "asup/base/error.h"
#include "asup/data/random.h"
#include "asup/data/text/text_files.h"
#include "asup/data/text/tokenizer.h"

namespace asup::data {
namespace {

constexpr std::string_view kText = "text:";
constexpr std::uint64_t kFirstWindow = 1;  // numbers apart from those that shuffle the windows

// How many windows a split has, and at how many places the first may begin.
struct Windows {
  std::size_t count = 0, begins = 1;
};

// Of training, one window fewer than there is room for: the first may begin anywhere in what is
// left, and every token is in some epoch's windows.
Windows windows_of(std::size_t tokens, std::size_t context, Split split) {
  if (split == Split::test) return {(tokens - 1) / context, 1};
  const std::size_t count = std::max<std::size_t>(1, tokens / context - 1);
  return {count, tokens - count * context};
}

class TextDataset : public Dataset {
 public:
  TextDataset(std::string name, Split split, std::shared_ptr<const Tokenizer> tokenizer,
              std::string text, const TextOptions& options, std::uint64_t seed)
      : name_(std::move(name)),
        tokenizer_(std::move(tokenizer)),
        seed_(seed),
        context_(static_cast<std::size_t>(options.context)),
        bytes_(text.size()),
        tokens_(tokenizer_->encode(std::move(text))) {
    require(tokens_.size() > context_,
            "{} has {} tokens to {}, and a sample takes {}: context = {} and one more. Lower "
            "context{}, or give a longer text.",
            name_, tokens_.size(), split == Split::train ? "train on" : "test with", context_ + 1,
            context_, split == Split::train ? "" : ", raise text-test");
    windows_ = windows_of(tokens_.size(), context_, split);
    text_ = {options.context, static_cast<double>(bytes_) / static_cast<double>(tokens_.size()),
             tokenizer_.get()};
  }

  std::size_t size() const override { return windows_.count; }
  std::vector<std::int64_t> input_shape() const override { return {text_.tokens}; }
  int classes() const override { return static_cast<int>(tokenizer_->vocabulary()); }
  std::string name() const override { return name_; }
  const Text* text() const override { return &text_; }

 private:
  Batch assemble(std::span<const std::int64_t> indices, std::uint64_t epoch) const override {
    const std::vector<std::int64_t> shape{static_cast<std::int64_t>(indices.size()), text_.tokens};
    Batch batch{blank(shape, torch::kInt64), blank(shape, torch::kInt64)};
    auto* input = batch.input.mutable_data_ptr<std::int64_t>();
    auto* target = batch.target.mutable_data_ptr<std::int64_t>();
    const std::size_t first = Random(seed_, epoch, kFirstWindow).below(windows_.begins);
    for (const std::int64_t index : indices) {
      const std::size_t begin = first + static_cast<std::size_t>(index) * context_;
      tokens_.copy(begin, context_, input);
      tokens_.copy(begin + 1, context_, target);
      input += context_;
      target += context_;
    }
    return batch;
  }

  // Constant after construction.
  const std::string name_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const std::uint64_t seed_;
  const std::size_t context_;
  const std::size_t bytes_;  // of the text
  const TokenBuffer tokens_;
  Windows windows_;
  Text text_;
};

}  // namespace

bool is_text(const std::string& name) { return name.starts_with(kText); }

std::string path_of_text(const std::string& name) { return name.substr(kText.size()); }

std::unique_ptr<Dataset> open_text(const std::string& name, Split split, const TextOptions& options,
                                   std::uint64_t seed) {
  std::string text = read_text(path_of_text(name), split, options.test_share);
  return std::make_unique<TextDataset>(name, split,
                                       load_tokenizer(options.tokenizer_model, "tokenizer"),
                                       std::move(text), options, seed);
}

std::string tokenizer_model_for(const std::string& name, const std::string& tokenizer,
                                double test_share) {
  const bool trains = vocabulary_to_train(tokenizer) > 0;
  return make_tokenizer_model(
      tokenizer, trains ? read_text(path_of_text(name), Split::train, test_share) : std::string());
}

}  // namespace asup::data
