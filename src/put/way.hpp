// The way that a message takes over an adapter follows from its size and the adapter's limits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "src/put/adapter.hpp"
#include "src/put/message.hpp"
#include "src/put/port.hpp"
#include "wreath/result.hpp"
#include "wreath/wire_counts.hpp"

namespace wreath {

// Says whether the data of a message is copied beside its header.
constexpr bool is_small(std::uint64_t bytes) { return bytes <= kCopiedBytes; }

// Says whether the put of a message's header, and of its data where that is beside it, needs no registered memory.
constexpr bool is_inlined(std::uint64_t bytes, const PutLimits& limits) {
  return kPutHeaderBytes + (is_small(bytes) ? bytes : 0) <= limits.inline_bytes;
}

// Returns the bytes of each put of a large message's data but the last. Over several rails there are as many puts as
// can be, of 32 KiB or more, so that each rail can carry the share that it is fast enough for.
constexpr std::uint64_t part_bytes(std::uint64_t bytes, const PutLimits& limits) {
  constexpr std::uint64_t kLeast = 32 * 1024;
  constexpr std::uint64_t kPage = 4096;
  if (limits.rails == 1) return limits.put_bytes;
  const std::uint64_t parts = std::clamp<std::uint64_t>(bytes / kLeast, 1, kMostParts - 1);
  const std::uint64_t pages = (bytes + parts * kPage - 1) / (parts * kPage);
  return std::min(limits.put_bytes, pages * kPage);
}

// Returns how many puts the data of a large message takes, without the one of its header.
constexpr std::uint32_t data_puts(std::uint64_t bytes, const PutLimits& limits) {
  const std::uint64_t each = part_bytes(bytes, limits);
  return is_small(bytes) ? 0 : static_cast<std::uint32_t>((bytes + each - 1) / each);
}

// Explains the way for people, and what a message costs its sender once calls repeat. `adapter` has these limits.
MessageWay way_of(std::uint64_t bytes, const PutLimits& limits, std::string adapter);

// Does so for the port that was opened. Where none was, `usual` limits are taken.
inline MessageWay way_over(const Result<std::shared_ptr<PutPort>>& port, const PutLimits& usual, std::uint64_t bytes) {
  return port ? way_of(bytes, (*port)->limits(), (*port)->describe()) : way_of(bytes, usual, {});
}

}  // namespace wreath
