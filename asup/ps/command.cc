#include "asup/ps/command.h"

namespace asup::ps {
namespace {

template <typename T>
void append(std::vector<std::byte>& bytes, const T* items, std::size_t count) {
  const auto* begin = reinterpret_cast<const std::byte*>(items);
  bytes.insert(bytes.end(), begin, begin + count * sizeof(T));
}

template <typename Items>
void take(net::ConstBytes& bytes, Items& items, std::size_t count) {
  using T = typename Items::value_type;
  items.resize(count);
  if (count > 0) std::memcpy(items.data(), bytes.data(), count * sizeof(T));
  bytes = bytes.subspan(count * sizeof(T));
}

}  // namespace

std::optional<Kind> kind_of(net::ConstBytes head) {
  Kind kind;
  if (head.size() < sizeof kind) return std::nullopt;
  std::memcpy(&kind, head.data(), sizeof kind);
  return kind;
}

CommandHead head_of_command(const Command& order) {
  CommandHead head;
  head.version = order.version;
  head.lr = order.lr;
  head.parts = static_cast<std::uint32_t>(order.parts.size());
  head.dropped = static_cast<std::uint32_t>(order.dropped.size());
  head.released = static_cast<std::uint32_t>(order.released.size());
  head.saves = static_cast<std::uint32_t>(order.save_as.size());
  return head;
}

std::vector<std::byte> payload_of(const Command& order) {
  std::vector<std::byte> bytes;
  append(bytes, order.parts.data(), order.parts.size());
  append(bytes, order.dropped.data(), order.dropped.size());
  append(bytes, order.released.data(), order.released.size());
  append(bytes, order.save_as.data(), order.save_as.size());
  return bytes;
}

std::optional<Command> read_command(const CommandHead& head, net::ConstBytes payload) {
  const std::uint64_t pushes = std::uint64_t{head.parts} + head.dropped;
  const std::uint64_t bytes = pushes * sizeof(Command::Push) +
                              std::uint64_t{head.released} * sizeof(std::int32_t) + head.saves;
  if (payload.size() != bytes) return std::nullopt;
  Command order;
  order.version = head.version;
  order.lr = head.lr;
  take(payload, order.parts, head.parts);
  take(payload, order.dropped, head.dropped);
  take(payload, order.released, head.released);
  take(payload, order.save_as, head.saves);
  return order;
}

}  // namespace asup::ps
