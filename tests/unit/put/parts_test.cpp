// Tests the parts that adapters of this folder share: indices of channels, sentences, addresses as bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/put/address.hpp"
#include "src/put/channel_table.hpp"
#include "src/put/sentences.hpp"

namespace wreath::put {
namespace {

struct TableChannel {
  std::uint16_t index() const { return at; }
  std::uint16_t at;
};

TEST(ChannelTable, GivesTheLowestIndexThatIsFree) {
  ChannelTable<TableChannel> table;
  EXPECT_FALSE(table.was_used());
  TableChannel channels[] = {{0}, {1}, {2}};
  for (TableChannel& each : channels) {
    EXPECT_EQ(table.next(), each.index());
    table.add(each);
  }
  const TableChannel stranger{1};
  EXPECT_FALSE(table.remove(stranger)) << "it was never added";
  EXPECT_EQ(table.find(1), &channels[1]);
  EXPECT_TRUE(table.remove(channels[1]));
  EXPECT_FALSE(table.remove(channels[1]));
  EXPECT_EQ(table.find(1), nullptr);
  EXPECT_EQ(table.find(3), nullptr);
  EXPECT_EQ(table.next(), 1U);
  EXPECT_TRUE(table.any([](const TableChannel& each) { return each.at == 2; }));
  EXPECT_FALSE(table.any([](const TableChannel& each) { return each.at == 1; }));
}

TEST(Sentences, AreReadInTheirOrderAndTheOldestOfTooManyForgotten) {
  Sentences sentences;
  EXPECT_FALSE(sentences.next());
  for (int i = 0; i < 70; ++i) sentences.add(std::to_string(i));
  EXPECT_EQ(sentences.next(), "6");
  EXPECT_EQ(sentences.next(), "7");
}

enum class Kind : std::uint8_t { One, Two };

struct EveryField {
  std::uint32_t number = 0;
  bool flag = false;
  Kind kind = Kind::One;
  std::string text{};
  std::vector<std::byte> bytes{};
  std::array<std::uint8_t, 3> array{};

  template <typename Self, typename Visit>
  static void each_field(Self& self, Visit visit) {
    visit(self.number);
    visit(self.flag);
    visit(self.kind);
    visit(self.text);
    visit(self.bytes);
    visit(self.array);
  }
  Status check() const { return number == 13 ? Status(bad_address("13 brings no luck")) : Status(); }
};

TEST(Addresses, ComeBackFieldByField) {
  const EveryField address{0xDEADBEEF, true, Kind::Two, "lo", std::vector<std::byte>(128, std::byte{9}), {1, 2, 3}};
  const auto again = decode_address<EveryField>(encode_address(address));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->number, address.number);
  EXPECT_TRUE(again->flag);
  EXPECT_EQ(again->kind, Kind::Two);
  EXPECT_EQ(again->text, "lo");
  EXPECT_EQ(again->bytes, address.bytes);
  EXPECT_EQ(again->array, address.array);
}

TEST(Addresses, OfStrangersAreChecked) {
  const auto complaint = [](std::vector<std::byte> bytes) {
    const auto address = decode_address<EveryField>(bytes);
    EXPECT_TRUE(address || address.error().code == ErrorCode::Mismatch);
    return address ? std::string() : address.error().message;
  };
  const std::vector<std::byte> good = encode_address(EveryField{});
  EXPECT_EQ(complaint(good), "");
  for (std::size_t bytes = 0; bytes < good.size(); ++bytes) {
    EXPECT_THAT(complaint({good.begin(), good.begin() + static_cast<long>(bytes)}), testing::HasSubstr("malformed"));
  }
  std::vector<std::byte> other = good;
  other[0] = std::byte{2};
  EXPECT_EQ(complaint(other), "the peer's address: its version is 2, must be 1");
  other = good;
  other.push_back({});
  EXPECT_THAT(complaint(other), testing::HasSubstr("malformed"));
  EXPECT_EQ(complaint(encode_address(EveryField{13})), "the peer's address: 13 brings no luck");
  // More bytes than a field may have are not read.
  EXPECT_THAT(complaint(encode_address(EveryField{.bytes = std::vector<std::byte>(129)})),
              testing::HasSubstr("malformed"));
}

}  // namespace
}  // namespace wreath::put
