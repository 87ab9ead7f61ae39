// Bytes, words and offers that no correct peer would write are refused by name.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "src/fifo/access.hpp"
#include "tests/unit/put/pair.hpp"

namespace wreath::put {
namespace {

// Rank 0 gets what a peer of its own could write.
struct Victim {
  explicit Victim(bool checked = false, bool ordered = true) : pair(shape(checked), whims(ordered)) {}
  static FifoShape shape(bool checked) {
    FifoShape shape = shape_of(2, 2, 100);
    shape.checked = checked;
    return shape;
  }
  static Whims whims(bool ordered) {
    Whims whims;
    whims.limits.ordered = ordered;
    return whims;
  }
  // Returns lane 0's small slots.
  std::span<std::byte> slots() {
    const auto offer = pair.ends[0].link->offer();
    return pair.network.remote_memory(offer.small[0].address);
  }
  void write(const PutHeader& header, std::size_t place = 100 % 8) {
    encode(header, slots().data() + place * kSmallSlotBytes);
  }
  Error tell(std::uint32_t bits) {
    pair.network.forge_told(pair.ends[0].adapter(), bits);
    const auto moved = pair.ends[0].link->progress(true);
    return moved ? Error{ErrorCode::NotReady, ""} : moved.error();
  }
  Error say(const PutWord& word) {
    const Status taken = pair.ends[0].link->on_word(encode_word(word));
    return taken ? Error{ErrorCode::NotReady, ""} : taken.error();
  }
  Pair pair;
};

PutHeader good() {
  return {.epoch = kTestEpoch, .lane = 0, .sequence = 100, .signature = 1, .bytes = 8, .parts = 1, .checksum = 0};
}

void expect_refused(const Error& error, ErrorCode code, const std::string& words) {
  EXPECT_EQ(error.code, code);
  EXPECT_EQ(error.message, "test0 to rank 1: " + words);
  EXPECT_EQ(error.failed_rank, 1);
}

TEST(PutStranger, AGoodMessageIsTaken) {
  Victim victim;
  victim.write(good());
  EXPECT_EQ(victim.tell(pack({0, 0, 100})).message, "");
  EXPECT_NE(peek(victim.pair.ends[0].link->recv_fifo(0)), nullptr);
}

TEST(PutStranger, ToldWordsAreChecked) {
  const auto refused = [](const Told& told, const std::string& words) {
    Victim victim;
    victim.write(good());
    expect_refused(victim.tell(pack(told)), ErrorCode::PeerLost, "told word: " + words);
    EXPECT_EQ(peek(victim.pair.ends[0].link->recv_fifo(0)), nullptr);
  };
  refused({2, 0, 100}, "lane is 2, must be below 2");
  refused({31, 7, 100}, "lane is 15, must be below 2");
  refused({kMostLanes, 0, 100}, "lane is 0, whose places cannot be named");
  refused({1, 0, 100}, "lane is 1, which has no slots (lane 1)");
  refused({0, 0, 99}, "sequence is 99, must be one of 8 from 100 on (lane 0)");
  refused({0, 0, 108}, "sequence is 108, must be one of 8 from 100 on (lane 0)");
  refused({0, 7, 101}, "credit is 101, must be between 100 and 100 (lane 0)");
  refused({0, 7, 100 + (1U << 23) - 1}, "credit is 8388707, must be between 100 and 100 (lane 0)");
}

TEST(PutStranger, APartIsToldOnce) {
  Victim victim(false, false);
  EXPECT_EQ(victim.tell(pack({0, 1, 100})).message, "");
  expect_refused(victim.tell(pack({0, 1, 100})), ErrorCode::PeerLost,
                 "told word: part is 1, told already of message 100 (lane 0)");
}

TEST(PutStranger, PartsBeyondTheHeadersAreRefused) {
  Victim victim(false, false);
  victim.write(good());
  EXPECT_EQ(victim.tell(pack({0, 2, 100})).message, "");
  expect_refused(victim.tell(pack({0, 0, 100})), ErrorCode::PeerLost, "told word: part is 2, must be below 1 (lane 0)");
}

TEST(PutStranger, HeadersAreChecked) {
  const auto refused = [](const PutHeader& header, const std::string& words) {
    Victim victim;
    victim.write(header);
    expect_refused(victim.tell(pack({0, 0, 100})), ErrorCode::PeerLost, "message header: " + words);
    EXPECT_EQ(peek(victim.pair.ends[0].link->recv_fifo(0)), nullptr);
  };
  PutHeader header = good();
  header.epoch = 6;
  refused(header, "epoch is 6, must be 5 (lane 0)");
  header = good();
  header.lane = 1;
  refused(header, "lane is 1, must be 0 (lane 0)");
  header = good();
  header.sequence = 101;
  refused(header, "sequence is 101, must be 100 (lane 0)");
  header = good();
  header.bytes = kSlotBytes + 1;
  refused(header, fmt::format("bytes is {}, must be at most {} (lane 0)", kSlotBytes + 1, kSlotBytes));
  header = good();
  header.parts = 0;
  refused(header, "parts is 0, must be 1 to 1 (lane 0)");
  header.parts = 2;
  refused(header, "parts is 2, must be 1 to 1 (lane 0)");
  header = good();
  header.bytes = kSlotBytes;
  header.parts = 8;
  refused(header, "parts is 8, must be 1 to 7 (lane 0)");
  header.parts = 1;
  header.landed = 2;
  refused(header, "landed is 2, must be at most 1 (lane 0)");
  header = good();
  header.landed = 1;
  refused(header, "landed is 1, must be at most 0 (lane 0)");
  header = good();
  header.checksum = 3;
  refused(header, "checksum is 3, must be 0 (lane 0)");
}

TEST(PutStranger, BytesBehindAHeadersFieldsAreRefused) {
  for (const std::size_t at : {0U, 21U, 32U, 63U}) {
    Victim victim;
    victim.write(good());
    victim.slots()[100 % 8 * kSmallSlotBytes + at] ^= std::byte{4};
    const Error error = victim.tell(pack({0, 0, 100}));
    EXPECT_EQ(error.code, ErrorCode::PeerLost) << at;
    EXPECT_NE(error.message.find("message header: "), std::string::npos) << error.message;
  }
}

TEST(PutStranger, ALargeMessageNeedsASlot) {
  Victim victim;
  PutHeader header = good();
  header.bytes = kSlotBytes;
  victim.write(header);
  expect_refused(victim.tell(pack({0, 0, 100})), ErrorCode::PeerLost,
                 fmt::format("told word: sequence is 100, but there is no slot for {} bytes (lane 0)", kSlotBytes));
}

TEST(PutStranger, AMessageLandsWhereAPlaceWasPosted) {
  Victim victim;
  EXPECT_EQ(victim.say(WantSlots{0, true, {{1, 2}}}).message, "");
  PutHeader header = good();
  header.bytes = kSlotBytes;
  header.landed = 1;
  victim.write(header);
  expect_refused(
      victim.tell(pack({0, 0, 100})), ErrorCode::PeerLost,
      fmt::format("told word: sequence is 100, and its {} bytes landed where no place was named (lane 0)", kSlotBytes));
}

TEST(PutStranger, MoreLargeMessagesThanSlotsAreRefused) {
  Victim victim;
  EXPECT_EQ(victim.say(WantSlots{0, true, {{1, 2}}}).message, "");
  for (std::uint32_t i = 0; i < 3; ++i) {
    PutHeader header = good();
    header.sequence += i;
    header.bytes = kSlotBytes;
    victim.write(header, (100 + i) % 8);
    const Error error = victim.tell(pack({0, 0, 100 + i}));
    if (i < 2) {
      EXPECT_EQ(error.message, "");
    } else {
      EXPECT_NE(error.message.find("but there is no slot for"), std::string::npos) << error.message;
    }
  }
}

TEST(PutStranger, AlteredDataIsFoundWhereMessagesAreChecked) {
  for (const std::size_t at : {12U, 64U, 71U}) {
    Victim victim(true);
    PutHeader header = good();
    const std::byte data[8] = {};
    header.checksum = checksum_of(header, data);
    victim.write(header);
    victim.slots()[100 % 8 * kSmallSlotBytes + at] ^= std::byte{16};
    expect_refused(victim.tell(pack({0, 0, 100})), ErrorCode::PeerLost,
                   "message 100 of lane 0, 8 bytes, was altered on its way: its checksum is wrong");
  }
}

TEST(PutStranger, WordsAreChecked) {
  const auto refused = [](const PutWord& word, const std::string& words) {
    Victim victim;
    expect_refused(victim.say(word), ErrorCode::Mismatch, "word: " + words);
    EXPECT_FALSE(victim.pair.ends[0].link->progress(true));
  };
  refused(WantSlots{2, false}, "lane is 2, must be below 2");
  refused(HaveSlots{0, {{1, 2}}, {}}, "lane 0 has other slots already");
  refused(NewChannels{1, {}, {}},
          "it names 0 channels, and there are 1 here; WREATH_IB_QUEUE_PAIRS is the same at all ranks");
  refused(NewChannels{0, {{}}, {}}, "new channels of attempt 0, at attempt 0 here");
  refused(NewChannels{2, {{}}, {}}, "new channels of attempt 2, at attempt 0 here");
  refused(NewChannels{1, {{}}, {{0, 0, 0}, {0, 0, 0}}}, "it names lane 0 twice");
  refused(NewChannels{1, {{}}, {{0, 0, 0}, {1, 0, 0}, {0, 0, 0}}}, "it names 3 lanes of 2");
  refused(ChannelsPaused{1, {}, {}},
          "it names 0 channels, and there are 1 here; WREATH_IB_QUEUE_PAIRS is the same at all ranks");
  refused(ChannelsPaused{0, {0}, {}}, "channels that pause of attempt 0, at attempt 0 here");
  refused(ChannelsPaused{2, {0}, {}}, "channels that pause of attempt 2, at attempt 0 here");
  refused(ChannelsPaused{1, {0}, {{2, 0, 0}}}, "lane is 2, must be below 2");
  refused(ChannelsReady{0}, "ready for attempt 0, at attempt 0 here");
  refused(ChannelsReady{1}, "ready for attempt 1, at attempt 0 here");
}

TEST(PutStranger, AddressesAndPositionsOfNewChannelsAreChecked) {
  const auto refused = [](NewChannels word, bool good_address, const std::string& words) {
    Victim victim;
    if (good_address) word.channels = victim.pair.ends[1].link->offer().channels;
    Error error = victim.say(word);
    for (int i = 0; i < 5 && error.message.empty(); ++i) {
      const auto moved = victim.pair.ends[0].link->progress(true);
      if (!moved) error = moved.error();
    }
    expect_refused(error, ErrorCode::Mismatch, words);
  };
  refused({1, {{}}, {}}, false, "a channel's address has 0 bytes");
  refused({1, {}, {{0, 100, 101}}}, true, "word: expected is 101, must be between 100 and 100 (lane 0)");
  refused({1, {}, {{0, 101, 100}}}, true, "word: consumed is 101, must be between 100 and 100 (lane 0)");
}

TEST(PutStranger, WordsOfAnyOtherLengthAreRefused) {
  const std::vector<PutWord> words = {WantSlots{1, true, {{3, 4}}},
                                      WantSlots{1, false},
                                      HaveSlots{1, {{3, 4}}, {{5, 6}}},
                                      HaveSlots{1, {{3, 4}, {7, 8}}, {}},
                                      NewChannels{7, {std::vector<std::byte>(12)}, {{1, 2, 3}}},
                                      ChannelsPaused{8, {4}, {{1, 2, 3}}},
                                      ChannelsReady{9}};
  for (const PutWord& word : words) {
    std::vector<std::byte> bytes = encode_word(word).bytes;
    const auto whole = decode_word(bytes, 1, 2);
    ASSERT_TRUE(whole) << whole.error().message;
    EXPECT_EQ(encode_word(*whole).bytes, bytes);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_EQ(decode_word({bytes.data(), size}, 1, 2).error().code, ErrorCode::Mismatch) << size;
    }
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(decode_word(bytes, 1, 2));
  }
}

TEST(PutStranger, OffersAreChecked) {
  const PutOffer offer{{std::vector<std::byte>(12), std::vector<std::byte>(12)}, {{1, 2}}};
  std::vector<std::byte> bytes = encode_offer(offer).bytes;
  ASSERT_TRUE(decode_offer(bytes, 2));
  EXPECT_EQ(decode_offer(bytes, 1).error().message,
            "offer: it names 2 channels, and there are 1 here; WREATH_IB_QUEUE_PAIRS is the same at all ranks");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(decode_offer({bytes.data(), size}, 2).error().code, ErrorCode::Mismatch) << size;
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(decode_offer(bytes, 2));
  bytes.pop_back();
  bytes[0] ^= std::byte{1};
  EXPECT_NE(decode_offer(bytes, 2).error().message.find("offer: version is"), std::string::npos);
  const auto none = decode_offer(encode_offer({offer.channels, {}}).bytes, 2);
  EXPECT_EQ(none.error().message, "offer: it names slots by 0 rails, must be 1 to 8");
  const auto many = decode_offer(encode_offer({offer.channels, RailMemories(9)}).bytes, 2);
  EXPECT_EQ(many.error().message, "offer: it names slots by 9 rails, must be 1 to 8");
}

TEST(PutStranger, ConnectSaysWhatIsWrongWithAnOffer) {
  TestNetwork network({});
  const auto port = std::make_shared<PutPort>(network.make_adapter("test0"));
  TransportContext context{};
  context.shape = shape_of(1, 2);
  const auto transport = PutTransport::make(port, context, {}).value();
  const Endpoint peer{.rank = 1, .process = 1, .host = 1};
  EXPECT_EQ(transport->connect(peer, {}).error().code, ErrorCode::InvalidUsage);
  static_cast<void>(transport->offer(peer).value());
  const auto nothing = transport->connect(peer, {});
  EXPECT_EQ(nothing.error().code, ErrorCode::Mismatch);
  EXPECT_NE(nothing.error().message.find("test0 to rank 1: offer: version is 0"), std::string::npos);
  static_cast<void>(transport->offer(peer).value());
  const auto address = transport->connect(peer, encode_offer({{std::vector<std::byte>(5)}, {{1, 2}}}));
  EXPECT_EQ(address.error().message, "test0 to rank 1: a channel's address has 5 bytes");
}

TEST(PutTransport, RefusesShapesOptionsAndAdaptersThatDoNotFit) {
  const auto error = [](auto change) {
    Whims whims;
    TransportContext context{};
    context.shape = shape_of(2, 2);
    PutOptions options;
    change(whims, context.shape, options);
    TestNetwork network(whims);
    const auto made = PutTransport::make(std::make_shared<PutPort>(network.make_adapter("test0")), context, options);
    return made ? std::string() : made.error().message;
  };
  EXPECT_EQ(error([](Whims&, FifoShape&, PutOptions&) {}), "");
  EXPECT_EQ(error([](Whims&, FifoShape& shape, PutOptions&) { shape.lanes = 33; }),
            "test0: lanes is 33, must be 1 to 16");
  EXPECT_EQ(error([](Whims&, FifoShape& shape, PutOptions&) { shape.slot_count = 3; }),
            "test0: slot_count is 3, must be a power of two, at most 1048576");
  EXPECT_EQ(error([](Whims&, FifoShape& shape, PutOptions&) { shape.slot_bytes = 5000; }),
            "test0: slot_bytes is 5000, must be a power of two");
  EXPECT_EQ(error([](Whims&, FifoShape&, PutOptions& options) { options.channels = 9; }),
            "test0: channels is 9, must be 1 to 8");
  EXPECT_EQ(error([](Whims& whims, FifoShape&, PutOptions&) { whims.limits.put_bytes = 4096; }),
            "test0: the largest put is 4096, must be 4160 bytes at least");
  EXPECT_EQ(error([](Whims& whims, FifoShape& shape, PutOptions&) {
              whims.limits.ordered = false;
              whims.limits.put_bytes = 5000;
              shape.slot_bytes = 32768;
            }),
            "test0: the largest put is 5000, must be 5461 bytes at least, for slots of 32768");
  EXPECT_EQ(error([](Whims& whims, FifoShape&, PutOptions&) { whims.limits.outstanding = 3; }),
            "test0: the number of outstanding puts is 3, must be 4 at least");
  EXPECT_EQ(error([](Whims& whims, FifoShape&, PutOptions&) { whims.limits.told_bits = 13; }),
            "test0: the number of bits that a put tells is 13, must be 14 to 32");
  EXPECT_EQ(error([](Whims& whims, FifoShape& shape, PutOptions&) {
              whims.limits.told_bits = 14;
              shape.slot_count = 8;
            }),
            "test0: slot_count is 8, must be a power of two, at most 4");
}

}  // namespace
}  // namespace wreath::put
