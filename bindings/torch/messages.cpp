// Implements messages from one rank to another.
#include <c10/util/Exception.h>

#include <utility>

#include "bindings/torch/backend.hpp"
#include "bindings/torch/joined.hpp"

namespace wreath_torch {
namespace {

// A rank has at most so many channels in a group.
constexpr std::size_t kMostChannels = 256;
// A pair needs no more bytes of slots.
constexpr std::size_t kChannelBytes = std::size_t{8} << 20;

// These are the ranks of a pair's communicator.
constexpr int kSender = 0;
constexpr int kReceiver = 1;

}  // namespace

std::shared_ptr<Channel> WreathBackend::channel_to(Direction direction, int peer, int tag) {
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = pairs_.try_emplace(ChannelKey{peer, tag, direction});
  if (!is_new) return place->second;
  if (pairs_.size() > kMostChannels) {
    pairs_.erase(place);
    C10_THROW_ERROR(Error,
                    c10::str("wreath: messages with ", kMostChannels, " combinations of peer, direction and tag ",
                             "were sent in this group; tag = ", tag, " would be one more: use fewer tags"));
  }
  const int sender = direction == Direction::Send ? rank_ : peer;
  const int receiver = direction == Direction::Send ? peer : rank_;
  Meeting meeting;
  meeting.store = membership_.store;
  meeting.key = c10::str("wreath/", sender, ">", receiver, "/", tag);
  meeting.who = c10::str("ranks ", sender, " and ", receiver, " of group ", membership_.group.name,
                         ", for their first message from ", sender, " to ", receiver, " with tag ", tag, ",");
  meeting.rank = direction == Direction::Send ? kSender : kReceiver;
  meeting.ranks = 2;
  meeting.timeout = membership_.timeout;
  meeting.options.timeouts = clocks_of(membership_.timeout);
  meeting.options.overrides.buffer_bytes = kChannelBytes;
  const std::vector<std::int64_t>& global = membership_.group.global_ranks;
  const auto of_all = [&](int rank) {
    return static_cast<std::size_t>(rank) < global.size() ? global[static_cast<std::size_t>(rank)] : rank;
  };
  GroupNames names{
      c10::str(membership_.group.name, ", messages from rank ", sender, " to rank ", receiver, ", tag ", tag),
      {of_all(sender), of_all(receiver)}};
  place->second = std::make_shared<Channel>(std::move(meeting), std::move(names));
  return place->second;
}

WreathBackend::WorkPointer WreathBackend::exchange(Direction direction, Tensors& tensors, int peer, int tag) {
  const bool sends = direction == Direction::Send;
  const char* call = sends ? "send" : "recv";
  at::Tensor& tensor = only(call, tensors);
  TORCH_CHECK_VALUE(peer >= 0 && peer < size_, "wreath: ", call, ": rank ", peer, ": there are ", size_, " ranks");
  TORCH_CHECK_VALUE(peer != rank_, "wreath: ", call, ": rank ", peer, " is this one");
  const Elements elements = moved(tensor.scalar_type());
  const CallName name{sends ? c10d::OpType::SEND : c10d::OpType::RECV, sends ? "wreath:send" : "wreath:recv"};
  auto work = c10::make_intrusive<CallWork>(rank_, name, tensors, sends ? Tensors{} : tensors, sequence_.load());
  return enter(channel_to(direction, peer, tag), {c10d::kUnsetTimeout, true}, std::move(work),
               [tensor, elements, sends](Turn& turn) {
                 Joined buffer({tensor}, elements, tensor.scalar_type(), sends);
                 wreath::Call message;
                 message.dtype = elements.dtype;
                 message.count = buffer.count();
                 message.input = message.output = buffer.data();
                 if (sends) return turn.send(message, kReceiver);
                 turn.receive(message, kSender);
                 buffer.spread();
               });
}

WreathBackend::WorkPointer WreathBackend::send(Tensors& tensors, int to, int tag) {
  return exchange(Direction::Send, tensors, to, tag);
}

WreathBackend::WorkPointer WreathBackend::recv(Tensors& tensors, int from, int tag) {
  return exchange(Direction::Receive, tensors, from, tag);
}

WreathBackend::WorkPointer WreathBackend::recvAnysource(Tensors& tensors, int tag) {
  only("recv", tensors);
  C10_THROW_ERROR(NotImplementedError, c10::str("wreath: recv from any source (tag ", tag,
                                                "): a receive names the rank that sends: recv(src=...)"));
}

}  // namespace wreath_torch
