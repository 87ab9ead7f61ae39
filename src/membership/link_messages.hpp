// These are the bodies of the control messages by which ranks link.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/cpu.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Returns the body of a message of kind Candidates: names of transports.
std::string encode_candidates(const std::vector<std::string_view>& names);
// Reads such a body. Any bytes are safe.
Result<std::vector<std::string>> decode_candidates(const std::string& body);

// No transport has this name.
inline constexpr std::string_view kSeveralWires = "several";

// LinkFacts is the body of a message of kind Linked, and describes the sender. The facts of all ranks together are
// the same on all ranks.
struct LinkFacts {
  // Names the transport of the wires between ranks, or is kSeveralWires; empty where every pair of ranks maps each
  // other's memory.
  std::string wire;
  // Some host has fewer cores than ranks.
  bool crowded = false;
  // Every rank uses a GPU.
  bool gpus = false;
  // The least FifoShape::ring_bytes.
  std::uint64_t ring_bytes = 0;
  // Every rank fills ping-pong slots.
  bool ping_pong = false;
  // Every rank may read every other's messages through the kernel.
  bool single_copy = false;
  // The least sizes.
  CacheSizes caches = {};

  void add_wire(std::string_view name) {
    if (!name.empty()) wire = wire.empty() || wire == name ? name : kSeveralWires;
  }
  void add(const LinkFacts& theirs) {
    add_wire(theirs.wire);
    crowded = crowded || theirs.crowded;
    gpus = gpus && theirs.gpus;
    ring_bytes = std::min(ring_bytes, theirs.ring_bytes);
    ping_pong = ping_pong && theirs.ping_pong;
    single_copy = single_copy && theirs.single_copy;
    caches.near_bytes = std::min(caches.near_bytes, theirs.caches.near_bytes);
    caches.last_bytes = std::min(caches.last_bytes, theirs.caches.last_bytes);
  }
};
std::string encode_link_facts(const LinkFacts& facts);
// Reads such a body. Any bytes are safe.
Result<LinkFacts> decode_link_facts(const std::string& body);

}  // namespace wreath
