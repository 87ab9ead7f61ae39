// Kernels that write a sequence of bytes into memory, and count the elements of memory that differ from it. Each thread
// takes a word of 8 bytes at a time. Memory may have any alignment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wreath/host_device.hpp"

namespace wreath::perf {

inline constexpr unsigned kSequenceThreads = 256;  // of a block, at most

// A sequence that repeats `period`, from byte `first` of the period on.
struct Sequence {
  const std::byte* period;
  std::uint64_t period_bytes;
  std::uint64_t first;
};

// A run of the fill kernel. Addresses are those that kernels use, and `blocks` is the number of blocks of the grid.
struct FillRun {
  Sequence sequence;
  std::byte* target;
  std::uint64_t bytes;
  std::uint32_t blocks;
};

struct CountRun {
  Sequence sequence;
  const std::byte* data;
  std::uint64_t bytes;   // whole elements
  std::uint64_t* wrong;  // by block: elements that differ
  std::uint32_t element_bytes;
  std::uint32_t blocks;
};

// Memory as whole aligned words, with single bytes before and after them.
struct Words {
  static constexpr std::uint64_t kBytes = sizeof(std::uint64_t);

  WREATH_HOST_DEVICE Words(const std::byte* data, std::uint64_t bytes) {
    const std::uint64_t to_word = (kBytes - reinterpret_cast<std::uint64_t>(data) % kBytes) % kBytes;
    before = to_word < bytes ? to_word : bytes;
    count = (bytes - before) / kBytes;
    single = bytes - count * kBytes;
  }
  WREATH_HOST_DEVICE std::uint64_t word(std::uint64_t i) const { return before + i * kBytes; }
  WREATH_HOST_DEVICE std::uint64_t byte(std::uint64_t i) const { return i < before ? i : i + count * kBytes; }

  std::uint64_t before;
  std::uint64_t count;
  std::uint64_t single;  // bytes in no word
};

// The share of this thread in a grid: its first item, and every item that is a multiple of `threads` further.
struct Share {
  template <typename Block>
  WREATH_HOST_DEVICE Share(const Block& block, std::uint32_t blocks)
      : first(std::uint64_t{block.block()} * block.threads() + block.thread()),
        threads(std::uint64_t{block.threads()} * blocks) {}
  std::uint64_t first;
  std::uint64_t threads;
};

// The place of a byte in the period, which moves on by a constant step. It needs a division only at its start.
class Place {
 public:
  WREATH_HOST_DEVICE Place(const Sequence& sequence, std::uint64_t byte, std::uint64_t step)
      : period_(sequence.period_bytes),
        at_((sequence.first + byte) % sequence.period_bytes),
        step_(step % sequence.period_bytes) {}
  WREATH_HOST_DEVICE std::uint64_t at() const { return at_; }
  WREATH_HOST_DEVICE void next() {
    at_ += step_;
    if (at_ >= period_) at_ -= period_;
  }

 private:
  std::uint64_t period_;
  std::uint64_t at_;
  std::uint64_t step_;
};

WREATH_HOST_DEVICE inline std::byte byte_of(const Sequence& sequence, std::uint64_t byte) {
  return sequence.period[(sequence.first + byte) % sequence.period_bytes];
}

// Returns the word that begins at `at` in the period, in the order of memory.
WREATH_HOST_DEVICE inline std::uint64_t word_of(const Sequence& sequence, std::uint64_t at) {
  std::uint64_t word = 0;
  for (unsigned i = 0; i < Words::kBytes; ++i) {
    word |= static_cast<std::uint64_t>(sequence.period[at]) << 8 * i;
    if (++at == sequence.period_bytes) at = 0;
  }
  return word;
}

template <typename Block>
WREATH_HOST_DEVICE inline void run_fill(Block& block, const FillRun& run) {
  const Words words(run.target, run.bytes);
  const Share share(block, run.blocks);
  Place place(run.sequence, words.word(share.first), share.threads * Words::kBytes);
  for (std::uint64_t i = share.first; i < words.count; i += share.threads, place.next()) {
    *reinterpret_cast<std::uint64_t*>(run.target + words.word(i)) = word_of(run.sequence, place.at());
  }
  for (std::uint64_t i = share.first; i < words.single; i += share.threads) {
    run.target[words.byte(i)] = byte_of(run.sequence, words.byte(i));
  }
}

// Returns how many of the bytes [first, first + bytes) are the first wrong byte of their element. An element in two
// words is so counted once.
WREATH_HOST_DEVICE inline std::uint64_t elements_wrong(const CountRun& run, std::uint64_t first, std::uint64_t bytes) {
  const auto differs = [&](std::uint64_t byte) { return run.data[byte] != byte_of(run.sequence, byte); };
  std::uint64_t wrong = 0;
  for (std::uint64_t byte = first; byte < first + bytes; ++byte) {
    if (!differs(byte)) continue;
    std::uint64_t before = byte - byte % run.element_bytes;
    while (before < byte && !differs(before)) ++before;
    wrong += before == byte ? 1U : 0U;
  }
  return wrong;
}

template <typename Block>
WREATH_HOST_DEVICE inline void run_count(Block& block, const CountRun& run) {
  const Words words(run.data, run.bytes);
  const Share share(block, run.blocks);
  std::uint64_t wrong = 0;
  Place place(run.sequence, words.word(share.first), share.threads * Words::kBytes);
  for (std::uint64_t i = share.first; i < words.count; i += share.threads, place.next()) {
    const std::uint64_t found = *reinterpret_cast<const std::uint64_t*>(run.data + words.word(i));
    if (found != word_of(run.sequence, place.at())) wrong += elements_wrong(run, words.word(i), Words::kBytes);
  }
  for (std::uint64_t i = share.first; i < words.single; i += share.threads) {
    wrong += elements_wrong(run, words.byte(i), 1);
  }
  auto* const of_threads = reinterpret_cast<std::uint64_t*>(block.shared_memory());
  of_threads[block.thread()] = wrong;
  block.barrier();
  if (block.thread() != 0) return;
  for (unsigned i = 1; i < block.threads(); ++i) wrong += of_threads[i];
  run.wrong[block.block()] = wrong;
}

}  // namespace wreath::perf
