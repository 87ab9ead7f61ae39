// Sends and receives of one rank as lanes, and what their operation is called, asked and recorded by.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/engine/exchange.hpp"
#include "src/engine/launch.hpp"
#include "src/executor/pair.hpp"
#include "src/membership/question.hpp"

namespace wreath {

class Engine;
class FlightRecorder;

// Makes the lanes of one operation after the other; those of the last one are kept for messages to the same peers.
class ExchangeLanes {
 public:
  // Messages that were numbered. What the launch refers to lives until the next one.
  Result<Launch> launch(Engine& engine, const ExchangeMessages& messages);
  // Lists what peers are to be asked while `lanes` run the messages of the last launch and nothing moves.
  std::vector<Question> questions(const ExchangeMessages& messages, const LaneScheduler& lanes) const;

 private:
  ExchangePlan plan_;
  std::array<std::vector<std::uint32_t>, 2> signatures_;  // by Direction
};

// Writes entered messages down. Returns the flight recorder's key.
std::uint64_t record_messages(FlightRecorder& recorder, const ExchangeMessages& messages, Rank me);
// "send #3 to rank 1 float32 x 100".
std::string describe(const ExchangeMessages& messages);
// From the lowest address to the end of the last message.
std::span<const std::byte> extent_of(const std::vector<ExchangeMessage>& messages);

// Entered messages, if they are at most one each way, both small, with peers that map memory and have room for them at
// once; else neither has a FIFO.
struct MessagePair {
  OutgoingMessage sent;
  IncomingMessage received;
};
MessagePair pair_of(const Engine& engine, const ExchangeMessages& messages);

}  // namespace wreath
