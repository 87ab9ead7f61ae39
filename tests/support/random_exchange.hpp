// Makes random groups of sends and receives that match over all ranks, with the data of each message.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "wreath/types.hpp"

namespace wreath::test {

// A message whose bytes depend on the message and on their position in it.
struct RandomMessage {
  Rank from;
  Rank to;
  std::size_t bytes;
  std::uint64_t seed;

  std::byte at(std::size_t i) const { return static_cast<std::byte>((seed + i) * 0x9E3779B97F4A7C15u >> 56); }
  std::vector<std::byte> data() const {
    std::vector<std::byte> all(bytes);
    for (std::size_t i = 0; i < bytes; ++i) all[i] = at(i);
    return all;
  }
  // Returns the position of the first wrong received byte; -1 where there is none.
  std::ptrdiff_t first_wrong(const std::vector<std::byte>& received) const {
    if (received.size() != bytes) return 0;
    for (std::size_t i = 0; i < bytes; ++i) {
      if (received[i] != at(i)) return static_cast<std::ptrdiff_t>(i);
    }
    return -1;
  }
};

// Describes one call of a rank, which sends or receives message `index`.
struct RandomCall {
  std::size_t index;
  bool sends;
};

struct RandomExchange {
  std::vector<RandomMessage> messages;
  std::vector<std::vector<RandomCall>> calls;  // by rank, in an order of its own
};

// Returns a random size up to `most_bytes`. Many sizes are 0 or small, and some are just beside multiples of
// `tile_bytes`.
inline std::size_t random_size(std::mt19937_64& random, std::size_t tile_bytes, std::size_t most_bytes) {
  switch (random() % 6) {
    case 0: return 0;
    case 1: return 1 + random() % 8;
    case 2: return std::min(most_bytes, tile_bytes * (1 + random() % 4) + random() % 3 - 1);
    default: return random() % (most_bytes + 1);
  }
}

// Makes up to two messages per pair of ranks on average, several for some pairs, and some to the own rank. The order of
// calls differs from rank to rank, except for messages of one pair and direction.
inline RandomExchange random_exchange(int ranks, std::mt19937_64& random, std::size_t tile_bytes,
                                      std::size_t most_bytes) {
  RandomExchange exchange;
  const auto n = static_cast<std::uint64_t>(ranks);
  const std::size_t count = random() % (2 * n * n + 1);
  exchange.calls.resize(n);
  for (std::size_t i = 0; i < count; ++i) {
    const auto from = static_cast<Rank>(random() % n);
    const auto to = static_cast<Rank>(random() % n);
    exchange.messages.push_back({from, to, random_size(random, tile_bytes, most_bytes), random()});
    exchange.calls[static_cast<std::size_t>(from)].push_back({i, true});
    exchange.calls[static_cast<std::size_t>(to)].push_back({i, false});
  }
  for (auto& calls : exchange.calls) {
    const std::vector<RandomCall> in_order = calls;
    std::shuffle(calls.begin(), calls.end(), random);
    // Messages of one pair get the order of their indices back.
    const auto same_pair = [&](const RandomCall& a, const RandomCall& b) {
      const RandomMessage& one = exchange.messages[a.index];
      const RandomMessage& other = exchange.messages[b.index];
      return a.sends == b.sends && one.from == other.from && one.to == other.to;
    };
    std::vector<bool> taken(in_order.size(), false);
    for (RandomCall& call : calls) {
      for (std::size_t i = 0; i < in_order.size(); ++i) {
        if (taken[i] || !same_pair(call, in_order[i])) continue;
        taken[i] = true;
        call = in_order[i];
        break;
      }
    }
  }
  return exchange;
}

}  // namespace wreath::test
