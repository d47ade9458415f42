#include "asup/collective/text_exchange.h"

#include <numeric>

namespace asup {
namespace {

Buffer buffer_of_text(std::string& text) { return {text.data(), text.size(), Dtype::u8}; }

}  // namespace

std::string broadcast_text(Communicator& communicator, std::string text) {
  auto length = static_cast<std::int64_t>(text.size());
  communicator.broadcast(buffer_of(std::span(&length, 1))).or_throw();
  text.resize(static_cast<std::size_t>(length));
  communicator.broadcast(buffer_of_text(text)).or_throw();
  return text;
}

std::vector<std::string> gather_texts(Communicator& communicator, const std::string& text) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  auto length = static_cast<std::int64_t>(text.size());
  std::vector<std::int64_t> lengths(ranks);
  communicator.all_gather(buffer_of(std::span(&length, 1)), buffer_of(std::span(lengths)))
      .or_throw();

  std::string own = text;
  std::string all(static_cast<std::size_t>(std::accumulate(lengths.begin(), lengths.end(), 0L)),
                  '\0');
  std::vector<std::size_t> counts(lengths.begin(), lengths.end());
  communicator.all_gather(buffer_of_text(own), buffer_of_text(all), counts).or_throw();

  std::vector<std::string> texts;
  std::size_t begin = 0;
  for (const std::size_t count : counts) {
    texts.push_back(all.substr(begin, count));
    begin += count;
  }
  return texts;
}

}  // namespace asup
