// A frame header is read as it was written, and every field is checked.
#include "transports/tcp/wire.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "tests/unit/transports_tcp/pair.hpp"

namespace wreath {
namespace {

using Bytes = std::array<std::byte, kWireHeaderBytes>;

Bytes encoded(const WireHeader& header) {
  Bytes bytes;
  encode(header, bytes.data());
  return bytes;
}

WireHeader sample() {
  WireHeader header;
  header.padding = 17;
  header.epoch = kTestEpoch;
  header.lane = 2;
  header.credit_lane = 1;
  header.sequence = 0xfffffff0;
  header.signature = 0xdeadbeef;
  header.bytes = 5000;
  header.credit = 77;
  return header;
}

std::string error_of(const WireHeader& header) {
  auto decoded = decode(encoded(header), shape_of(3, 2, 8192));
  return decoded ? "" : decoded.error().message;
}

TEST(TcpWire, ReadsWhatItWrote) {
  auto decoded = decode(encoded(sample()), shape_of(3, 2, 8192));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(*decoded, sample());
}

TEST(TcpWire, FramesAreMultiplesOf64BytesAndPayloadsKeepTheirPlaceInTheLine) {
  alignas(64) static std::byte memory[128];
  for (std::uint32_t bytes : {0u, 1u, 31u, 32u, 63u, 64u, 4096u, 4097u, 5000u, 1u << 20}) {
    for (std::size_t offset = 0; offset < 64; ++offset) {
      WireHeader header;
      header.bytes = bytes;
      header.kind = offset % 2 == 0 ? FrameKind::Data : FrameKind::Checked;
      if (bytes > kCopiedBytes) header.padding = padding_for(memory + offset);
      const FrameExtent parts = extent(header);
      EXPECT_EQ((parts.prefix + parts.bytes + parts.tail) % 64, 0u);
      EXPECT_LT(parts.tail, 64u);
      if (bytes > kCopiedBytes) {
        EXPECT_EQ(parts.prefix % 64, offset);
        EXPECT_LE(parts.prefix, kLongestPrefix);
      }
    }
  }
}

TEST(TcpWire, NamesTheFieldThatIsOutOfRange) {
  WireHeader header = sample();
  header.lane = 3;
  EXPECT_EQ(error_of(header), "frame header: lane is 3, must be below 3");
  header = sample();
  header.credit_lane = 9;
  EXPECT_EQ(error_of(header), "frame header: credit_lane is 9, must be below 3");
  header = sample();
  header.bytes = 8193;
  EXPECT_EQ(error_of(header), "frame header: bytes is 8193, must be at most 8192");
  header = sample();
  header.padding = 64;
  EXPECT_EQ(error_of(header), "frame header: padding is 64, must be below 64");
  header = sample();
  header.bytes = 4096;
  EXPECT_EQ(error_of(header), "frame header: padding is 17, without a large payload it must be 0");
  header = sample();
  header.kind = static_cast<FrameKind>(4);
  EXPECT_EQ(error_of(header), "frame header: kind is 4, must be 1 to 3");
}

// A peer cannot leave out checksums that were agreed on.
TEST(TcpWire, ChecksumsAreThereWhereTheyAreAgreedOn) {
  FifoShape shape = shape_of(3, 2, 8192);
  WireHeader header = sample();
  header.kind = FrameKind::Checked;
  EXPECT_EQ(decode(encoded(header), shape).error().message,
            "frame header: kind is 3, as WREATH_CHECK is here it must be 1");
  shape.checked = true;
  EXPECT_EQ(decode(encoded(header), shape).value(), header);
  EXPECT_EQ(decode(encoded(sample()), shape).error().message,
            "frame header: kind is 1, as WREATH_CHECK is here it must be 3");
  for (const std::uint32_t bytes : {0u, 4096u, 5000u}) {
    header.bytes = bytes;
    EXPECT_GE(extent(header).prefix, kWireHeaderBytes + kChecksumBytes);
  }
}

TEST(TcpWire, ACreditFrameCarriesNothingElse) {
  WireHeader credit;
  credit.kind = FrameKind::Credit;
  credit.epoch = kTestEpoch;
  EXPECT_EQ(error_of(credit), "");
  for (auto change : {+[](WireHeader& h) { h.lane = 1; }, +[](WireHeader& h) { h.sequence = 1; },
                      +[](WireHeader& h) { h.signature = 1; }, +[](WireHeader& h) { h.bytes = 1; },
                      +[](WireHeader& h) { h.padding = 1; }}) {
    WireHeader changed = credit;
    change(changed);
    EXPECT_NE(error_of(changed), "");
  }
}

TEST(TcpWire, EveryChangeOfOneByteIsNoticed) {
  const Bytes good = encoded(sample());
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      Bytes bytes = good;
      bytes[at] = static_cast<std::byte>(value);
      EXPECT_EQ(static_cast<bool>(decode(bytes, shape_of(3, 2, 8192))), bytes == good) << at << " " << value;
    }
  }
}

TEST(TcpWire, AnotherEpochIsReadAsFarAsItsLength) {
  WireHeader header = sample();
  header.epoch = kTestEpoch - 1;
  header.lane = 200;
  header.credit_lane = 300;
  EXPECT_EQ(error_of(header), "");
  header.bytes = 8193;
  EXPECT_NE(error_of(header), "");
}

TEST(TcpWire, RandomBytesAreRefusedOrInRange) {
  std::mt19937 random(1);
  const FifoShape shape = shape_of(3, 2, 8192);
  for (std::uint32_t round = 0; round < 100'000; ++round) {
    Bytes bytes = encoded(sample());
    for (std::uint32_t i = 0; i < round % 3; ++i)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random() & 0xff);
    auto decoded = decode(bytes, shape);
    if (!decoded) continue;
    EXPECT_LE(decoded->bytes, shape.slot_bytes);
    EXPECT_LE(extent(*decoded).prefix, kLongestPrefix);
    EXPECT_EQ(encoded(*decoded), bytes);
  }
}

}  // namespace
}  // namespace wreath
