#include "asup/train/state/generate.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "asup/data/random.h"
#include "asup/data/text/tokenizer.h"
#include "asup/models/evaluation_mode.h"

namespace asup::train {
namespace {

using Json = nlohmann::ordered_json;

// Windows at equal distances, as far as there are so many.
torch::Tensor prompts_of(const data::Dataset& test, std::int64_t count, std::int64_t tokens) {
  const auto windows = static_cast<std::int64_t>(test.size());
  count = std::min(count, windows);
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < count; ++i) indices.push_back(i * windows / count);
  const torch::Tensor input = test.get(indices).input;
  return input.narrow(1, 0, std::min(tokens, std::max<std::int64_t>(1, input.size(1) / 2)));
}

// One of the likeliest tokens, by probabilities of softmax(scores / temperature).
std::int64_t draw(const torch::Tensor& scores, const GenerateOptions& options,
                  data::Random& random) {
  const auto [best, tokens] = scores.topk(std::min(options.top_k, scores.size(0)));
  const torch::Tensor shares =
      torch::softmax(best.to(torch::kFloat64) / options.temperature, 0).cumsum(0);
  const auto* upto = shares.const_data_ptr<double>();
  const auto last = shares.size(0) - 1;
  const double at = random.uniform() * upto[last];
  const auto found = std::upper_bound(upto, upto + last, at) - upto;
  return tokens[found].item<std::int64_t>();
}

// With a column of new tokens at its end.
torch::Tensor extended(models::Model& model, const torch::Tensor& written, std::int64_t context,
                       const GenerateOptions& options, std::vector<data::Random>& randoms) {
  const std::int64_t seen = std::min(written.size(1), context);
  const torch::Tensor input = written.narrow(1, written.size(1) - seen, seen);
  const auto device = model.parameters().front().device();
  const torch::Tensor scores =
      model.forward(input.to(device)).select(1, seen - 1).to(torch::kCPU, torch::kFloat32);
  torch::Tensor next = torch::empty({written.size(0), 1}, torch::kInt64);
  for (std::int64_t i = 0; i < written.size(0); ++i)
    next[i][0] = draw(scores[i], options, randoms[static_cast<std::size_t>(i)]);
  return torch::cat({written, next}, 1);
}

std::string decoded(const data::Tokenizer& tokenizer, const torch::Tensor& tokens) {
  const torch::Tensor plain = tokens.contiguous();
  return tokenizer.decode(
      {plain.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(plain.numel())});
}

Json sample_of(const data::Tokenizer& tokenizer, const torch::Tensor& tokens, std::int64_t given) {
  const std::string prompt = decoded(tokenizer, tokens.narrow(0, 0, given));
  const std::string all = decoded(tokenizer, tokens);
  // A tokenizer may take a blank from the front of what stands alone.
  const std::string text =
      all.starts_with(prompt) ? all.substr(prompt.size())
                              : decoded(tokenizer, tokens.narrow(0, given, tokens.size(0) - given));
  return {{"prompt", prompt}, {"text", text}};
}

}  // namespace

Json generate(models::Model& model, const data::Dataset& test, const GenerateOptions& options) {
  torch::NoGradGuard no_grad;
  const models::EvaluationMode mode(model);
  const data::Text& text = *test.text();
  const torch::Tensor prompts = prompts_of(test, options.samples, options.prompt);
  std::vector<data::Random> randoms;
  for (std::int64_t i = 0; i < prompts.size(0); ++i)
    randoms.emplace_back(options.seed, static_cast<std::uint64_t>(i));
  torch::Tensor written = prompts;
  for (std::int64_t i = 0; i < options.tokens; ++i)
    written = extended(model, written, text.tokens, options, randoms);
  Json samples = Json::array();
  for (std::int64_t i = 0; i < written.size(0); ++i)
    samples.push_back(sample_of(*text.tokenizer, written[i], prompts.size(1)));
  return {{"temperature", options.temperature}, {"top_k", options.top_k}, {"samples", samples}};
}

}  // namespace asup::train
