// Decides when fills are timed, when the other way is tried, and which way the next fills go.
#include "src/executor/slot_fill.hpp"

#include <algorithm>
#include <iterator>

#include "src/base/cpu.hpp"
#include "src/fifo/access.hpp"

namespace wreath {
namespace {

constexpr std::uint32_t kTimedEvery = 8;
// A trial may cost 15 times a fill. At this distance trials take 2 % of the time.
constexpr std::uint32_t kTrialEvery = 768;
// Fresh slots are slower, because their pages come first.
constexpr std::uint32_t kFirstTrial = 32;
// A median survives one interruption.
constexpr std::uint32_t kTrialFills = 3;
static_assert(std::size(FillHistory{}.plain) == kTrialFills);

std::uint32_t median(const std::uint32_t (&times)[3]) {
  return std::max(std::min(times[0], times[1]), std::min(std::max(times[0], times[1]), times[2]));
}

bool known(const std::uint32_t (&times)[3]) { return times[0] != 0; }

// Returns the number of fills until the next trial is over.
std::uint32_t turns_of(const FillHistory& history) {
  return history.turns == 0 ? kFirstTrial + kTrialFills : history.turns;
}

// Returns whether fills go past the caches. There the reader takes longer, too, by about the time of a fill. So a way
// must win by that much, and it stays until the other one wins clearly.
bool prefers_past(const FillHistory& history) {
  if (!known(history.plain) || !known(history.past_caches)) return history.past;
  const std::uint64_t plain = median(history.plain);
  const std::uint64_t past = median(history.past_caches);
  return history.past ? plain >= 2 * past : 2 * plain > 5 * past;
}

}  // namespace

FillTurn next_fill(const FillHistory& history) noexcept {
  const std::uint32_t turns = turns_of(history);
  const bool trial = turns <= kTrialFills;
  return {history.past != trial, trial || turns % kTimedEvery == 0};
}

void add_fill(FillHistory& history, FillTurn turn, std::uint64_t cycles, std::size_t bytes) noexcept {
  const std::uint32_t turns = turns_of(history);
  const bool in_trial = turns <= kTrialFills && turns > 1;
  history.turns = turns > 1 ? turns - 1 : kTrialEvery + kTrialFills;
  if (!turn.timed) return;
  auto& times = turn.past ? history.past_caches : history.plain;
  std::move(std::begin(times) + 1, std::end(times), std::begin(times));
  times[2] = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(cycles * 1024 / bytes, 1, UINT32_MAX));
  if (in_trial || prefers_past(history) == history.past) return;
  history.past = !history.past;
  history.turns = kTrialEvery + kTrialFills;
}

FillHistory& history_of(SendFifo& fifo, std::size_t bytes) noexcept {
  return fifo.fills[bytes < (32U << 10) ? 0 : bytes < (128U << 10) ? 1 : 2];
}

// A fill past the caches takes the same time wherever its lines were.
std::byte* SlotFill::begin(SendFifo& fifo, std::size_t bytes) noexcept {
  if (std::byte* const held = held_slots(fifo.ping_pong, bytes); held != nullptr) {
    begin(nullptr);
    return held;
  }
  FillHistory& history = history_of(fifo, bytes);
  begin(&history);
  const bool in_ring = bytes > kStoreBufferBytes && bytes <= kMostRingMessageBytes && !next_fill(history).past;
  return fifo.staging + staging_place(fifo, bytes, in_ring ? fifo.ring_bytes : kLeastRingBytes);
}

void SlotFill::fill(const CopyKernels& copies, std::byte* slot, const std::byte* source, std::size_t bytes) {
  if (history_ == nullptr || copies.stream == nullptr || bytes < kLeastTimedFillBytes) {
    return copies.fill(slot, source, bytes);
  }
  const FillTurn turn = next_fill(*history_);
  const std::uint64_t begin = turn.timed ? cycle_count() : 0;
  (turn.past ? copies.stream : copies.fill)(slot, source, bytes);
  add_fill(*history_, turn, turn.timed ? cycle_count() - begin : 0, bytes);
  stored_past_ = stored_past_ || turn.past;
}

void SlotFill::end(const CopyKernels& copies) {
  if (!stored_past_) return;
  copies.end_stream();
  stored_past_ = false;
}

}  // namespace wreath
