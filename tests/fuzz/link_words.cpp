// A libFuzzer target. A peer's offer or word about a link may be any bytes: what the decoders accept is in range, and
// says the same again.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include "src/put/words.hpp"
#include "transports/tcp/rail_words.hpp"

namespace {

constexpr std::uint16_t kLanes = 16;

void require(bool fine) {
  if (!fine) std::abort();
}

void require_same(const wreath::Offer& again, std::span<const std::byte> bytes) {
  require(again.bytes.size() == bytes.size() && std::memcmp(again.bytes.data(), bytes.data(), bytes.size()) == 0);
}

void try_word(std::span<const std::byte> bytes, std::size_t channels) {
  const auto word = wreath::decode_word(bytes, channels, kLanes);
  if (!word) return require(!word.error().message.empty());
  if (const auto* want = std::get_if<wreath::WantSlots>(&*word)) require(want->lane < kLanes);
  if (const auto* have = std::get_if<wreath::HaveSlots>(&*word)) require(have->lane < kLanes);
  if (const auto* fresh = std::get_if<wreath::NewChannels>(&*word)) {
    require(fresh->channels.size() == channels && fresh->lanes.size() <= kLanes);
    for (const wreath::LanePosition& at : fresh->lanes) require(at.lane < kLanes);
    for (const auto& address : fresh->channels) require(address.size() <= wreath::kMostAddressBytes);
  }
  if (const auto* paused = std::get_if<wreath::ChannelsPaused>(&*word)) {
    require(paused->tells.size() == channels && paused->lanes.size() <= kLanes);
    for (const wreath::LanePosition& at : paused->lanes) require(at.lane < kLanes);
  }
  require_same(wreath::encode_word(*word), bytes);
}

void try_rail_word(std::span<const std::byte> bytes) {
  const auto word = wreath::decode_rail_word(bytes);
  if (!word) return require(!word.error().message.empty());
  require_same(wreath::encode_rail_word(*word), bytes);
}

void try_offer(std::span<const std::byte> bytes, std::size_t channels) {
  const auto offer = wreath::decode_offer(bytes, channels);
  if (!offer) return require(!offer.error().message.empty());
  require(offer->channels.size() == channels * offer->small.size());
  require_same(wreath::encode_offer(*offer), bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  for (const std::size_t channels : {1, 2}) {
    try_word(bytes, channels);
    try_offer(bytes, channels);
  }
  try_rail_word(bytes);
  return 0;
}
