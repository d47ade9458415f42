// How a worker sends servers the state of their rule, and fetches it: a piece for each server at a
// time, so that all of them are at work and little is kept here.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "asup/base/error.h"
#include "asup/ps/client.h"

namespace asup::ps {
namespace {

// Calls action(slot, pieces), with a piece for each server, empty where its shard has no more,
// until all slots have been gone through.
template <typename Action>
void for_all_pieces(std::size_t slots, const std::vector<Range>& shards, const Action& action) {
  std::uint64_t longest = 0;
  for (const Range& shard : shards) longest = std::max(longest, shard.size());
  for (std::size_t slot = 0; slot < slots; ++slot)
    for (std::uint64_t done = 0; done < longest; done += kMostStateElements) {
      std::vector<Range> pieces;
      for (const Range& shard : shards) {
        const std::uint64_t begin = shard.begin + std::min(done, shard.size());
        pieces.push_back({begin, begin + std::min(kMostStateElements, shard.end - begin)});
      }
      action(slot, pieces);
    }
}

}  // namespace

void Client::send_state(const RuleState& state) {
  check(state.updates.size() == tensors_ && state.read,
        "the state of {} tensors, and the setup has {}", state.updates.size(), tensors_);
  for (int server = 0; server < group_.servers; ++server) {
    const Range kept = kept_[static_cast<std::size_t>(server)];
    if (kept.empty()) continue;
    std::vector<double> updates;
    for (const auto& part : parts_in(setup_.layout, kept))
      updates.push_back(state.updates[part.tensor - first_tensor_]);
    const auto bytes = std::as_bytes(std::span(updates));
    messenger_->send_kept(group_.member_of_server(server), head_of(StateUpdates{0, kept}),
                          {bytes.begin(), bytes.end()});
  }
  for_all_pieces(
      state_slots(setup_), kept_, [&](std::size_t slot, const std::vector<Range>& pieces) {
        for (int server = 0; server < group_.servers; ++server) {
          const Range piece = pieces[static_cast<std::size_t>(server)];
          if (piece.empty()) continue;
          std::vector<std::byte> payload(piece.size() * sizeof(float));
          state.read(slot, here(piece), reinterpret_cast<float*>(payload.data()));
          bytes_moved_ += payload.size();
          messenger_->send_kept(group_.member_of_server(server),
                                head_of(State{0, static_cast<std::uint32_t>(slot), 0, piece}),
                                std::move(payload));
        }
        drive([&] { return !messenger_->has_unsent(); },
              "room at the servers for an optimizer's state");
      });
}

std::shared_ptr<std::vector<float>> Client::known() {
  const net::MeshLock lock(group_.mesh.loop());
  if (!known_)
    known_ = std::make_shared<std::vector<float>>(parameters().begin(), parameters().end());
  return known_;
}

void Client::tell_known() {
  const auto known = this->known();
  const net::MeshLock lock(group_.mesh.loop());
  for_all_pieces(1, shards_, [&](std::size_t, const std::vector<Range>& pieces) {
    for (int server = 0; server < group_.servers; ++server) {
      const Range piece = pieces[static_cast<std::size_t>(server)];
      if (piece.empty()) continue;
      const auto bytes = std::as_bytes(std::span(known->data() + piece.begin, piece.size()));
      bytes_moved_ += bytes.size();
      messenger_->send_kept(group_.member_of_server(server), head_of(Known{version_, piece}),
                            {bytes.begin(), bytes.end()});
    }
    drive([&] { return !messenger_->has_unsent(); },
          "room at the servers for what this worker has");
  });
  // Whoever answers has it: commands to hand out parameters come another way.
  fetch_once([&] { (void)fetch_updates(); });
  questions_.clear();
}

void Client::fetch_state(Range range, const BeginWrite& begin, const WriteState& write) {
  std::vector<Range> wanted;  // of each shard
  for (const Range& kept : kept_) wanted.push_back(intersection(kept, on_servers(range)));
  until_one_version([&] {
    const std::vector<double> updates = fetch_updates();
    begin(updates);
    const bool gathered =
        std::ranges::any_of(updates, [](double steps) { return steps != std::floor(steps); });
    const std::size_t unused = gathers_gradients(setup_) && !gathered ? 1 : 0;
    for_all_pieces(state_slots(setup_) - unused, wanted,
                   [&](std::size_t slot, const std::vector<Range>& pieces) {
                     fetch_pieces(static_cast<std::uint32_t>(slot), pieces, write);
                   });
  });
}

void Client::fetch_parameters() {
  if (coded_.any()) known();
  until_one_version([&] { fetch_parameter_pieces(); });
}

void Client::fetch_parameters_now() {
  const net::MeshLock lock(group_.mesh.loop());
  fetch_once([&] { fetch_parameter_pieces(); });
  questions_.clear();
}

void Client::fetch_parameter_pieces() {
  const auto write = [&](std::size_t, Range range, const float* from) {
    std::copy_n(from, range.size(), parameters().data() + range.begin);
  };
  for_all_pieces(1, kept_, [&](std::size_t, const std::vector<Range>& pieces) {
    fetch_pieces(AskState::kParameters, pieces, write);
  });
}

// An update that no worker waits for may pass from server to server meanwhile.
void Client::until_one_version(const std::function<void()>& fetch) {
  const net::MeshLock lock(group_.mesh.loop());
  const Deadline deadline = after(timeout_);
  do {
    if (Clock::now() > deadline)
      throw JobFailed(
          "the servers did not come to one version: their state can be fetched when no worker "
          "steps, or at a sync point");
    fetch_once(fetch);
  } while (versions_differ_);
  questions_.clear();
}

void Client::fetch_once(const std::function<void()>& fetch) {
  state_version_.reset();
  versions_differ_ = false;
  questions_.assign(static_cast<std::size_t>(group_.servers), {});
  fetch();
}

void Client::fetch_pieces(std::uint32_t slot, const std::vector<Range>& pieces,
                          const WriteState& write) {
  for (int server = 0; server < group_.servers; ++server) {
    const Range piece = pieces[static_cast<std::size_t>(server)];
    if (piece.empty()) continue;
    const AskState ask{slot, 0, piece};
    Question& question = questions_[static_cast<std::size_t>(server)];
    question.open = true;
    question.ask = ask;
    question.answer.resize(piece.size() * sizeof(float));
    messenger_->send(group_.member_of_server(server), head_of(ask));
  }
  await_answers();
  for (std::size_t server = 0; server < pieces.size(); ++server) {
    if (pieces[server].empty()) continue;
    const auto& answer = questions_[server].answer;
    write(slot, here(pieces[server]), reinterpret_cast<const float*>(answer.data()));
    bytes_moved_ += answer.size();
  }
}

// Of the tensors of this worker's part. One that lies in two shards was updated as often as the
// part of it that was updated most.
std::vector<double> Client::fetch_updates() {
  for (int server = 0; server < group_.servers; ++server) {
    Question& question = questions_[static_cast<std::size_t>(server)];
    const auto tensors = parts_in(setup_.layout, shards_[static_cast<std::size_t>(server)]).size();
    question.open = true;
    question.answer.resize(tensors * sizeof(double));
    messenger_->send(group_.member_of_server(server), head_of(AskStateUpdates{}));
  }
  await_answers();
  std::vector<double> updates(setup_.layout.tensors.size());
  for (std::size_t server = 0; server < questions_.size(); ++server) {
    const auto parts = parts_in(setup_.layout, shards_[server]);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      double of_shard = 0;
      std::memcpy(&of_shard, questions_[server].answer.data() + i * sizeof of_shard,
                  sizeof of_shard);
      auto& most = updates[parts[i].tensor];
      most = std::max(most, of_shard);
    }
  }
  const auto first = updates.begin() + static_cast<std::ptrdiff_t>(first_tensor_);
  return {first, first + static_cast<std::ptrdiff_t>(tensors_)};
}

void Client::await_answers() {
  drive(
      [&] {
        return std::none_of(questions_.begin(), questions_.end(),
                            [](const Question& question) { return question.open; });
      },
      "optimizer state from the servers");
}

// It is the answer to what this server was asked, as long as it should be.
bool Client::is_answer(int server, net::ConstBytes head, std::uint64_t bytes) const {
  const auto index = static_cast<std::size_t>(server);
  if (index >= questions_.size() || !questions_[index].open) return false;
  const Question& question = questions_[index];
  if (bytes != question.answer.size()) return false;
  const auto state = read<State>(head);
  const auto updates = read<StateUpdates>(head);
  return question.ask
             ? state && state->slot == question.ask->slot && state->range == question.ask->range
             : updates && updates->range == shards_[index];
}

net::Bytes Client::room_for_state(int server, net::ConstBytes head, std::uint64_t bytes) {
  if (!is_answer(server, head, bytes)) return {};
  return questions_[static_cast<std::size_t>(server)].answer;
}

void Client::take_state(int server, net::ConstBytes head, net::ConstBytes payload) {
  if (!failure_.empty()) return;
  // What began to come before it was asked for is not in its room.
  if (!is_answer(server, head, payload.size()) ||
      (!payload.empty() &&
       payload.data() != questions_[static_cast<std::size_t>(server)].answer.data())) {
    failure_ = fmt::format("{} sent {} bytes of optimizer state that it was not asked for",
                           name_of_server(server), payload.size());
    return;
  }
  const auto state = read<State>(head);
  const std::uint64_t version = state ? state->version : read<StateUpdates>(head)->version;
  if (version != state_version_.value_or(version)) versions_differ_ = true;
  state_version_ = version;
  questions_[static_cast<std::size_t>(server)].open = false;
}

}  // namespace asup::ps
