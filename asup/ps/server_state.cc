// How a server gives workers the state of its rule: between two commands, by a copy, and to each
// worker one answer at a time, so that none makes it keep more than a piece.
#include <algorithm>
#include <cstring>
#include <memory>

#include "asup/base/error.h"
#include "asup/ps/server.h"

namespace asup::ps {
namespace {

std::vector<std::byte> copy_of(net::ConstBytes bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace

// A worker may have its answer, and ask on, before it is known here that the answer has left.
void Server::on_question(int worker, net::ConstBytes head) {
  if (!session(worker).is_open()) return;
  if (!welcomed_) return refuse(worker, "it asks for the optimizer's state before all have begun");
  if (!questions_[worker].head.empty())
    return refuse(worker, "it asks for more of the optimizer's state than it waits for");
  questions_[worker].head = copy_of(head);
  answer_questions();
}

void Server::answer_questions() {
  if (working_ || !commands_.empty()) return;
  for (auto& [worker, question] : questions_) {
    if (question.head.empty() || question.answer_leaves) continue;
    if (const auto complaint = answer(worker); !complaint.empty()) refuse(worker, complaint);
    question.head.clear();
  }
}

// A complaint where it makes no sense.
std::string Server::answer(int worker) {
  Question& question = questions_.at(worker);
  std::vector<std::byte> head;
  // The message keeps it: the worker may leave, and be forgotten here, before it has left.
  const auto payload = std::make_shared<std::vector<std::byte>>();
  if (const auto ask = read<AskState>(question.head)) {
    const Range range = ask->range;
    const bool parameters = ask->slot == AskState::kParameters;
    if ((ask->slot >= shard_->state().size() && !parameters) || range.empty() ||
        !shard_->range().contains(range) || range.size() > kMostStateElements)
      return fmt::format(
          "it asks for elements {} to {} of slot {} of the optimizer's state; here are {} to {} of "
          "{} slots, and at most {} go at a time",
          range.begin, range.end, ask->slot, shard_->range().begin, shard_->range().end,
          shard_->state().size(), kMostStateElements);
    const float* all = parameters ? shard_->parameters() : shard_->state()[ask->slot].data();
    const float* data = all + (range.begin - shard_->range().begin);
    head = head_of(State{version_, ask->slot, 0, range});
    *payload = copy_of(std::as_bytes(std::span(data, range.size())));
  } else if (read<AskStateUpdates>(question.head)) {
    std::vector<double> updates;
    for (const auto& tensor : parts_in(setup_->layout, shard_->range()))
      updates.push_back(shard_->steps_of(tensor.range));
    head = head_of(StateUpdates{version_, shard_->range()});
    *payload = copy_of(std::as_bytes(std::span(updates)));
  } else {
    return "its question about the optimizer's state makes no sense";
  }
  question.answer_leaves = true;
  messenger_->send(worker, head, *payload, [this, worker, payload] {
    const auto found = questions_.find(worker);
    if (found == questions_.end()) return;
    found->second.answer_leaves = false;
    answer_questions();
  });
  return {};
}

}  // namespace asup::ps
