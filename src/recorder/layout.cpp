// Reads a recorder's memory from any thread or process.
#include "src/recorder/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace wreath {
namespace {

// Loads a word. atomic_ref wants mutable words; loads leave them as they are, also in read-only mappings.
template <typename T>
T load(const T& word, std::memory_order order) {
  return std::atomic_ref<T>(const_cast<T&>(word)).load(order);
}

// A writer needs nanoseconds; this bounds a hostile one.
constexpr int kAttempts = 10'000;

// Copies the words; returns false while a writer is in them.
bool copy_words(const RecordWords& from, RecordWords& to) {
  // This order keeps the second look at the version last.
  constexpr auto kAcquire = std::memory_order_acquire;
  to.version = load(from.version, kAcquire);
  to.root = load(from.root, kAcquire);
  to.number = load(from.number, kAcquire);
  to.count = load(from.count, kAcquire);
  to.entered = load(from.entered, kAcquire);
  to.done = load(from.done, kAcquire);
  for (std::size_t i = 0; i < std::size(from.tail); ++i) to.tail[i] = load(from.tail[i], kAcquire);
  return to.version % 2 == 0 && load(from.version, std::memory_order_relaxed) == to.version;
}

bool copy_words(const MessageWords& from, MessageWords& to) {
  constexpr auto kAcquire = std::memory_order_acquire;
  to.version = load(from.version, kAcquire);
  to.peer = load(from.peer, kAcquire);
  to.place = load(from.place, kAcquire);
  to.exchange = load(from.exchange, kAcquire);
  to.number = load(from.number, kAcquire);
  to.count = load(from.count, kAcquire);
  to.kind = load(from.kind, kAcquire);
  return to.version % 2 == 0 && load(from.version, std::memory_order_relaxed) == to.version;
}

// Returns a copy that no writer was in; nullopt when there is none for a while.
template <typename Words>
std::optional<Words> still_copy(const Words& from) {
  Words words{};
  for (int attempt = 0; !copy_words(from, words); ++attempt) {
    if (attempt == kAttempts) return std::nullopt;
    pause();
  }
  return words;
}

struct Tail {
  // Holds kRecordVarying, too.
  std::uint8_t collective;

  bool varying() const { return (collective & kRecordVarying) != 0; }
  std::uint8_t plain_collective() const { return collective & static_cast<std::uint8_t>(~kRecordVarying); }

  std::uint8_t dtype;
  std::uint8_t op;
  std::uint8_t state;
  char algorithm[ShortName::kBytes];
};
static_assert(sizeof(Tail) == sizeof(RecordWords::tail));

bool in_range(const Tail& tail) {
  return tail.plain_collective() < all_collectives().size() && tail.dtype < all_dtypes().size() &&
         tail.op < all_ops().size() && tail.state <= static_cast<std::uint8_t>(CallState::Failed);
}

// Fails with the reason where it is not a recorder's header.
Status check_header(const RecorderHeader& header) {
  const auto wrong = [](std::string text) { return Error{ErrorCode::InvalidArgument, std::move(text)}; };
  if (header.magic != kRecorderMagic) return wrong("it does not start as a recorder does");
  if (header.version != kRecorderVersion) {
    return wrong(fmt::format("its version is {}, this program reads {}", header.version, kRecorderVersion));
  }
  if (header.calls != kRecordedCalls)
    return wrong(fmt::format("it holds {} calls, not {}", header.calls, kRecordedCalls));
  if (header.rank < 0 || header.ranks < 1 || header.rank >= header.ranks) {
    return wrong(fmt::format("rank {} of {} is impossible", header.rank, header.ranks));
  }
  return {};
}

}  // namespace

std::optional<CallRecord> read_record(const RecordRing& ring, std::size_t index, const TickScale& scale) {
  const std::optional<RecordWords> words = still_copy(ring.records[index]);
  if (!words) return std::nullopt;
  Tail tail{};
  std::memcpy(&tail, words->tail, sizeof tail);
  if (words->number == 0 || words->number % kRecordedCalls != index || !in_range(tail)) return std::nullopt;
  CallRecord call;
  call.number = words->number;
  call.collective = static_cast<Collective>(tail.plain_collective());
  call.varying = tail.varying();
  call.dtype = static_cast<DataType>(tail.dtype);
  call.op = static_cast<ReduceOp>(tail.op);
  call.state = static_cast<CallState>(tail.state);
  call.root = words->root;
  call.count = words->count;
  call.algorithm = std::string_view(tail.algorithm, strnlen(tail.algorithm, sizeof tail.algorithm));
  call.entered_ns = scale.to_ns(words->entered);
  if (words->done != 0) call.done_ns = std::max(scale.to_ns(words->done), call.entered_ns);
  return call;
}

namespace {

// Returns the calls in order of their numbers.
std::vector<CallRecord> read_ring(const RecordRing& ring, const TickScale& scale) {
  std::vector<CallRecord> calls;
  for (std::size_t i = 0; i < kRecordedCalls; ++i) {
    if (const std::optional<CallRecord> call = read_record(ring, i, scale)) calls.push_back(*call);
  }
  std::sort(calls.begin(), calls.end(), [](const CallRecord& a, const CallRecord& b) { return a.number < b.number; });
  return calls;
}

// Returns the messages in the order in which they were entered.
std::vector<MessageRecord> read_messages(const MessageRing& ring, int ranks) {
  std::vector<std::pair<std::uint64_t, MessageRecord>> placed;
  for (std::size_t i = 0; i < kRecordedMessages; ++i) {
    const std::optional<MessageWords> words = still_copy(ring.messages[i]);
    if (!words || words->place == 0 || words->place % kRecordedMessages != i) continue;
    const auto dtype = static_cast<std::uint8_t>(words->kind);
    if (dtype >= all_dtypes().size() || words->peer < 0 || words->peer >= ranks) continue;
    if (words->exchange == 0 || words->number == 0) continue;
    placed.emplace_back(words->place, MessageRecord{words->exchange, (words->kind & kMessageSent) != 0, words->peer,
                                                    static_cast<DataType>(dtype), words->count, words->number});
  }
  std::sort(placed.begin(), placed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<MessageRecord> messages;
  for (const auto& [place, message] : placed) messages.push_back(message);
  return messages;
}

}  // namespace

TickScale scale_of(const RecorderHeader& header) {
  return TickScale({header.start_ticks, header.start_ns}, TickPair::now());
}

Result<Recording> view(const RecorderMemory& memory, std::string source) {
  // This is a copy: another process could change the header between check and use.
  RecorderHeader header;
  std::memcpy(&header, &memory.header, sizeof header);
  WREATH_TRY(check_header(header));
  Recording recording;
  recording.source = std::move(source);
  recording.rank = header.rank;
  recording.ranks = header.ranks;
  recording.pid = header.pid;
  recording.host.assign(header.host, strnlen(header.host, sizeof header.host));
  recording.communicator = header.communicator;
  recording.clock_offset_ns = header.clock_offset_ns;
  recording.taken_ns = TickPair::now().ns;
  const TickScale scale = scale_of(header);
  recording.calls = read_ring(memory.calls, scale);
  recording.exchanges = read_ring(memory.exchanges, scale);
  recording.messages = read_messages(memory.messages, recording.ranks);
  return recording;
}

}  // namespace wreath
