// An offer begins with a version, a word with its kind.
#include "src/put/words.hpp"

#include <fmt/format.h>

#include "src/base/codec.hpp"

namespace wreath {
namespace {

constexpr std::uint32_t kVersion = 0x03505257;  // "WRP", version 3
enum class WordKind : std::uint8_t { Want = 1, Have = 2, Channels = 3, Ready = 4, Paused = 5 };
static_assert(kMostChannels * (kMostAddressBytes + 2) + 32 * 10 + 16 <= 8 * 1024, "a word is longer than 8 KiB");

Error mismatch(std::string what) { return {ErrorCode::Mismatch, std::move(what)}; }

void write(Writer& writer, const RailMemories& memories) {
  writer.number(static_cast<std::uint8_t>(memories.size()));
  for (const RemoteMemory& memory : memories) {
    writer.number(memory.address);
    writer.number(memory.key);
  }
}

void write(Writer& writer, const ChannelAddresses& channels) {
  writer.number(static_cast<std::uint8_t>(channels.size()));
  for (const auto& address : channels) {
    writer.number(static_cast<std::uint16_t>(address.size()));
    writer.raw(address);
  }
}

Result<RailMemories> read_memories(Reader& reader) {
  const auto count = reader.number<std::uint8_t>();
  if (reader.ok() && (count == 0 || count > kMostRails)) {
    return mismatch(fmt::format("it names slots by {} rails, must be 1 to {}", count, kMostRails));
  }
  RailMemories memories(reader.ok() ? count : 0);
  for (RemoteMemory& memory : memories) {
    memory.address = reader.number<std::uint64_t>();
    memory.key = reader.number<std::uint64_t>();
  }
  return memories;
}

Status read_channel_count(Reader& reader, std::size_t expected) {
  const auto count = reader.number<std::uint8_t>();
  if (!reader.ok() || count == expected) return {};
  return mismatch(fmt::format(
      "it names {} channels, and there are {} here; WREATH_IB_QUEUE_PAIRS is the same at all ranks", count, expected));
}

Result<ChannelAddresses> read_channels(Reader& reader, std::size_t expected) {
  WREATH_TRY(read_channel_count(reader, expected));
  ChannelAddresses channels;
  for (std::size_t i = 0; i < expected; ++i) {
    const auto bytes = reader.number<std::uint16_t>();
    if (bytes > kMostAddressBytes) {
      return mismatch(fmt::format("a channel's address has {} bytes, {} at most", bytes, kMostAddressBytes));
    }
    std::vector<std::byte> address(reader.ok() ? bytes : 0);
    reader.raw(address);
    channels.push_back(std::move(address));
  }
  return channels;
}

Result<std::uint16_t> read_lane(Reader& reader, std::uint16_t lanes) {
  const std::uint16_t lane = reader.number<std::uint8_t>();
  if (lane >= lanes) return mismatch(fmt::format("lane is {}, must be below {}", lane, lanes));
  return lane;
}

Result<PutWord> read_slots(Reader& reader, WordKind kind, std::uint16_t lanes) {
  const auto lane = read_lane(reader, lanes);
  if (!lane) return lane.error();
  const bool large = reader.flag();
  if (kind == WordKind::Want) {
    auto places = large ? read_memories(reader) : Result<RailMemories>(RailMemories());
    if (!places) return places.error();
    return PutWord(WantSlots{*lane, large, *std::move(places)});
  }
  HaveSlots have{*lane, {}, {}};
  for (RailMemories* each : {&have.small, &have.large}) {
    if (each == &have.large && !large) break;
    auto memories = read_memories(reader);
    if (!memories) return memories.error();
    *each = *std::move(memories);
  }
  return PutWord(std::move(have));
}

Result<std::vector<LanePosition>> read_positions(Reader& reader, std::uint16_t lanes) {
  std::vector<LanePosition> positions;
  const auto count = reader.number<std::uint8_t>();
  if (count > lanes) return mismatch(fmt::format("it names {} lanes of {}", count, lanes));
  std::vector<bool> seen(lanes);
  for (int i = 0; i < count; ++i) {
    const auto lane = read_lane(reader, lanes);
    if (!lane) return lane.error();
    if (seen[*lane]) return mismatch(fmt::format("it names lane {} twice", *lane));
    seen[*lane] = true;
    const auto consumed = reader.number<std::uint32_t>();
    positions.push_back({*lane, consumed, reader.number<std::uint32_t>()});
  }
  return positions;
}

Result<PutWord> read_new_channels(Reader& reader, std::size_t channels, std::uint16_t lanes) {
  NewChannels word;
  word.attempt = reader.number<std::uint32_t>();
  auto addresses = read_channels(reader, channels);
  if (!addresses) return addresses.error();
  word.channels = *std::move(addresses);
  auto positions = read_positions(reader, lanes);
  if (!positions) return positions.error();
  word.lanes = *std::move(positions);
  return PutWord(std::move(word));
}

Result<PutWord> read_paused(Reader& reader, std::size_t channels, std::uint16_t lanes) {
  ChannelsPaused word;
  word.attempt = reader.number<std::uint32_t>();
  WREATH_TRY(read_channel_count(reader, channels));
  for (std::size_t i = 0; i < channels; ++i) word.tells.push_back(reader.number<std::uint32_t>());
  auto positions = read_positions(reader, lanes);
  if (!positions) return positions.error();
  word.lanes = *std::move(positions);
  return PutWord(std::move(word));
}

Result<PutWord> read_word(Reader& reader, std::size_t channels, std::uint16_t lanes) {
  const auto kind = reader.number<std::uint8_t>();
  switch (static_cast<WordKind>(kind)) {
    case WordKind::Want:
    case WordKind::Have: return read_slots(reader, static_cast<WordKind>(kind), lanes);
    case WordKind::Channels: return read_new_channels(reader, channels, lanes);
    case WordKind::Ready: return PutWord(ChannelsReady{reader.number<std::uint32_t>()});
    case WordKind::Paused: return read_paused(reader, channels, lanes);
  }
  return mismatch(fmt::format("its kind is {}, must be 1 to {}", kind, static_cast<int>(WordKind::Paused)));
}

struct WordWriter {
  Writer& writer;
  void kind(WordKind kind) const { writer.number(static_cast<std::uint8_t>(kind)); }
  void lane(std::uint16_t lane) const { writer.number(static_cast<std::uint8_t>(lane)); }
  void flag(bool flag) const { writer.number(static_cast<std::uint8_t>(flag)); }
  void positions(const std::vector<LanePosition>& lanes) const {
    writer.number(static_cast<std::uint8_t>(lanes.size()));
    for (const LanePosition& each : lanes) {
      lane(each.lane);
      writer.number(each.consumed);
      writer.number(each.expected);
    }
  }

  void operator()(const WantSlots& word) const {
    kind(WordKind::Want);
    lane(word.lane);
    flag(word.large);
    if (word.large) write(writer, word.places);
  }
  void operator()(const HaveSlots& word) const {
    kind(WordKind::Have);
    lane(word.lane);
    flag(!word.large.empty());
    write(writer, word.small);
    if (!word.large.empty()) write(writer, word.large);
  }
  void operator()(const NewChannels& word) const {
    kind(WordKind::Channels);
    writer.number(word.attempt);
    write(writer, word.channels);
    positions(word.lanes);
  }
  void operator()(const ChannelsReady& word) const {
    kind(WordKind::Ready);
    writer.number(word.attempt);
  }
  void operator()(const ChannelsPaused& word) const {
    kind(WordKind::Paused);
    writer.number(word.attempt);
    writer.number(static_cast<std::uint8_t>(word.tells.size()));
    for (const std::uint32_t each : word.tells) writer.number(each);
    positions(word.lanes);
  }
};

}  // namespace

Offer encode_offer(const PutOffer& offer) {
  Writer writer;
  writer.number(kVersion);
  write(writer, offer.small);
  write(writer, offer.channels);
  Offer encoded;
  encoded.bytes = writer.take();
  return encoded;
}

Result<PutOffer> decode_offer(std::span<const std::byte> bytes, std::size_t channels) {
  Reader reader(bytes);
  const auto version = reader.number<std::uint32_t>();
  if (version != kVersion) return mismatch(fmt::format("offer: version is {}, must be {}", version, kVersion));
  PutOffer offer;
  auto small = read_memories(reader);
  if (!small) return mismatch("offer: " + small.error().message);
  offer.small = *std::move(small);
  auto addresses = read_channels(reader, channels * offer.small.size());
  if (!addresses) return mismatch("offer: " + addresses.error().message);
  if (!reader.complete()) return mismatch(fmt::format("offer: {} bytes are not its length", bytes.size()));
  offer.channels = *std::move(addresses);
  return offer;
}

Offer encode_word(const PutWord& word) {
  Writer writer;
  std::visit(WordWriter{writer}, word);
  Offer encoded;
  encoded.bytes = writer.take();
  return encoded;
}

Result<PutWord> decode_word(std::span<const std::byte> bytes, std::size_t channels, std::uint16_t lanes) {
  Reader reader(bytes);
  auto word = read_word(reader, channels, lanes);
  if (!word) return mismatch("word: " + word.error().message);
  if (!reader.complete()) return mismatch(fmt::format("word: {} bytes are not its length", bytes.size()));
  return word;
}

}  // namespace wreath
