// Defines the functions that are longer than a line.
#include "algorithms/words.hpp"

namespace wreath {
namespace {

// Returns the chunks of message `index` of the messages into which a long one is cut.
Chunks message(const Chunks& all, std::size_t index) {
  const std::size_t first = std::min(index * kMaximumMessageParts, all.size());
  const std::size_t end = std::min(first + kMaximumMessageParts, all.size());
  return Chunks(std::vector<Chunk>(all.begin() + static_cast<std::ptrdiff_t>(first),
                                   all.begin() + static_cast<std::ptrdiff_t>(end)));
}

}  // namespace

Chunks chunks(Buffer buffer, std::span<const int> parts, int slot) {
  const bool placed = buffer == Buffer::Scratch || buffer == Buffer::Partial;
  Chunks all;
  for (const int part : parts) {
    all.push_back({buffer, static_cast<std::uint32_t>(part), placed ? static_cast<std::uint32_t>(slot++) : 0});
  }
  return all;
}

void exchange(Lane& lane, Rank to, const Chunks& sent, const Taken& taken) {
  for (std::size_t i = 0; i * kMaximumMessageParts < std::max(sent.size(), taken.target.size()); ++i) {
    if (Chunks out = message(sent, i); !out.empty()) lane.send(to, std::move(out));
    Chunks target = message(taken.target, i);
    if (target.empty()) continue;
    if (taken.source.empty()) {
      lane.recv(taken.from, std::move(target), taken.incoming);
    } else {
      lane.recv_reduce(taken.from, message(taken.source, i), std::move(target), taken.incoming);
    }
  }
}

}  // namespace wreath
