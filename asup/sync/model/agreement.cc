#include "asup/sync/model/agreement.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <sstream>

#include "asup/sync/model/device.h"

namespace asup::sync {
namespace {

std::string broadcast_text(Communicator& communicator, std::string text, int root) {
  auto length = static_cast<std::int64_t>(text.size());
  communicator.broadcast(buffer_of(std::span(&length, 1)), root).or_throw();
  text.resize(static_cast<std::size_t>(length));
  communicator.broadcast({text.data(), text.size(), Dtype::u8}, root).or_throw();
  return text;
}

// Names hold no tabs or line ends: torch refuses dots in them and nobody types the others.
std::string to_text(std::span<const AgreedValue> facts) {
  std::string text;
  for (const AgreedValue& fact : facts) text += fact.what + '\t' + fact.value + '\n';
  return text;
}

std::vector<AgreedValue> from_text(const std::string& text) {
  std::vector<AgreedValue> facts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto tab = line.find('\t');
    facts.push_back({line.substr(0, tab), line.substr(tab + 1)});
  }
  return facts;
}

std::string difference(int rank, const AgreedValue* mine, const AgreedValue* theirs) {
  if (!mine)
    return fmt::format("{} ({}) is on rank 0 and not on rank {}", theirs->what, theirs->value,
                       rank);
  if (!theirs)
    return fmt::format("{} ({}) is on rank {} and not on rank 0", mine->what, mine->value, rank);
  if (mine->what != theirs->what)
    return fmt::format("{} ({}) on rank {} is {} ({}) on rank 0", mine->what, mine->value, rank,
                       theirs->what, theirs->value);
  return fmt::format("{}: {} on rank {}, {} on rank 0", mine->what, mine->value, rank,
                     theirs->value);
}

std::string first_difference(int rank, std::span<const AgreedValue> mine,
                             std::span<const AgreedValue> theirs) {
  for (std::size_t i = 0; i < std::max(mine.size(), theirs.size()); ++i) {
    const AgreedValue* a = i < mine.size() ? &mine[i] : nullptr;
    const AgreedValue* b = i < theirs.size() ? &theirs[i] : nullptr;
    if (!a || !b || a->what != b->what || a->value != b->value) return difference(rank, a, b);
  }
  return "";
}

// Of tensors' bytes, in 256 bits. Four independent lanes of multiply and rotate keep the multiplier
// busy: about as fast as memory, so that it costs less than the bytes would on any link. A lane
// tells any two words apart, and what follows them; nobody here makes up tensors that agree in it.
class Digest {
 public:
  using Lanes = std::array<std::uint64_t, 4>;

  void add(std::span<const std::byte> bytes) {
    Lanes lanes = lanes_;  // in registers
    std::size_t at = 0;
    for (; at + sizeof(Lanes) <= bytes.size(); at += sizeof(Lanes)) mix(lanes, bytes.data() + at);
    std::array<std::uint64_t, 8> last{};  // what is left, with zeros, and how many they all were
    if (at < bytes.size()) std::memcpy(last.data(), bytes.data() + at, bytes.size() - at);
    last[4] = bytes.size();
    mix(lanes, last.data());
    mix(lanes, last.data() + 4);
    lanes_ = lanes;
  }

  void add(const torch::Tensor& tensor) {
    const torch::Tensor dense = on_host(tensor.detach()).contiguous();
    const Buffer buffer = bytes_of(dense);
    add(std::span(static_cast<const std::byte*>(buffer.data), buffer.bytes()));
  }

  Lanes lanes() const {
    Lanes mixed = lanes_;
    for (int round = 0; round < 4; ++round)
      for (std::size_t i = 0; i < mixed.size(); ++i) {
        mixed[i] = (mixed[i] ^ mixed[(i + 1) % mixed.size()]) * kMix;
        mixed[i] ^= mixed[i] >> 32;
      }
    return mixed;
  }

 private:
  static constexpr std::uint64_t kMix = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio, odd

  static void mix(Lanes& lanes, const void* from) {
    Lanes words;
    std::memcpy(words.data(), from, sizeof words);
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      lanes[i] = (lanes[i] ^ words[i]) * kMix;
      lanes[i] ^= lanes[i] >> 29;
    }
  }

  Lanes lanes_{1, 2, 3, 4};
};

std::int64_t hash(const torch::Tensor& tensor) {
  Digest digest;
  digest.add(tensor);
  return static_cast<std::int64_t>(digest.lanes()[0]);
}

// Whether all ranks have the same bits, the same answer on all.
bool are_equal(Communicator& communicator, std::span<const NamedTensor> tensors) {
  Digest digest;
  for (const NamedTensor& named : tensors) digest.add(named.tensor);
  Digest::Lanes own = digest.lanes();
  std::vector<Digest::Lanes> all(static_cast<std::size_t>(communicator.size()));
  communicator
      .all_gather({own.data(), sizeof own, Dtype::u8},
                  {all.data(), sizeof own * all.size(), Dtype::u8})
      .or_throw();
  return std::ranges::all_of(all, [&](const Digest::Lanes& each) { return each == all.front(); });
}

}  // namespace

void agree(Communicator& communicator, const std::string& complaint) {
  std::int64_t mine = complaint.empty() ? 0 : 1;
  std::vector<std::int64_t> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(buffer_of(std::span(&mine, 1)), buffer_of(std::span(all))).or_throw();
  const auto first = std::find(all.begin(), all.end(), 1);
  if (first == all.end()) return;
  throw JobFailed(broadcast_text(communicator, complaint, static_cast<int>(first - all.begin())));
}

std::vector<AgreedValue> agreed_values(std::string_view kind,
                                       std::span<const NamedTensor> tensors) {
  std::vector<AgreedValue> facts;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, tensor] = tensors[i];
    const bool frozen = kind == "parameter" && !tensor.requires_grad();
    facts.push_back(
        {fmt::format("{} {}, {}", kind, i, name), describe(tensor) + (frozen ? ", frozen" : "")});
  }
  return facts;
}

void check_agreed(Communicator& communicator, std::span<const AgreedValue> facts) {
  const auto theirs = from_text(broadcast_text(communicator, to_text(facts), 0));
  const std::string difference = first_difference(communicator.rank(), facts, theirs);
  agree(communicator,
        difference.empty() ? "" : "the ranks do not train the same model: " + difference);
}

void broadcast_tensors(Communicator& communicator, std::span<const NamedTensor> tensors) {
  torch::NoGradGuard no_grad;
  if (tensors.empty() || are_equal(communicator, tensors)) return;
  for (const NamedTensor& named : tensors) {
    torch::Tensor value = on_host(named.tensor.detach());
    if (!value.is_non_overlapping_and_dense()) value = value.contiguous();
    communicator.broadcast(bytes_of(value)).or_throw();
    if (!value.is_alias_of(named.tensor)) named.tensor.detach().copy_(value);
  }
}

void check_equal_tensors(Communicator& communicator, std::string_view kind,
                         std::span<const NamedTensor> tensors) {
  std::vector<std::int64_t> mine;
  for (const NamedTensor& named : tensors) mine.push_back(hash(named.tensor.detach()));
  std::vector<std::int64_t> theirs = mine;
  communicator.broadcast(buffer_of(std::span(theirs))).or_throw();
  const auto i = static_cast<std::size_t>(
      std::mismatch(mine.begin(), mine.end(), theirs.begin()).first - mine.begin());
  agree(communicator, i == mine.size()
                          ? ""
                          : fmt::format("{} {}, {}: rank {} has other bits than rank 0", kind, i,
                                        tensors[i].name, communicator.rank()));
}

}  // namespace asup::sync
