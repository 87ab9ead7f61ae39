// A link over one socket opens further ones while it runs, and closes them. Nothing is lost on the way, whatever the
// peer says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <regex>
#include <set>
#include <string>

#include "src/base/log.hpp"
#include "src/base/socket.hpp"
#include "tests/unit/transports_tcp/rails.hpp"

namespace wreath::tcp_rail_opening {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr std::uint32_t kPart = 64 * 1024;
constexpr std::uint32_t kSlotBytes = 256 * 1024;
constexpr std::size_t kSizes[] = {0, 100, 4096, 4097, kPart, 3 * kPart - 1, kSlotBytes};
constexpr std::size_t kSmallSizes = 3;  // so many are first

FifoShape usual_shape() { return shape_of(2, 4, kSlotBytes, 0xfffffff0); }

RailWord counts(std::uint8_t wants, std::uint8_t has) { return {.kind = RailWord::Kind::Count, .count = {wants, has}}; }

// Returns the connected TCP sockets of this process.
std::set<int> sockets_of_process() {
  std::set<int> sockets;
  for (int fd = 0; fd < 1024; ++fd) {
    if (!peer_address(fd).ip_bytes().empty()) sockets.insert(fd);
  }
  return sockets;
}

bool has_unread(int socket) {
  int bytes = 0;
  return ::ioctl(socket, FIONREAD, &bytes) == 0 && bytes > 0;
}

// Resets the connection of a socket, and throws away what has come.
void forget_unread(int socket) {
  const sockaddr none{AF_UNSPEC, {}};
  ASSERT_EQ(::connect(socket, &none, sizeof none), 0);
  ASSERT_FALSE(has_unread(socket));
}

struct LogAtInfo {
  LogAtInfo() {
    ::setenv("WREATH_DEBUG", "INFO", 1);
    reload_log_level();
  }
  LogAtInfo(const LogAtInfo&) = delete;
  LogAtInfo& operator=(const LogAtInfo&) = delete;
  ~LogAtInfo() {
    ::unsetenv("WREATH_DEBUG");
    reload_log_level();
  }
};

// Keeps the log. A loss is mended soon after it was said, so a test that looks at the link may miss it.
class KeptLog {
 public:
  KeptLog() { testing::internal::CaptureStderr(); }
  KeptLog(const KeptLog&) = delete;
  KeptLog& operator=(const KeptLog&) = delete;
  ~KeptLog() { testing::internal::GetCapturedStderr(); }

  bool has(const char* pattern) {
    text_ += testing::internal::GetCapturedStderr();
    testing::internal::CaptureStderr();
    return std::regex_search(text_, std::regex(pattern));
  }
  // Returns whether both ends have said that a socket is lost.
  bool has_losses() {
    return has("rank 0 .*the socket lo to .* is lost") && has("rank 1 .*the socket lo to .* is lost");
  }

 private:
  std::string text_;
};

// A pair that begins with one socket, and sends messages both ways.
struct GrowingPair : RailPair {
  explicit GrowingPair(const FifoShape& shape = usual_shape()) : RailPair(shape, 1, SocketKind::Tcp) {}

  // Makes rounds until `done` returns true. Returns an empty text, or what went wrong.
  template <typename Done>
  std::string run_until(Done done) {
    const std::int64_t start = now_ns();
    while (!done()) {
      if (const std::string wrong = round(); !wrong.empty()) return wrong;
      if (expired(start)) return "half a minute has passed: " + a->path() + "; " + b->path();
    }
    return {};
  }
  std::string round() {
    RailLink* const ends[] = {a.get(), b.get()};
    for (const std::size_t end : {0U, 1U}) {
      for (const std::uint16_t lane : {std::uint16_t{0}, std::uint16_t{1}}) {
        SendFifo& fifo = ends[end]->send_fifo(lane);
        Way& way = ways[end][lane];
        // Memory that the link has given back is overwritten by a later message.
        if (way.kept.empty()) way.kept.resize(fifo.slot_count);
        std::vector<std::byte>& data = way.kept[way.sent % way.kept.size()];
        if (fifo.next - fifo.consumed->value < fifo.slot_count) {
          data = content(lane, way.sent);
          if (try_send(fifo, data.data(), data.size())) ++way.sent;
        }
        Received got;
        while (try_recv(ends[1 - end]->recv_fifo(lane), got)) {
          if (got.data != content(lane, way.seen++)) return "message " + std::to_string(way.seen - 1) + " is wrong";
        }
      }
    }
    return step(*this, [&](Offer& word) {
      const auto decoded = decode_rail_word(word.bytes);
      if (!decoded || decoded->kind != RailWord::Kind::Count) return;
      word = encode_rail_word(counts(std::max(decoded->count.wants, wants), decoded->count.has));
    });
  }
  std::vector<std::byte> content(std::uint16_t lane, std::uint32_t message) const {
    return filled(lane, message, kSizes[(message * 5 + lane) % (small ? kSmallSizes : std::size(kSizes))]);
  }
  // Makes rounds until so many more messages have come, each way and on each lane.
  std::string carry(std::uint32_t messages) {
    const std::uint32_t end = ways[0][0].seen + messages;
    return run_until([&] {
      return std::ranges::all_of(ways, [&](const auto& lanes) { return lanes[0].seen >= end && lanes[1].seen >= end; });
    });
  }
  bool has(const std::string& path) const { return a->path() == path && b->path() == path; }
  // Makes rank 0 believe that the other end wants so many sockets.
  Status want(std::uint8_t wants, std::uint8_t has) { return a->on_word(encode_rail_word(counts(wants, has))); }

  struct Way {
    std::uint32_t sent = 0;
    std::uint32_t seen = 0;
    std::vector<std::vector<std::byte>> kept;
  };
  Way ways[2][2];          // from each end, by lane
  bool small = false;      // all messages are, so that no end measures or opens sockets by itself
  std::uint8_t wants = 1;  // rank 1 seems to want so many sockets at least
};

TEST(TcpRailOpening, ALinkOverOneSocketSendsWholeMessagesAndKeepsNone) {
  const FifoShape shape = shape_of(1, 4, kSlotBytes);
  RailVictim victim(shape, 1);
  const auto data = filled(0, 0, 3 * kPart);
  ASSERT_TRUE(try_send(victim.link->send_fifo(0), data.data(), data.size()));
  EXPECT_GT(victim.link->in_flight(), 0U);
  std::vector<std::byte> all(data.size() + 2 * kWireAlignment + 64);
  std::size_t got = 0;
  for (int i = 0; i < 100 && victim.link->in_flight() > 0; ++i) {
    ASSERT_TRUE(victim.link->progress(false));
    const ssize_t more = ::recv(victim.raw[0].get(), all.data() + got, all.size() - got, MSG_DONTWAIT);
    got += more > 0 ? static_cast<std::size_t>(more) : 0;
  }
  EXPECT_EQ(victim.link->in_flight(), 0U) << "the peer said nothing of it";
  ASSERT_GT(got, kWireHeaderBytes);
  const auto header = decode(std::span<const std::byte, kWireHeaderBytes>(all.data(), kWireHeaderBytes), shape);
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->kind, FrameKind::Data);
  EXPECT_EQ(header->bytes, data.size());
}

TEST(TcpRailOpening, OpensSocketsThatThePeerWantsAndClosesThem) {
  GrowingPair pair;
  pair.small = true;
  ASSERT_EQ(pair.carry(20), "");
  EXPECT_TRUE(pair.has("lo"));
  const std::size_t before = sockets_of_process().size();
  for (int round = 0; round < 2; ++round) {
    // Rank 1 wants no second socket by itself, and says so as soon as it has it.
    ASSERT_TRUE(pair.want(3, 1));
    ASSERT_EQ(pair.run_until([&] { return pair.has("lo (2 sockets)"); }), "");
    ASSERT_EQ(pair.run_until([&] { return pair.has("lo"); }), "");
    ASSERT_EQ(pair.carry(20), "");
    EXPECT_EQ(sockets_of_process().size(), before);
  }
}

// Both ends try a second socket after two seconds, measure it for some, and say what they found.
TEST(TcpRailOpening, MeasuresWhileMessagesGo) {
  const LogAtInfo at_info;
  testing::internal::CaptureStderr();
  GrowingPair pair;
  const std::size_t before = sockets_of_process().size();
  const std::string opened = pair.run_until([&] { return pair.has("lo (2 sockets)"); });
  EXPECT_EQ(opened, "");
  EXPECT_EQ(sockets_of_process().size(), before + 2);
  const std::string decided =
      pair.run_until([&] { return pair.a->path() != "lo (2 sockets)" && pair.b->path() != "lo (2 sockets)"; });
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(decided, "") << said;
  EXPECT_THAT(said, ContainsRegex("info: rank 0 .*tcp link to rank 1: 2 sockets carried [0-9.]+ times as "
                                  "much as 1: it (stays with 1|uses 2 from now on)"));
  EXPECT_THAT(said, Not(HasSubstr("lost")));
}

// A socket is cut while both ends measure. The other one carries what it lost.
TEST(TcpRailOpening, LosesANewSocketWithoutLosingAMessage) {
  KeptLog log;
  GrowingPair pair;
  const std::set<int> before = sockets_of_process();
  ASSERT_EQ(pair.run_until([&] { return pair.has("lo (2 sockets)"); }), "");
  std::set<int> fresh = sockets_of_process();
  std::erase_if(fresh, [&](int socket) { return before.contains(socket); });
  ASSERT_EQ(fresh.size(), 2U);
  int unread = -1;
  const auto finds_unread = [&] {
    const auto found = std::ranges::find_if(fresh, has_unread);
    unread = found == fresh.end() ? -1 : *found;
    return unread >= 0;
  };
  ASSERT_EQ(pair.run_until(finds_unread), "");
  forget_unread(unread);
  EXPECT_EQ(pair.carry(200), "");
  EXPECT_EQ(pair.run_until([&] { return log.has_losses(); }), "");
  EXPECT_EQ(pair.run_until([&] { return pair.a->path().find("lost") == std::string::npos; }), "");
  EXPECT_EQ(pair.carry(50), "");
}

// Nobody kept the messages that went over the first socket alone, but the peer has said by now that it has them.
TEST(TcpRailOpening, LosesTheFirstSocketWithoutLosingAMessage) {
  const LogAtInfo at_info;
  KeptLog log;
  GrowingPair pair;
  ASSERT_EQ(pair.carry(50), "");
  pair.wants = 2;
  ASSERT_TRUE(pair.want(2, 1));
  ASSERT_EQ(pair.run_until([&] { return pair.has("lo (2 sockets)"); }), "");
  ASSERT_EQ(pair.carry(50), "");
  pair.cut(0);
  EXPECT_EQ(pair.carry(50), "");
  EXPECT_EQ(pair.run_until([&] { return log.has_losses(); }), "");
  EXPECT_EQ(pair.run_until([&] { return pair.has("lo (2 sockets)"); }), "");
  pair.wants = 1;
  ASSERT_TRUE(pair.want(1, 2));
  // On a busy machine an end may find that two sockets carry more, and keep both.
  EXPECT_EQ(pair.run_until([&] { return pair.has("lo") || log.has("it uses [0-9]+ from now on"); }), "");
  EXPECT_EQ(pair.carry(50), "");
}

// The first socket is lost at once, and with it what it alone carried: the link is lost, as one over one socket is.
TEST(TcpRailOpening, LosesTheLinkWithAMessageThatNobodyKept) {
  GrowingPair pair;
  ASSERT_EQ(pair.carry(1), "");
  ASSERT_TRUE(pair.want(2, 1));
  // Rank 0 has both sockets as soon as rank 1 has said its secret, and rank 1 says nothing of what has arrived.
  std::string wrong;
  for (const std::int64_t start = now_ns(); pair.a->path() == "lo" && wrong.empty() && !expired(start);) {
    wrong = pair.round();
  }
  ASSERT_EQ(wrong, "");
  pair.cut(0);
  const auto moved = pair.a->progress(true);
  ASSERT_FALSE(moved);
  EXPECT_EQ(moved.error().code, ErrorCode::PeerLost);
}

TEST(TcpRailOpening, TheOnlySocketIsTheLink) {
  GrowingPair pair;
  ASSERT_EQ(pair.carry(4), "");
  pair.cut(0);
  EXPECT_THAT(pair.carry(1000), ContainsRegex("^tcp link to rank 1: connection (closed|reset)$"));
  EXPECT_FALSE(pair.a->send_blocked());
  EXPECT_FALSE(pair.a->closing_loses_data());
  EXPECT_EQ(pair.a->descriptor(), -1);
  EXPECT_FALSE(pair.a->take_word());
}

RailWord offer_at(const SocketAddress& theirs, const SocketAddress& ours, std::uint16_t port) {
  return {.kind = RailWord::Kind::Offered, .socket = {theirs, ours}, .port = port};
}
RailWord unneeded(const SocketAddress& theirs, const SocketAddress& ours) {
  return {.kind = RailWord::Kind::Unneeded, .socket = {theirs, ours}};
}

TEST(TcpRailOpening, WordsThatMakeNoSenseFailTheLink) {
  const struct {
    int end;
    RailWord word;
    const char* text;
  } wrong[] = {
      {0, counts(5, 1), "word: it wants 5 sockets and has 1, must be 1 to 4"},
      {0, counts(0, 1), "word: it wants 0 sockets and has 1, must be 1 to 4"},
      {0, counts(2, 0), "word: it wants 2 sockets and has 0, must be 1 to 4"},
      {1, counts(2, 1), "word: only the other end may say it"},
      {0, {.kind = RailWord::Kind::Offered}, "word: only the other end may say it"},
      {0, {.kind = RailWord::Kind::Unneeded}, "word: only the other end may say it"},
  };
  for (const auto& [end, word, text] : wrong) {
    GrowingPair pair;
    RailLink& link = end == 0 ? *pair.a : *pair.b;
    const RailAddresses socket{SocketAddress::loopback(AF_INET, 7), SocketAddress::loopback(AF_INET, 8)};
    RailWord whole = word;
    whole.socket = socket;
    const Status taken = link.on_word(encode_rail_word(whole));
    ASSERT_FALSE(taken) << text;
    EXPECT_THAT(taken.error().message, HasSubstr(text));
    EXPECT_FALSE(link.progress(true));
  }
}

TEST(TcpRailOpening, ALinkWithAFixedNumberTakesNoWordsAboutIt) {
  const RailPair pair(usual_shape(), 2, SocketKind::Tcp);
  const Status taken = pair.a->on_word(encode_rail_word(counts(2, 1)));
  ASSERT_FALSE(taken);
  EXPECT_THAT(taken.error().message, HasSubstr("word: it is about the number of sockets, which is fixed"));
}

// Words may name sockets that are not there, or say the same again and again.
TEST(TcpRailOpening, WordsWithoutAMeaningChangeNothing) {
  GrowingPair pair;
  pair.small = true;
  const SocketAddress here = local_address(pair.cutters[0].get());
  const SocketAddress there = peer_address(pair.cutters[0].get());
  const SocketAddress other = SocketAddress::loopback(AF_INET, 9);
  const std::size_t before = sockets_of_process().size();
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(pair.b->on_word(encode_rail_word(offer_at(other, there, 9))));
    ASSERT_TRUE(pair.b->on_word(encode_rail_word(unneeded(other, there))));
    // Nobody listens there, and this is the only socket.
    ASSERT_TRUE(pair.b->on_word(encode_rail_word(offer_at(here, there, 1))));
    ASSERT_TRUE(pair.b->on_word(encode_rail_word(unneeded(here, there))));
    ASSERT_TRUE(pair.want(1, 4));
  }
  EXPECT_EQ(pair.carry(100), "");
  EXPECT_TRUE(pair.has("lo"));
  EXPECT_EQ(sockets_of_process().size(), before);
}

// Whoever listens at a port that a word names may say anything.
TEST(TcpRailOpening, TakesNoSocketFromAStranger) {
  GrowingPair pair;
  pair.small = true;
  const Fd listener = std::move(listen_on(SocketAddress::loopback(AF_INET, 0)).value());
  const SocketAddress here = local_address(pair.cutters[0].get());
  const SocketAddress there = peer_address(pair.cutters[0].get());
  RailWord offered = offer_at(here, there, local_address(listener.get()).port());
  offered.answer[0] = std::byte{1};
  ASSERT_TRUE(pair.b->on_word(encode_rail_word(offered)));
  const Fd stranger = Fd::of_process(::accept(listener.get(), nullptr, nullptr));
  ASSERT_EQ(try_send(stranger.get(), RailSecret{}), 16);
  EXPECT_EQ(pair.carry(200), "");
  std::byte byte[32];
  std::ptrdiff_t got = 1;
  for (const std::int64_t start = now_ns(); got > 0 && !expired(start);) got = try_recv(stranger.get(), byte);
  EXPECT_TRUE(pair.has("lo"));
}

// The place of a whole message is given to one frame, and free once the message has been read.
TEST(TcpRailOpening, NothingComesBesideAWholeMessage) {
  const FifoShape shape = shape_of(1, 4, kSlotBytes);
  WireHeader whole;
  whole.epoch = kTestEpoch;
  whole.bytes = kSlotBytes;
  WireHeader part = whole;
  part.kind = FrameKind::Part;
  for (const auto& [first, second] : {std::pair(whole, part), std::pair(part, whole), std::pair(whole, whole)}) {
    WireLanes lanes(shape);
    lanes.use(0);
    RailInbox inbox(lanes);
    ASSERT_TRUE(inbox.check(first));
    ASSERT_NE(inbox.place(first).value(), nullptr);
    const Status checked = inbox.check(second);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().message,
              "frame header: sequence is 0, but this message comes already, and not in parts (lane 0)");
  }
  WireLanes lanes(shape);
  lanes.use(0);
  RailInbox inbox(lanes);
  ASSERT_NE(inbox.place(whole).value(), nullptr);
  inbox.add(whole);
  EXPECT_FALSE(inbox.owes()) << "its sender has given its memory back";
  EXPECT_TRUE(inbox.check(whole));
  EXPECT_EQ(inbox.place(whole).value(), nullptr) << "it comes again";
}

}  // namespace
}  // namespace wreath::tcp_rail_opening
