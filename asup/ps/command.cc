#include "asup/ps/command.h"

#include "asup/base/error.h"

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

CommandHead head_of_command(const Command& command) {
  CommandHead head;
  head.version = command.version;
  head.gain = command.gain;
  head.share = command.share;
  head.parts = static_cast<std::uint32_t>(command.parts.size());
  head.dropped = static_cast<std::uint32_t>(command.dropped.size());
  head.released = static_cast<std::uint32_t>(command.released.size());
  head.compares = command.compares ? 1 : 0;
  return head;
}

std::vector<std::byte> payload_of(const Command& command) {
  std::vector<std::byte> bytes;
  append(bytes, command.parts.data(), command.parts.size());
  append(bytes, command.dropped.data(), command.dropped.size());
  append(bytes, command.released.data(), command.released.size());
  return bytes;
}

std::optional<Command> read_command(const CommandHead& head, net::ConstBytes payload) {
  const std::uint64_t pushes = std::uint64_t{head.parts} + head.dropped;
  const std::uint64_t bytes =
      pushes * sizeof(Command::PushRef) + std::uint64_t{head.released} * sizeof(std::int32_t);
  if (payload.size() != bytes) return std::nullopt;
  Command command;
  command.version = head.version;
  command.gain = head.gain;
  command.share = head.share;
  command.compares = head.compares != 0;
  take(payload, command.parts, head.parts);
  take(payload, command.dropped, head.dropped);
  take(payload, command.released, head.released);
  return command;
}

void require_workers(const Command& command, int workers) {
  const auto require_worker = [&](int worker) {
    check(worker >= 0 && worker < workers, "its command is about worker {} of {}", worker, workers);
  };
  for (const auto& push : command.parts) require_worker(push.worker);
  for (const auto& push : command.dropped) require_worker(push.worker);
  for (const int worker : command.released) require_worker(worker);
}

}  // namespace asup::ps
