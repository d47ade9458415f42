#include "asup/collective/text_exchange.h"

#include <numeric>
#include <utility>

#include "asup/base/error.h"

namespace asup {
namespace {

// More is no text, whoever says so.
constexpr std::int64_t kMostText = std::int64_t{1} << 40;

std::size_t length_from(std::int64_t length) {
  check(length >= 0 && length <= kMostText, "another rank speaks of a text of {} bytes", length);
  return static_cast<std::size_t>(length);
}
std::vector<std::size_t> lengths_from(const std::vector<std::int64_t>& lengths) {
  std::vector<std::size_t> counts;
  for (const std::int64_t length : lengths) counts.push_back(length_from(length));
  return counts;
}

Buffer buffer_of_text(std::string& text) { return {text.data(), text.size(), Dtype::u8}; }

std::vector<std::size_t> lengths_of_all(Communicator& communicator, const std::string& text) {
  auto length = static_cast<std::int64_t>(text.size());
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(buffer_of(std::span(&length, 1)), buffer_of(std::span(lengths)))
      .or_throw();
  return lengths_from(lengths);
}

std::size_t sum_of(const std::vector<std::size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

std::vector<std::string> cut(const std::string& all, const std::vector<std::size_t>& counts) {
  std::vector<std::string> texts;
  std::size_t begin = 0;
  for (const std::size_t count : counts) {
    texts.push_back(all.substr(begin, count));
    begin += count;
  }
  return texts;
}

}  // namespace

std::string broadcast_text(Communicator& communicator, std::string text, Seconds timeout) {
  const auto broadcast = [&](Buffer data) {
    Call call;
    call.collective = collective::Collective::broadcast;
    call.input = call.output = data;
    call.timeout = timeout;
    communicator.run(std::move(call)).or_throw();
  };
  auto length = static_cast<std::int64_t>(text.size());
  broadcast(buffer_of(std::span(&length, 1)));
  text.resize(length_from(length));
  broadcast(buffer_of_text(text));
  return text;
}

std::vector<std::string> gather_texts(Communicator& communicator, const std::string& text) {
  const auto counts = lengths_of_all(communicator, text);
  std::string own = text;
  std::string all(sum_of(counts), '\0');
  communicator.all_gather(buffer_of_text(own), buffer_of_text(all), counts).or_throw();
  return cut(all, counts);
}

std::vector<std::string> gather_texts_at_first(Communicator& communicator, std::string text) {
  const auto counts = lengths_of_all(communicator, text);
  const bool is_first = communicator.rank() == 0;
  std::string all(is_first ? sum_of(counts) : 0, '\0');
  communicator.gather(buffer_of_text(text), buffer_of_text(all), 0, counts).or_throw();
  return is_first ? cut(all, counts) : std::vector<std::string>{};
}

std::string scatter_texts(Communicator& communicator, const std::vector<std::string_view>& texts) {
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(communicator.size()));
  std::string all;
  if (communicator.rank() == 0) {
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      lengths[i] = static_cast<std::int64_t>(texts.at(i).size());
      all += texts[i];
    }
  }
  communicator.broadcast(buffer_of(std::span(lengths))).or_throw();
  const std::vector<std::size_t> counts = lengths_from(lengths);
  std::string own(counts[static_cast<std::size_t>(communicator.rank())], '\0');
  communicator.scatter(buffer_of_text(all), buffer_of_text(own), 0, counts).or_throw();
  return own;
}

}  // namespace asup
