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
static_assert(std::size(FillHistory{}.usual) == kTrialFills);

std::uint32_t median(const std::uint32_t (&times)[3]) {
  return std::max(std::min(times[0], times[1]), std::min(std::max(times[0], times[1]), times[2]));
}

bool known(const std::uint32_t (&times)[3]) { return times[0] != 0; }

// Returns the number of fills until the next trial is over.
std::uint32_t turns_of(const FillHistory& history) {
  return history.turns == 0 ? kFirstTrial + kTrialFills : history.turns;
}

// Returns whether fills go the other way. A way stays until the other one wins clearly.
bool prefers_other(const FillHistory& history, const FillRule& rule) {
  if (!known(history.usual) || !known(history.other)) return history.takes_other;
  const std::uint64_t usual = 100 * std::uint64_t{median(history.usual)};
  const std::uint64_t other = median(history.other);
  return history.takes_other ? usual >= rule.kept_from * other : usual > rule.taken_from * other;
}

std::uint64_t per_kib(std::uint64_t cycles, std::size_t bytes) { return cycles * 1024 / bytes; }

CopyKernel choose(const CopyKernels& copies, FillTurn past_caches, FillTurn pages) {
  if (past_caches.other) return copies.stream;
  return pages.other ? copies.fill_pages : copies.fill;
}

}  // namespace

FillTurn next_fill(const FillHistory& history) noexcept {
  const std::uint32_t turns = turns_of(history);
  const bool trial = turns <= kTrialFills;
  return {history.takes_other != trial, trial || turns % kTimedEvery == 0};
}

void add_fill(FillHistory& history, const FillRule& rule, FillTurn turn, std::uint64_t cycles) noexcept {
  const std::uint32_t turns = turns_of(history);
  const bool in_trial = turns <= kTrialFills && turns > 1;
  const bool decides = turns == 1 || (rule.between_trials && !in_trial);
  history.turns = turns > 1 ? turns - 1 : kTrialEvery + kTrialFills;
  if (!turn.timed) return;
  auto& times = turn.other ? history.other : history.usual;
  std::move(std::begin(times) + 1, std::end(times), std::begin(times));
  times[2] = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(cycles, 1, UINT32_MAX));
  if (!decides || prefers_other(history, rule) == history.takes_other) return;
  history.takes_other = !history.takes_other;
  history.turns = kTrialEvery + kTrialFills;
}

FillHistory& history_of(SendFifo& fifo, std::size_t bytes) noexcept {
  return fifo.past_caches[bytes < (32U << 10) ? 0 : bytes < (128U << 10) ? 1 : 2];
}

// A fill past the caches takes the same time wherever its lines were.
std::byte* SlotFill::begin(SendFifo& fifo, std::size_t bytes) noexcept {
  if (std::byte* const held = held_slots(fifo.ping_pong, bytes); held != nullptr) {
    begin(nullptr, &fifo.ping_pong->pages);
    return held;
  }
  FillHistory& history = history_of(fifo, bytes);
  begin(&history, &fifo.pages);
  const bool in_ring = bytes > kStoreBufferBytes && bytes <= kMostRingMessageBytes && !next_fill(history).other;
  return fifo.staging + staging_place(fifo, bytes, in_ring ? fifo.ring_bytes : kLeastRingBytes);
}

void SlotFill::fill(const CopyKernels& copies, std::byte* slot, const std::byte* source, std::size_t bytes) {
  const bool times_past = past_caches_ != nullptr && copies.stream != nullptr && bytes >= kLeastTimedFillBytes;
  const FillTurn past = times_past ? next_fill(*past_caches_) : FillTurn();
  const bool times_pages =
      pages_ != nullptr && copies.fill_pages != nullptr && bytes >= kLeastPagesFillBytes && !past.other;
  const FillTurn pages = times_pages ? next_fill(*pages_) : FillTurn();
  const bool timed = past.timed || pages.timed;
  const std::uint64_t begin = timed ? cycle_count() : 0;
  choose(copies, past, pages)(slot, source, bytes);
  const std::uint64_t cycles = timed ? per_kib(cycle_count() - begin, bytes) : 0;
  if (times_past) add_fill(*past_caches_, kPastCaches, past, cycles);
  if (times_pages) add_fill(*pages_, kPages, pages, cycles);
  stored_past_ = stored_past_ || past.other;
}

void SlotFill::end(const CopyKernels& copies) {
  if (!stored_past_) return;
  copies.end_stream();
  stored_past_ = false;
}

}  // namespace wreath
