// The functions send and recv make one message an exchange of its own, or add the message to the thread's open Group.
#include <fmt/format.h>

#include "src/base/invalid_argument.hpp"
#include "src/communicator/begin_operation.hpp"
#include "src/communicator/impl.hpp"
#include "src/device/call_memory.hpp"

namespace wreath {
namespace {

// Says whether a message is plainly right: a small one between ranks, in memory of the host.
bool is_plain(const ExchangeMessage& message, const Engine& engine) {
  return static_cast<std::size_t>(message.dtype) < kDataTypeCount && message.peer >= 0 &&
         message.peer < engine.ranks() && message.peer != engine.rank() && message.count <= kPairMessageBytes &&
         message.data != nullptr && !may_have_device_memory.load(std::memory_order_relaxed);
}

Status check_in_full(Direction direction, const StreamedMessage& streamed, const Engine& engine) {
  const auto& [message, stream] = streamed;
  const bool sends = direction == Direction::Send;
  if (static_cast<std::size_t>(message.dtype) >= kDataTypeCount) {
    return invalid_argument(
        fmt::format("dtype = {}: there are {}", static_cast<int>(message.dtype), all_dtypes().size()));
  }
  if (message.peer < 0 || message.peer >= engine.ranks()) {
    return invalid_argument(
        fmt::format("{} = {}: there are {} ranks", sends ? "to" : "from", message.peer, engine.ranks()));
  }
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(message.count, size_of(message.dtype), &bytes) || bytes > SIZE_MAX / 2) {
    return invalid_argument(fmt::format("count = {}, with {} bytes an element, is more than memory holds",
                                        message.count, size_of(message.dtype)));
  }
  if (message.count > 0 && message.data == nullptr) {
    return invalid_argument(fmt::format("{} = null with count = {}", sends ? "input" : "output", message.count));
  }
  if (may_have_device_memory.load(std::memory_order_relaxed)) {
    const CallBuffer buffer{sends ? "input" : "output", message.data};
    WREATH_TRY(check_call_memory(buffer, {}, stream));
    if (device_of(message.data) != nullptr) WREATH_TRY(check_inside(buffer, bytes));
  }
  if (message.peer == engine.rank() && GroupCalls::open() == nullptr) {
    return Error{ErrorCode::InvalidUsage,
                 fmt::format("{} = {}, the own rank: messages to oneself need a Group with both send and recv",
                             sends ? "to" : "from", message.peer),
                 -1};
  }
  return {};
}

Status check_message(Direction direction, const StreamedMessage& streamed, const Engine& engine) {
  return is_plain(streamed.message, engine) ? Status() : check_in_full(direction, streamed, engine);
}

std::string_view name_of(Direction direction) { return direction == Direction::Send ? "send" : "recv"; }

ExchangeMessages alone(Direction direction, const ExchangeMessage& message) {
  ExchangeMessages messages;
  (direction == Direction::Send ? messages.sends : messages.receives).push_back(message);
  return messages;
}

ExchangeMessage message_of(const void* data, std::size_t count, DataType dtype, Rank peer) {
  return {peer, dtype, count, static_cast<std::byte*>(const_cast<void*>(data)), 0};
}

}  // namespace

// This is inline so that the message's words stay in registers until they are where they are kept. In memory they would
// be copied in pairs, and each such load would wait until the stores of both are in the cache.
inline bool Communicator::Impl::keep_plain(Direction direction, const ExchangeMessage& message) {
  GroupCalls* const group = GroupCalls::open();
  if (group == nullptr || inherited() || !is_plain(message, *engine)) return false;
  group->keep(*engine, direction, {message, nullptr});
  return true;
}

Status Communicator::Impl::run(Direction direction, const StreamedMessage& message) {
  return make([&] { return name_of(direction); }, [&] { return check_message(direction, message, *engine); },
              [&](Engine& own) -> Status {
                if (GroupCalls* group = GroupCalls::open()) {
                  group->keep(own, direction, message);
                  return {};
                }
                ExchangeMessages messages = alone(direction, message.message);
                return own.run(messages, device_of(message.message.data) == nullptr);
              });
}

Result<Work> Communicator::Impl::start(Direction direction, const StreamedMessage& message) {
  return make([&] { return name_of(direction); }, [&] { return check_message(direction, message, *engine); },
              [&](Engine& own) -> Result<Work> {
                if (GroupCalls* group = GroupCalls::open()) {
                  group->keep(own, direction, message);
                  return group->work();
                }
                auto operation =
                    begin_operation(own.prepare(exchange_in(message.stream), alone(direction, message.message)));
                if (!operation) return operation.error();
                return Work(std::move(*operation));
              });
}

Status Communicator::send(const void* input, std::size_t count, DataType dtype, Rank to) {
  if (!impl_) return not_made();
  if (impl_->keep_plain(Direction::Send, message_of(input, count, dtype, to))) return {};
  return impl_->run(Direction::Send, {message_of(input, count, dtype, to), nullptr});
}
Result<Work> Communicator::send_async(const void* input, std::size_t count, DataType dtype, Rank to, Stream* stream) {
  if (!impl_) return not_made();
  return impl_->start(Direction::Send, {message_of(input, count, dtype, to), stream});
}
Status Communicator::recv(void* output, std::size_t count, DataType dtype, Rank from) {
  if (!impl_) return not_made();
  if (impl_->keep_plain(Direction::Receive, message_of(output, count, dtype, from))) return {};
  return impl_->run(Direction::Receive, {message_of(output, count, dtype, from), nullptr});
}
Result<Work> Communicator::recv_async(void* output, std::size_t count, DataType dtype, Rank from, Stream* stream) {
  if (!impl_) return not_made();
  return impl_->start(Direction::Receive, {message_of(output, count, dtype, from), stream});
}

}  // namespace wreath
