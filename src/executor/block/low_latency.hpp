// Runs all_reduces by the protocol LL (low_latency_area.hpp), without steps. In one_shot each rank sums all ranks'
// inputs. In two_shot a rank sums its part of the vector and takes the others' sums. Threads go on by themselves: a
// thread that needs a word waits for that word. `Block` is as in run_lanes.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/arithmetic.hpp"
#include "kernels/block/canonical_tree.hpp"
#include "kernels/block/primitives.hpp"
#include "kernels/kernels.hpp"
#include "src/executor/block/low_latency_area.hpp"
#include "src/executor/block/patience.hpp"

namespace wreath {

enum class LowLatencyOutcome : std::uint8_t {
  Done,
  // The word *stop was not zero, or nothing came for stall_ns.
  GaveUp,
  // A peer made another call, with another signature.
  Differs
};

// The way in which a block ended, and the peer that it was waiting for or that differs. As a word, 0 means done.
struct LowLatencyEnd {
  LowLatencyOutcome outcome;
  std::uint32_t rank;
};
WREATH_HOST_DEVICE constexpr std::uint32_t word_of(LowLatencyEnd end) {
  return static_cast<std::uint32_t>(end.outcome) | end.rank << 8U;
}
WREATH_HOST_DEVICE constexpr LowLatencyEnd low_latency_end(std::uint32_t word) {
  return {static_cast<LowLatencyOutcome>(word & 0xFFU), word >> 8U};
}

// One call of one rank, for low_latency_blocks() blocks. All pointers are reachable from the device. Input and output
// are aligned to elements, and may be equal; nothing else overlaps. Sums are those of the canonical tree over all
// ranks. A call that does not end with Done leaves the areas unusable. All of `arithmetic` but combine is used. Its
// `ranks` is the number of ranks, 2 to kMaximumFanIn.
struct LowLatencyRun {
  Arithmetic arithmetic;
  const std::byte* input;
  std::byte* output;
  std::uint64_t elements;
  std::byte* own;  // this rank's area
  // The areas by rank, as this rank maps them. Its own entry is not read.
  const std::byte* const* areas;
  // The end of each block as a word (see word_of()), by block. Only blocks that are not done write one.
  std::uint32_t* ends;
  const std::uint32_t* stop;
  std::uint64_t stall_ns;   // 0: never
  std::uint32_t signature;  // of the call
  std::uint32_t rank;
  bool two_shot;
};

// The state that the threads of a block share.
struct LowLatencyShared {
  std::uint32_t call;  // number of this call
  // A thread ended the call early if this is not zero.
  std::uint32_t end;
};

// One thread's view of a call. T is the type of elements in memory. M is the type in which they travel to be summed: T,
// or the accumulator's for premultiplied sums. A pack is as many elements as fit two words as M. One thread handles a
// pack at once.
template <typename T, typename M, typename Block>
class LowLatencyThread {
 public:
  WREATH_HOST_DEVICE LowLatencyThread(Block& block, const LowLatencyRun& run, LowLatencyShared& shared)
      : block_(block),
        run_(run),
        shared_(shared),
        patience_(block, {run.stop, run.stall_ns, 0}),
        ranks_(static_cast<std::uint32_t>(run.arithmetic.ranks)) {
    const auto packs = static_cast<std::uint32_t>((run.elements + kElements - 1) / kElements);
    const auto blocks = static_cast<std::uint32_t>(low_latency_blocks(run.elements, sizeof(M)));
    first_ = packs * block.block() / blocks;
    packs_ = packs * (block.block() + 1) / blocks - first_;
    part_ = (packs_ + ranks_ - 1) / ranks_;
    const auto bits = reinterpret_cast<std::uint64_t>(run.input) | reinterpret_cast<std::uint64_t>(run.output);
    aligned_ = bits % (kElements * sizeof(T)) == 0;
  }

  WREATH_HOST_DEVICE void run() {
    std::uint32_t& counter = *reinterpret_cast<std::uint32_t*>(run_.own + block_.block() * Layout::kBlockBytes);
    if (block_.thread() == 0) {
      // The word is on the host, so it is on its way while the counter is read.
      const std::uint32_t stop = load_relaxed(*run_.stop);
      shared_.call = counter % kCalls;
      // The buffers of an aborted communicator may be somebody else's by now.
      shared_.end = stop == 0 ? 0 : word_of({LowLatencyOutcome::GaveUp, (run_.rank + 1) % ranks_});
    }
    block_.barrier();
    call_ = shared_.call;
    over_ = load_relaxed(shared_.end) != 0;
    if (call_ % kClearedEvery < 2) clear();
    if (!over_) publish_inputs();
    if (!over_) hear_peers();
    sum_packs(run_.two_shot ? own_part() : Range{0, packs_});
    if (run_.two_shot) take_sums();
    block_.barrier();
    if (block_.thread() != 0) return;
    counter = (call_ + 1) % kCalls;
    if (shared_.end != 0) store_release(run_.ends[block_.block()], shared_.end);
  }

 private:
  using A = Accumulator<T>;
  using Layout = LowLatencyLayout;
  static constexpr std::uint64_t kElements = kPackDataBytes / sizeof(M);
  static constexpr int kN = static_cast<int>(kElements);
  static constexpr std::uint32_t kCalls = 1U << 31;
  static constexpr std::uint32_t kClearedEvery = 1U << 30;
  // The number of a thread's sums that are on their way at once.
  static constexpr std::uint32_t kAhead = 8;
  static constexpr int kLeaves = 4;  // of inputs
  // Packs are counted in 32 bits, also where blocks and ranks divide them, because a GPU has no division of 64 bits.
  static_assert(kLowLatencyBytes / kPackDataBytes * (kLowLatencyBlocks + kMaximumFanIn) < std::uint32_t{1} << 31);

  using Words = WordPair;
  struct Range {
    std::uint32_t first;
    std::uint32_t end;
  };

  // ---- places ----

  WREATH_HOST_DEVICE std::size_t buffer() const {
    return block_.block() * Layout::kBlockBytes + Layout::kBuffer + call_ % 2 * Layout::kBufferBytes;
  }
  WREATH_HOST_DEVICE std::size_t place_of_input(std::uint32_t pack) const {
    return buffer() + Layout::kInputs + pack * Layout::kPackBytes;
  }
  // Returns the sum's place in the area of the rank that sums it. Places count from the beginning of that rank's part.
  WREATH_HOST_DEVICE std::size_t place_of_sum(std::uint32_t pack) const {
    return buffer() + Layout::kSums + pack % part_ * Layout::kPackBytes;
  }
  // Returns the rank that sums the pack. In two_shot a rank sums part_ of the block's packs. The last ranks sum fewer
  // or none.
  WREATH_HOST_DEVICE std::uint32_t rank_of(std::uint32_t pack) const { return pack / part_; }
  WREATH_HOST_DEVICE Range own_part() const {
    const std::uint32_t first = part_ * run_.rank;
    return {first, first + part_ < packs_ ? first + part_ : packs_};
  }
  // Returns this thread's first pack from `first` on. A pack is the same thread's wherever it is read and written, so
  // that input and output may be the same memory.
  WREATH_HOST_DEVICE std::uint32_t own_from(std::uint32_t first) const {
    const std::uint32_t threads = block_.threads();
    return first + (block_.thread() + threads - first % threads) % threads;
  }

  // ---- words ----

  WREATH_HOST_DEVICE std::uint32_t flag() const { return call_ | kCalls; }
  WREATH_HOST_DEVICE FlaggedWord& own_word(std::size_t place) const {
    return *reinterpret_cast<FlaggedWord*>(run_.own + place);
  }
  WREATH_HOST_DEVICE FlaggedWord peers_word(std::uint32_t rank, std::size_t place) const {
    return load_relaxed(*reinterpret_cast<const FlaggedWord*>(run_.areas[rank] + place));
  }
  WREATH_HOST_DEVICE Words peers_words(std::uint32_t rank, std::size_t place) const {
    return load_pair(reinterpret_cast<const FlaggedWord*>(run_.areas[rank] + place));
  }
  WREATH_HOST_DEVICE bool here(FlaggedWord word) const { return flag_of(word) == flag(); }

  template <typename X>
  WREATH_HOST_DEVICE void publish(std::size_t place, const Pack<X, kN>& pack) const {
    std::uint32_t data[2] = {};
    std::memcpy(data, &pack, sizeof(pack));
    if constexpr (sizeof(pack) > sizeof(std::uint32_t)) {
      store_pair(&own_word(place), {{flagged(data[0], flag()), flagged(data[1], flag())}});
    } else {
      store_word(own_word(place), flagged(data[0], flag()));
    }
  }
  template <typename X>
  WREATH_HOST_DEVICE Pack<X, kN> unpack(const Words& words) const {
    const std::uint32_t data[2] = {data_of(words.word[0]), data_of(words.word[1])};
    Pack<X, kN> pack;
    std::memcpy(&pack, data, sizeof(pack));
    return pack;
  }
  // Waits for the pack, and returns it. `words` is what was there at the last look. The result is void if the call is
  // over.
  template <typename X>
  WREATH_HOST_DEVICE Pack<X, kN> await(std::uint32_t rank, std::size_t place, Words words) {
    constexpr bool kBoth = sizeof(Pack<X, kN>) > sizeof(std::uint32_t);
    while (!here(words.word[0]) || (kBoth && !here(words.word[1]))) {
      if (!go_on(rank)) break;
      words = peers_words(rank, place);
    }
    patience_.moved();
    return unpack<X>(words);
  }

  // Returns whether the thread goes on waiting for `rank`.
  WREATH_HOST_DEVICE bool go_on(std::uint32_t rank) {
    if (over_ || load_relaxed(shared_.end) != 0) over_ = true;
    if (!over_ && !patience_.wait()) end({LowLatencyOutcome::GaveUp, rank});
    return !over_;
  }
  WREATH_HOST_DEVICE void end(LowLatencyEnd early) {
    over_ = true;
    if (load_relaxed(shared_.end) == 0) store_release(shared_.end, word_of(early));
  }

  // ---- the user's memory ----

  WREATH_HOST_DEVICE std::uint64_t elements_of(std::uint32_t pack) const {
    const std::uint64_t left = run_.elements - (first_ + pack) * kElements;
    return left < kElements ? left : kElements;
  }
  WREATH_HOST_DEVICE Pack<T, kN> input(std::uint32_t pack) const {
    if (aligned_ && elements_of(pack) == kElements) return load<T, kN>(run_.input, first_ + pack);
    Pack<T, kN> data{};
    for (std::uint64_t i = 0; i < elements_of(pack); ++i) {
      data.value[i] = load<T, 1>(run_.input, (first_ + pack) * kElements + i).value[0];
    }
    return data;
  }
  WREATH_HOST_DEVICE void output(std::uint32_t pack, const Pack<T, kN>& data) const {
    if (aligned_ && elements_of(pack) == kElements) return store(run_.output, first_ + pack, data);
    for (std::uint64_t i = 0; i < elements_of(pack); ++i) {
      store(run_.output, (first_ + pack) * kElements + i, Pack<T, 1>{{data.value[i]}});
    }
  }

  // ---- the call ----

  WREATH_HOST_DEVICE void clear() {
    for (std::size_t at = block_.thread() * sizeof(FlaggedWord); at < Layout::kBufferBytes;
         at += block_.threads() * sizeof(FlaggedWord)) {
      store_word(own_word(buffer() + at), 0);
    }
    block_.barrier();
  }

  WREATH_HOST_DEVICE void publish_inputs() const {
    if (block_.thread() == 0) store_word(own_word(buffer() + Layout::kHeader), flagged(run_.signature, flag()));
    const Range unread = run_.two_shot ? own_part() : Range{0, 0};  // by peers
    for (std::uint32_t pack = block_.thread(); pack < packs_; pack += block_.threads()) {
      if (pack >= unread.first && pack < unread.end) continue;
      if constexpr (std::is_same_v<M, A>) {
        publish(place_of_input(pack), multiplied(pack));
      } else {
        publish(place_of_input(pack), input(pack));
      }
    }
  }
  WREATH_HOST_DEVICE Pack<A, kN> multiplied(std::uint32_t pack) const {
    const Pack<A, kN> wide = widen_input(run_.arithmetic, input(pack));
    return run_.arithmetic.reduction.op == ReduceOp::PremultipliedSum ? canonical_pack(wide) : wide;
  }

  // Waits until every peer of this thread has begun this call, as the peer's header says. Every peer is some thread's.
  // So the block has heard all of them before its last barrier. The last threads come first, because a small call
  // leaves them idle.
  WREATH_HOST_DEVICE void hear_peers() {
    for (std::uint32_t r = block_.threads() - 1 - block_.thread(); r < ranks_; r += block_.threads()) {
      if (r == run_.rank) continue;
      const std::size_t place = buffer() + Layout::kHeader;
      FlaggedWord header = peers_word(r, place);
      for (; !here(header); header = peers_word(r, place)) {
        if (!go_on(r)) return;
      }
      patience_.moved();
      if (data_of(header) != run_.signature) return end({LowLatencyOutcome::Differs, r});
    }
  }

  WREATH_HOST_DEVICE Pack<A, kN> wide(const Pack<M, kN>& message) const {
    if constexpr (std::is_same_v<M, A>) {
      return message;
    } else {
      return widen_input(run_.arithmetic, message);
    }
  }

  // The inputs of a pack from all ranks.
  struct Inputs {
    using Raw = Words;
    WREATH_HOST_DEVICE Words read(int source) const {
      const auto rank = static_cast<std::uint32_t>(source);
      return rank == thread.run_.rank ? Words{} : thread.peers_words(rank, place);
    }
    WREATH_HOST_DEVICE Pack<A, kN> wide(int source, const Words& words) const {
      const auto rank = static_cast<std::uint32_t>(source);
      if (rank == thread.run_.rank) return thread.multiplied(pack);
      return thread.wide(thread.template await<M>(rank, place, words));
    }
    LowLatencyThread& thread;
    std::uint32_t pack;
    std::size_t place;
  };
  WREATH_HOST_DEVICE Pack<T, kN> sum(std::uint32_t pack) {
    Inputs inputs{*this, pack, place_of_input(pack)};
    CanonicalTree<Pack<A, kN>, kLeaves, Inputs> tree(run_.arithmetic.reduction.op, static_cast<int>(ranks_), inputs);
    return finish_sum<T>(run_.arithmetic, tree.result());
  }

  // Sums this rank's packs. In two_shot the others take these sums.
  WREATH_HOST_DEVICE void sum_packs(const Range& mine) {
    for (std::uint32_t pack = own_from(mine.first); pack < mine.end && !over_; pack += block_.threads()) {
      const Pack<T, kN> result = sum(pack);
      if (over_) return;
      if (run_.two_shot) publish(place_of_sum(pack), result);
      output(pack, result);
    }
  }

  // Takes the sums of this thread's packs that peers make.
  WREATH_HOST_DEVICE void take_sums() {
    for (std::uint32_t first = block_.thread(); first < packs_ && !over_; first += kAhead * block_.threads()) {
      take_sums_from(first);
    }
  }
  WREATH_HOST_DEVICE void take_sums_from(std::uint32_t first) {
    Words ahead[kAhead];
    WREATH_UNROLL
    for (std::uint32_t i = 0; i < kAhead; ++i) {
      const std::uint32_t pack = first + i * block_.threads();
      if (is_peers(pack)) ahead[i] = peers_words(rank_of(pack), place_of_sum(pack));
    }
    WREATH_UNROLL
    for (std::uint32_t i = 0; i < kAhead; ++i) {
      const std::uint32_t pack = first + i * block_.threads();
      if (over_ || !is_peers(pack)) continue;
      const Pack<T, kN> result = await<T>(rank_of(pack), place_of_sum(pack), ahead[i]);
      if (!over_) output(pack, result);
    }
  }
  WREATH_HOST_DEVICE bool is_peers(std::uint32_t pack) const { return pack < packs_ && rank_of(pack) != run_.rank; }

  Block& block_;
  const LowLatencyRun& run_;
  LowLatencyShared& shared_;
  Patience<Block> patience_;
  std::uint32_t ranks_;
  std::uint32_t call_ = 0;
  std::uint32_t first_ = 0;  // pack of the block
  std::uint32_t packs_ = 0;
  // The number of the block's packs that a rank sums.
  std::uint32_t part_ = 0;
  bool aligned_ = false;
  bool over_ = false;  // ended early
};

template <typename T, typename Block>
WREATH_NOINLINE WREATH_HOST_DEVICE void run_low_latency_of(Block& block, const LowLatencyRun& run) {
  LowLatencyShared& shared = *reinterpret_cast<LowLatencyShared*>(block.shared_memory());
  if constexpr (!std::is_same_v<T, Accumulator<T>>) {
    if (run.arithmetic.reduction.op == ReduceOp::PremultipliedSum) {
      return LowLatencyThread<T, Accumulator<T>, Block>(block, run, shared).run();
    }
  }
  LowLatencyThread<T, T, Block>(block, run, shared).run();
}

// Runs one thread of the grid.
template <typename Block>
WREATH_HOST_DEVICE inline void run_low_latency(Block& block, const LowLatencyRun& run) {
  for_dtype(run.arithmetic.dtype, [&](auto element) { run_low_latency_of<decltype(element)>(block, run); });
}

}  // namespace wreath
