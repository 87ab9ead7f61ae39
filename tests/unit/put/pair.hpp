// Makes two links that put over a TestNetwork, and does to them what executors and the control connection do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "src/base/clock.hpp"
#include "src/put/transport.hpp"
#include "tests/unit/put/network.hpp"
#include "wreath/memory.hpp"

namespace wreath::put {

inline constexpr std::uint16_t kTestEpoch = 5;
inline constexpr std::uint32_t kSlotBytes = 16384;

inline FifoShape shape_of(std::uint16_t lanes, std::uint32_t slot_count, std::uint32_t first = 0,
                          std::uint32_t slot_bytes = kSlotBytes) {
  return {
      .lanes = lanes, .slot_count = slot_count, .slot_bytes = slot_bytes, .first_sequence = first, .epoch = kTestEpoch};
}

// One end: a rank with an adapter.
struct End {
  std::shared_ptr<PutPort> port;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<PutLink> link;
  std::deque<Offer> words;  // on their way to this end

  TestAdapter& adapter(std::size_t rail = 0) const { return static_cast<TestAdapter&>(port->adapter(rail)); }
};

struct Pair {
  // Several rails have adapters test0.0 and test1.0, test0.1 and test1.1, and so on. Rank 1 may have others than rank
  // 0.
  Pair(const FifoShape& its_shape, const Whims& whims, const PutOptions& options = {}, int rails = 1, int others = 0);
  ~Pair();
  // Makes everything go on a little: progress of both ends, the network, words. Returns false after an error, which is
  // in `error`.
  bool round();
  // Carries one word from end `from` to the other, if it has one to say.
  void take_word(int from);
  // Gives the other end the next word that it was said.
  bool give_word(int to);

  FifoShape shape;
  TestNetwork network;
  End ends[2];
  Error error{};
  std::mt19937 random;
  std::uint32_t word_delay = 0;  // a word waits one in so many rounds; 0: none does
};

// Says where the sender has the data of a message.
enum class Way : std::uint8_t { Staged, Ordinary, Registered };

// Returns one byte of content, which depends on lane, message and place.
std::byte pattern(std::uint32_t lane, std::uint32_t message, std::size_t place);

// The messages of one lane in one direction.
class Stream {
 public:
  Stream(Pair& pair, int from, std::uint16_t lane);
  Stream(Stream&&) = default;
  Stream(const Stream&) = delete;
  void add(std::size_t bytes, Way way) { messages_.emplace_back(bytes, way); }
  // From now on the receiver wants all messages of kLeastLandedBytes or more in places of its own, and posts these
  // ahead. They are registered or not.
  void want_places(bool registered) {
    wants_ = true;
    registers_ = registered;
  }
  // Posts the places of the next messages, as lanes do.
  void post_places();
  // Publishes and takes what can be. Memory that was given back is overwritten at once.
  void send_all();
  void take_all();
  void take_one();
  bool done() const { return seen_ == messages_.size(); }
  // Returns whether all memory was given back.
  bool given_back() const { return released_ == messages_.size(); }
  std::size_t sent() const { return sent_; }
  std::size_t seen() const { return seen_; }
  std::size_t landed() const { return landed_; }
  const std::string& wrong() const { return wrong_; }
  // Finds a place that was written after its message was consumed, when all are.
  void check_places();

 private:
  struct Message {
    Message(std::size_t its_bytes, Way its_way) : bytes(its_bytes), way(its_way) {}
    std::size_t bytes;
    Way way;
    std::vector<std::byte> ordinary;
    Memory registered;
    std::vector<std::byte> ordinary_place;
    Memory registered_place;
    std::span<std::byte> place;  // of the two
  };
  bool send_one();
  void overwrite_given_back();
  void check(const Message& message, const SlotHeader& slot, const std::byte* data);

  Pair& pair_;
  PutLink& from_;
  SendFifo& send_;
  RecvFifo& recv_;
  std::uint32_t lane_;
  std::uint32_t first_;
  std::deque<Message> messages_;
  std::size_t sent_ = 0;
  std::size_t seen_ = 0;
  std::size_t released_ = 0;
  std::size_t landed_ = 0;
  bool wants_ = false;
  bool registers_ = false;
  std::string wrong_;
};

// Goes on until `done` returns true. Returns false after an error, or when nothing has come of so many rounds.
template <typename Done>
bool drive(Pair& pair, Done done, int most_rounds = 200'000) {
  for (int round = 0; round < most_rounds; ++round) {
    if (done()) return true;
    if (!pair.round()) return false;
  }
  return false;
}

// Returns a stream of each lane in each direction, with so many messages: long ones of a slot, and short ones.
std::vector<Stream> streams_both_ways(Pair& pair, int messages);
// Sends what can be sent, and takes a message of each stream. Returns whether all is done. A wrong message fails the
// test.
bool step_all(std::vector<Stream>& streams);

// Carries the messages of a stream, until their memory is given back and nothing is under way. Returns false after an
// error.
inline bool carry(Pair& pair, Stream& stream) {
  const bool done = drive(pair, [&] {
    stream.send_all();
    stream.take_all();
    return stream.done() && stream.given_back();
  });
  for (int i = 0; done && i < 1000 && pair.network.step(); ++i) {
  }
  if (done) stream.check_places();
  return done;
}

}  // namespace wreath::put
