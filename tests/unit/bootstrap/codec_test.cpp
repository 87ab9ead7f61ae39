// Tests that the decoder of start-up messages accepts what the encoder wrote, and nothing else.
#include "src/bootstrap/codec.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "src/bootstrap/frame.hpp"
#include "tests/unit/bootstrap/helpers.hpp"

namespace wreath {
namespace {

TableRow row(int i) {
  TableRow row;
  row.pid = 100 + i;
  row.process = 7;
  row.host = 9;
  row.host_name = "host" + std::to_string(i);
  row.library_version = "0.1.0";
  row.unix_name = "name";
  row.host_cores = 2 + i;
  row.tcp.resize(static_cast<std::size_t>(i) % (kMaxAddresses + 1));
  for (NetAddress& address : row.tcp) address = {4, {}, 29500};
  return row;
}

std::vector<Message> samples() {
  Hello hello;
  hello.rank = 3;
  hello.ranks = 8;
  hello.pid = 4711;
  hello.process = 0x0123456789ABCDEF;
  hello.host_name = "h1";
  hello.need_streams = true;
  hello.timeout_ms = -1;
  hello.settings = std::string("a\0b\n", 4);
  hello.cores = std::string("\0\x80", 2);
  Table table;
  table.communicator = 5;
  table.salt.fill(std::byte{6});
  table.settings = "s";
  table.rows = {row(0), row(1), row(2)};
  return {hello,
          Summons{true, false},
          Listening{row(1).tcp, "no port"},
          table,
          Ready{"cannot"},
          Go{},
          Refusal{ErrorCode::Timeout, 2, "too late"}};
}

TEST(Codec, RoundTripsEveryMessage) {
  for (const Message& message : samples()) {
    const auto bytes = encode(message);
    const auto back = decode(bytes);
    ASSERT_TRUE(back) << "kind " << message.index();
    EXPECT_EQ(back->index(), message.index());
    EXPECT_EQ(encode(*back), bytes);
  }
}

TEST(Codec, KeepsFields) {
  const auto samples_kept = samples();
  const Message back_message = decode(encode(samples_kept[0])).value();
  const auto& hello = std::get<Hello>(back_message);
  EXPECT_EQ(hello.rank, 3);
  EXPECT_EQ(hello.process, 0x0123456789ABCDEFU);
  EXPECT_EQ(hello.timeout_ms, -1);
  EXPECT_EQ(hello.settings, std::string("a\0b\n", 4));
  EXPECT_TRUE(hello.need_streams);
  EXPECT_EQ(hello.cores, std::string("\0\x80", 2));
  const Message table = decode(encode(samples_kept[3])).value();
  EXPECT_EQ(std::get<Table>(table).rows[1].host_cores, 3);
}

TEST(Codec, RefusesEveryTruncation) {
  for (const Message& message : samples()) {
    const auto bytes = encode(message);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(decode(std::span(bytes).first(size))) << "kind " << message.index() << " cut to " << size;
    }
  }
}

TEST(Codec, RefusesTrailingBytes) {
  for (const Message& message : samples()) {
    auto bytes = encode(message);
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(decode(bytes)) << "kind " << message.index();
  }
}

TEST(Codec, RefusesUnknownKindsAndFlags) {
  EXPECT_FALSE(decode({}));
  const std::array unknown{std::byte{99}};
  EXPECT_FALSE(decode(unknown));
  auto summons = encode(Summons{});
  summons[1] = std::byte{2};
  EXPECT_FALSE(decode(summons));
  auto refusal = encode(Refusal{});
  refusal[1] = std::byte{200};
  EXPECT_FALSE(decode(refusal));
}

TEST(Codec, RefusesLengthsOverTheLimit) {
  Writer writer;
  writer.number(static_cast<std::uint8_t>(4));  // Ready
  writer.number(static_cast<std::uint32_t>(kMaxTextBytes + 1));
  writer.raw(std::vector<std::byte>(kMaxTextBytes + 1));
  EXPECT_FALSE(decode(writer.take()));
  Writer rows;
  rows.number(static_cast<std::uint8_t>(3));  // Table
  rows.raw(std::vector<std::byte>(8 + 32 + 4));
  rows.number(std::uint32_t{0xFFFFFFFF});
  EXPECT_FALSE(decode(rows.take()));
}

TEST(Codec, CutsLongTextsAndReplacesControlCharacters) {
  const Message back = decode(encode(Ready{std::string("\x1b[31m\n") + std::string(2 * kMaxTextBytes, 'x')})).value();
  const auto& ready = std::get<Ready>(back);
  EXPECT_EQ(ready.error.size(), kMaxTextBytes);
  EXPECT_EQ(ready.error.substr(0, 6), "?[31m?");
}

TEST(Codec, SurvivesRandomAndDamagedBytes) {
  std::mt19937 random(1);
  const auto originals = samples();
  std::size_t accepted = 0;
  for (int i = 0; i < 50'000; ++i) {
    auto bytes = encode(originals[random() % originals.size()]);
    for (unsigned edits = random() % 4; edits > 0; --edits) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    }
    if (random() % 4 == 0) bytes.resize(random() % (bytes.size() + 1));
    const auto message = decode(bytes);
    if (message) accepted += encode(*message).empty() ? 0U : 1U;
  }
  EXPECT_GT(accepted, 0U);
}

// Holds two connected ends with the same key.
struct SealedEnds {
  Connection near;
  Connection far;
};

SealedEnds sealed_ends() {
  auto pair = socket_pair();
  return {{std::move(pair.value().first), Seal(test_key(), true)},
          {std::move(pair.value().second), Seal(test_key(), false)}};
}

TEST(Frame, TakesMessagesInPiecesAndNoByteMore) {
  SealedEnds ends = sealed_ends();
  const Deadline deadline = Deadline::after_ms(1000);
  ASSERT_TRUE(send_message(ends.near, Ready{"one"}, deadline));
  const std::array rest{std::byte{42}};
  ASSERT_TRUE(send_all(ends.near.get(), rest, deadline));
  const Message message = recv_message(ends.far, deadline).value();
  EXPECT_EQ(std::get<Ready>(message).error, "one");
  std::array<std::byte, 4> left{};
  EXPECT_EQ(try_recv(ends.far.get(), left), 1);
  EXPECT_EQ(left[0], std::byte{42});
}

TEST(Frame, RefusesFramesOverTheLimit) {
  for (const std::uint32_t size : {std::uint32_t{0}, std::uint32_t{kMaxFrameBytes + 1}, std::uint32_t{0xFFFFFFFF}}) {
    SealedEnds ends = sealed_ends();
    Writer writer;
    writer.number(size);
    writer.number(~size);
    ASSERT_TRUE(send_all(ends.near.get(), writer.take(), Deadline::after_ms(1000)));
    auto message = recv_message(ends.far, Deadline::after_ms(1000));
    ASSERT_FALSE(message);
    EXPECT_EQ(message.error().code, ErrorCode::StartupFailed) << size;
  }
}

TEST(Frame, EndsWhenTheStreamEndsOrStops) {
  SealedEnds ends = sealed_ends();
  const std::array half{std::byte{9}, std::byte{0}};
  ASSERT_TRUE(send_all(ends.near.get(), half, Deadline::after_ms(100)));
  auto stopped = recv_message(ends.far, Deadline::after_ms(30));
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::Timeout);
  ends.near = Connection();
  auto ended = recv_message(ends.far, Deadline::after_ms(1000));
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, ErrorCode::PeerLost);
}

}  // namespace
}  // namespace wreath
