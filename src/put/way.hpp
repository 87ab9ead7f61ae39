// The way that a message takes over an adapter follows from its size and the adapter's limits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "src/put/adapter.hpp"
#include "src/put/message.hpp"
#include "wreath/result.hpp"
#include "wreath/wire_counts.hpp"

namespace wreath {

// Says whether the data of a message is copied beside its header.
constexpr bool is_small(std::uint64_t bytes) { return bytes <= kCopiedBytes; }

// Says whether the put of a message's header, and of its data where that is beside it, needs no registered memory.
constexpr bool is_inlined(std::uint64_t bytes, const PutLimits& limits) {
  return kPutHeaderBytes + (is_small(bytes) ? bytes : 0) <= limits.inline_bytes;
}

// Returns how many puts the data of a large message takes, without the one of its header.
constexpr std::uint32_t data_puts(std::uint64_t bytes, const PutLimits& limits) {
  return is_small(bytes) ? 0 : static_cast<std::uint32_t>((bytes + limits.put_bytes - 1) / limits.put_bytes);
}

// Explains the way for people, and what a message costs its sender once calls repeat. `adapter` has these limits.
MessageWay way_of(std::uint64_t bytes, const PutLimits& limits, std::string adapter);

// Does so for the adapter that was opened. Where none was, `usual` limits are taken.
template <typename Opened>
MessageWay way_over(const Result<std::unique_ptr<Opened>>& adapter, const PutLimits& usual, std::uint64_t bytes) {
  return adapter ? way_of(bytes, (*adapter)->limits(), (*adapter)->describe()) : way_of(bytes, usual, {});
}

}  // namespace wreath
