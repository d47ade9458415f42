#include "asup/parallel/pipeline/messages.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "asup/base/error.h"
#include "asup/parallel/schedule/messages.h"

namespace asup::parallel {
namespace {

using Op = Action::Op;

constexpr int kAhead = 2;  // receives of a kind from a peer that are posted before they are needed

bool is_type(std::int64_t number) {
  if (number < 0 || number >= static_cast<std::int64_t>(torch::ScalarType::NumOptions))
    return false;
  const auto type = static_cast<torch::ScalarType>(number);
  return c10::isFloatingType(type) || c10::isComplexType(type) ||
         c10::isIntegralType(type, /*includeBool=*/true);
}

bool is_send(const Action& action) {
  return action.op == Op::send_activation || action.op == Op::send_gradient;
}

}  // namespace

TensorHead::TensorHead(const torch::Tensor& tensor) {
  require(tensor.dim() <= static_cast<std::int64_t>(kMostDimensions),
          "a stage's output has {} dimensions, and {} are the most that travel", tensor.dim(),
          kMostDimensions);
  values_[0] = static_cast<std::int64_t>(tensor.scalar_type());
  values_[1] = tensor.dim();
  std::copy(tensor.sizes().begin(), tensor.sizes().end(), values_.begin() + 2);
}

std::string TensorHead::fault() const {
  if (!is_type(values_[0])) return fmt::format("type {}", values_[0]);
  const std::int64_t dimensions = values_[1];
  if (dimensions < 0 || dimensions > static_cast<std::int64_t>(kMostDimensions))
    return fmt::format("{} dimensions", dimensions);
  const std::span sizes(values_.data() + 2, static_cast<std::size_t>(dimensions));
  std::int64_t most = kMostElements;
  for (const std::int64_t size : sizes)
    most = size < 0 ? 0 : most / std::max<std::int64_t>(size, 1);
  return most > 0 ? "" : fmt::format("sizes {}", fmt::join(sizes, " × "));
}

void TensorHead::require_sound(std::string_view doing, int from) const {
  if (const std::string none = fault(); !none.empty())
    throw JobFailed(fmt::format("{}: rank {} announced a tensor with {}, which there is not", doing,
                                from, none));
}

torch::Tensor TensorHead::empty() const {
  return torch::empty(torch::IntArrayRef(values_.data() + 2, static_cast<std::size_t>(values_[1])),
                      static_cast<torch::ScalarType>(values_[0]));
}

void send_tensor(Communicator& communicator, const torch::Tensor& tensor, int to,
                 const std::string& doing) {
  const torch::Tensor message = tensor.to(torch::kCPU).contiguous();
  TensorHead head(message);
  communicator.send(head.buffer(), to).or_throw(doing);
  communicator.send(bytes_of(message), to).or_throw(doing);
}

torch::Tensor recv_tensor(Communicator& communicator, int from, const std::string& doing) {
  TensorHead head;
  communicator.recv(head.buffer(), from).or_throw(doing);
  head.require_sound(doing, from);
  const torch::Tensor message = head.empty();
  communicator.recv(bytes_of(message), from).or_throw(doing);
  return message;
}

Messages::Messages(Communicator& communicator, const PipelineSpec& spec,
                   const std::vector<Schedule>& schedules)
    : communicator_(communicator), spec_(spec) {
  for (int rank = 0; rank < spec.ranks; ++rank) {
    if (rank == communicator.rank()) continue;
    Peer peer;
    peer.rank = rank;
    std::map<int, bool> begun;  // stages that activations enter
    for (const Action& action : schedules[static_cast<std::size_t>(rank)]) {
      if (!is_send(action)) continue;
      const Action arrival = counterpart(action);
      if (spec.rank_of(arrival.stage) != communicator.rank()) continue;
      const bool activation = arrival.op == Op::recv_activation;
      const bool begins = activation && !std::exchange(begun[arrival.stage], true);
      peer.messages.push_back({arrival, begins});
    }
    if (!peer.messages.empty()) peers_.push_back(std::move(peer));
  }
}

Messages::~Messages() {
  const auto under_way = [](const auto& each) { return !each.work.done(); };
  bool waits = std::any_of(sent_.begin(), sent_.end(), under_way);
  for (const auto& [key, posted] : posted_) waits |= under_way(posted);
  for (const Peer& peer : peers_) waits |= peer.head && under_way(*peer.head);
  if (!waits) return;
  communicator_.abandon();  // then nobody touches the memory any more
  for (Sent& sent : sent_) (void)sent.work.wait();
  for (auto& [key, posted] : posted_) (void)posted.work.wait();
  for (Peer& peer : peers_)
    if (peer.head) (void)peer.head->work.wait();
}

void Messages::begin(std::int64_t step) {
  check(posted_.empty() && sent_.empty(), "step {} of a pipeline has not ended", step_);
  step_ = step;
  entering_.clear();
  leaving_.clear();
  for (Peer& peer : peers_) {
    peer.expected.assign(peer.messages.begin(), peer.messages.end());
    peer.head.reset();
  }
}

void Messages::expect(int first) {
  for (Peer& peer : peers_)
    for (Incoming incoming : peer.messages) {
      incoming.action.micro_batch += first;
      incoming.begins = false;
      peer.expected.push_back(incoming);
    }
}

std::string Messages::doing(const Action& action) const {
  const bool forward = action.op == Op::send_activation || action.op == Op::recv_gradient;
  return fmt::format(
      "step {}, stage {}, micro-batch {}: {} {} {} stage {}",
      step_ + action.micro_batch / spec_.micro_batches, action.stage,
      action.micro_batch % spec_.micro_batches, is_send(action) ? "sending" : "waiting for",
      action.op == Op::send_activation || action.op == Op::recv_activation ? "activations"
                                                                           : "gradients",
      is_send(action) ? "to" : "from", forward ? action.stage + 1 : action.stage - 1);
}

void Messages::forget_sent() {
  while (!sent_.empty() && sent_.front().work.done()) {
    sent_.front().work.wait().or_throw(doing(sent_.front().action));
    sent_.pop_front();
  }
}

void Messages::send(const Action& action, const torch::Tensor& tensor) {
  forget_sent();
  const int peer = peer_of(action, spec_);
  const torch::Tensor message = tensor.to(torch::kCPU).contiguous();
  if (action.op == Op::send_activation) {
    const TensorHead head(message);
    const auto [place, begins] = leaving_.try_emplace(action.stage, head);
    require(place->second == head,
            "stage {}: its output of micro-batch {} has another shape or type than that of the "
            "first one of step {}; all micro-batches of a step must be alike",
            action.stage, action.micro_batch, step_);
    if (begins) {
      auto kept = std::make_unique<TensorHead>(head);
      const Work work = communicator_.start_send(kept->buffer(), peer);
      sent_.push_back({{}, std::move(kept), work, action});
    }
  }
  sent_.push_back({message, nullptr, communicator_.start_send(bytes_of(message), peer), action});
}

const TensorHead* Messages::head_of(const Action& recv) const {
  const auto& heads = recv.op == Op::recv_activation ? entering_ : leaving_;
  const auto found = heads.find(recv.stage);
  return found == heads.end() ? nullptr : &found->second;
}

// False where the shape of what comes is not known yet.
bool Messages::post_next(Peer& peer, bool waits) {
  check(!peer.expected.empty(), "rank {} sends nothing more", peer.rank);
  const auto [action, begins] = peer.expected.front();
  if (begins) {
    if (!peer.head) {
      peer.head = std::make_unique<Peer::ExpectedHead>();
      peer.head->work = communicator_.start_recv(peer.head->head.buffer(), peer.rank);
    }
    if (!waits && !peer.head->work.done()) return false;
    peer.head->work.wait().or_throw(doing(action));
    const TensorHead& head = peer.head->head;
    head.require_sound(doing(action), peer.rank);
    entering_[action.stage] = head;
    peer.head.reset();
  }
  const TensorHead* head = head_of(action);
  check(head || !waits, "{} comes before what it is the gradient of", describe(action));
  if (!head) return false;
  const torch::Tensor tensor = head->empty();
  posted_[key_of(action)] = {tensor, communicator_.start_recv(bytes_of(tensor), peer.rank)};
  peer.expected.pop_front();
  return true;
}

bool Messages::has_room(const Peer& peer) const {
  if (peer.expected.empty()) return false;
  const Op kind = peer.expected.front().action.op;
  const auto ahead = std::count_if(posted_.begin(), posted_.end(), [&](const auto& posted) {
    const auto& [op, stage, micro_batch] = posted.first;
    return op == kind && peer_of({op, stage, micro_batch}, spec_) == peer.rank;
  });
  return ahead < kAhead;
}

void Messages::post() {
  for (Peer& peer : peers_)
    while (has_room(peer) && post_next(peer, false)) {
    }
}

torch::Tensor Messages::recv(const Action& action) {
  const Key key = key_of(action);
  const int from = peer_of(action, spec_);
  const auto peer = std::find_if(peers_.begin(), peers_.end(),
                                 [&](const Peer& each) { return each.rank == from; });
  while (!posted_.contains(key)) post_next(*peer, true);
  Posted& posted = posted_.at(key);
  posted.work.wait().or_throw(doing(action));
  torch::Tensor tensor = posted.tensor;
  posted_.erase(key);
  return tensor;
}

std::int64_t Messages::early() const {
  return std::count_if(posted_.begin(), posted_.end(),
                       [](const auto& posted) { return posted.second.work.done(); });
}

void Messages::end() {
  for (Sent& sent : sent_) sent.work.wait().or_throw(doing(sent.action));
  sent_.clear();
}

}  // namespace asup::parallel
