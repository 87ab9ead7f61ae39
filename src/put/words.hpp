// The two ends of a link name their channels and slots to each other: in their offers, and then in words over the
// control connection. All bytes here are a stranger's until decode_word() or decode_offer() has seen them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "src/put/adapter.hpp"
#include "wreath/link.hpp"
#include "wreath/result.hpp"

namespace wreath {

inline constexpr std::size_t kMostRailChannels = 8;    // of one rail
inline constexpr std::size_t kMostChannels = 16;       // of all rails
inline constexpr std::size_t kMostAddressBytes = 256;  // of a channel

using ChannelAddresses = std::vector<std::vector<std::byte>>;

// An offer names what the first messages of a link need.
struct PutOffer {
  ChannelAddresses channels;  // those of each rail together
  RailMemories small;         // the small slots of lane 0
};

// The sender has messages for a lane and knows no slots of it, or none for large messages. The receiver may name places
// of large ones in the sender's memory `places` (landings.hpp).
struct WantSlots {
  std::uint16_t lane = 0;
  bool large = false;
  RailMemories places{};  // empty where it is not large
};
// These are the slots of a lane. They stay.
struct HaveSlots {
  std::uint16_t lane = 0;
  RailMemories small;
  RailMemories large;  // empty where there are none
};
// A lane's messages before `expected` are here as a whole. The executor is done with those before `consumed`.
struct LanePosition {
  std::uint16_t lane = 0;
  std::uint32_t consumed = 0;
  std::uint32_t expected = 0;
};
// The puts of this end are over, for the `attempt`th time, and it says of each channel what Channel::tells() does. All
// messages before `expected` of a lane have ended, so they must come.
struct ChannelsPaused {
  std::uint32_t attempt = 0;
  std::vector<std::uint32_t> tells;
  std::vector<LanePosition> lanes;
};
// The channels are new, for the `attempt`th time. All lanes that have slots are named. A channel of a rail that this
// end leaves out has no address.
struct NewChannels {
  std::uint32_t attempt = 0;
  ChannelAddresses channels;
  std::vector<LanePosition> lanes;
};
// The channels of that attempt are connected at this end.
struct ChannelsReady {
  std::uint32_t attempt = 0;
};
using PutWord = std::variant<WantSlots, HaveSlots, NewChannels, ChannelsReady, ChannelsPaused>;

Offer encode_offer(const PutOffer& offer);
// Returns Mismatch with what is wrong where this is no offer of `channels` channels for each of its rails.
Result<PutOffer> decode_offer(std::span<const std::byte> bytes, std::size_t channels);

Offer encode_word(const PutWord& word);
// Returns Mismatch with what is wrong where this is no word of a link with `channels` channels and so many lanes.
Result<PutWord> decode_word(std::span<const std::byte> bytes, std::size_t channels, std::uint16_t lanes);

}  // namespace wreath
