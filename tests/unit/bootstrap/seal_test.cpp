// Tests that a seal accepts the next message of the other end, and nothing else.
#include "src/bootstrap/seal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/bootstrap/helpers.hpp"

namespace wreath {
namespace {

using ::testing::HasSubstr;

Content content(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return Content({bytes.begin(), bytes.end()});
}

// Returns what is wrong with a frame, or an empty text where the frame is the next one.
std::string problem(Seal& reader, const std::vector<std::byte>& frame) {
  const auto bytes = std::span(frame);
  const auto length = Seal::length(bytes.first<kFrameHeaderBytes>(), 1000);
  if (!length) return length.error().message;
  if (bytes.size() != kFrameHeaderBytes + *length + kSealBytes) return "not its length";
  const Status status = reader.read(bytes.subspan(kFrameHeaderBytes, *length), bytes.last<kSealBytes>());
  return status ? std::string() : status.error().message;
}

struct SealPair {
  Seal connector{test_key(), true};
  Seal acceptor{test_key(), false};
};

TEST(Seals, TakeWhatTheOtherEndWroteInItsOrder) {
  SealPair ends;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(problem(ends.acceptor, ends.connector.write(content("there"))), "");
    EXPECT_EQ(problem(ends.connector, ends.acceptor.write(content("back"))), "");
  }
}

TEST(Seals, NoticeEveryBitThatIsAltered) {
  const std::size_t size = SealPair().connector.write(content("a message")).size();
  for (std::size_t bit = 0; bit < 8 * size; ++bit) {
    SealPair ends;
    auto frame = ends.connector.write(content("a message"));
    frame[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_THAT(problem(ends.acceptor, frame), HasSubstr("altered on its way")) << "bit " << bit;
  }
}

TEST(Seals, NoticeWhatIsRepeatedLeftOutOrSentBack) {
  SealPair ends;
  const auto first = ends.connector.write(content("one"));
  const auto second = ends.connector.write(content("two"));
  EXPECT_EQ(problem(ends.acceptor, first), "");
  EXPECT_NE(problem(ends.acceptor, first), "");
  SealPair others;
  EXPECT_NE(problem(others.acceptor, second), "");
  SealPair mirrored;
  EXPECT_NE(problem(mirrored.connector, first), "");
}

TEST(Seals, AreOfOneConnection) {
  Seal other(test_key(2), false);
  EXPECT_NE(problem(other, SealPair().connector.write(content("one"))), "");
}

// Both ends of a proof have the same key, and the ends of another proof of the same ranks have another.
TEST(Seals, HaveAKeyOfTheirProof) {
  const auto prove_both = [] {
    auto pair = socket_pair();
    Handshake connector = Handshake::connector(std::move(pair.value().first), test_identity(1, 1));
    Handshake acceptor = Handshake::acceptor(std::move(pair.value().second), test_identity(1, 0));
    for (int i = 0; i < 4; ++i) {
      connector.advance();
      acceptor.advance();
    }
    return std::pair(connector.take(), acceptor.take());
  };
  auto [connector, acceptor] = prove_both();
  auto again = prove_both();
  const auto frame = connector.connection.seal.write(content("one"));
  EXPECT_EQ(problem(acceptor.connection.seal, frame), "");
  EXPECT_NE(problem(again.second.connection.seal, frame), "");
}

}  // namespace
}  // namespace wreath
