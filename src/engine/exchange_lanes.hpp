// Sends and receives of one rank become lanes, records, questions and text here.
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

// ExchangeLanes makes the lanes of one operation after the other. It keeps the lanes of the last one for messages to
// the same peers.
class ExchangeLanes {
 public:
  // Makes the launch of numbered messages. The launch refers to data that live until the next launch.
  Result<Launch> launch(Engine& engine, const ExchangeMessages& messages);
  // Lists what peers are to be asked while `lanes` run the messages of the last launch and nothing moves.
  std::vector<Question> questions(const ExchangeMessages& messages, const LaneScheduler& lanes) const;

 private:
  ExchangePlan plan_;
  std::array<std::vector<std::uint32_t>, 2> signatures_;  // by Direction
};

// Writes entered messages into the recorder. Returns the recorder's key.
std::uint64_t record_messages(FlightRecorder& recorder, const ExchangeMessages& messages, Rank me);
// Describes the messages, for example as "send #3 to rank 1 float32 x 100".
std::string describe(const ExchangeMessages& messages);
// Returns the signature of a numbered message that this rank sends or receives.
std::uint32_t signature_of(const Engine& engine, Direction direction, const ExchangeMessage& message);
// Returns the bytes from the lowest address to the end of the last message.
std::span<const std::byte> extent_of(const std::vector<ExchangeMessage>& messages);

// Returns the entered send where it is the only one, small, and goes at once to a peer that maps memory. Otherwise it
// has no FIFO.
OutgoingMessage outgoing_of(const Engine& engine, const std::vector<ExchangeMessage>& sends);
// Returns the entered receive where it is the only one, small, and from a peer that maps memory. Otherwise it has no
// FIFO.
IncomingMessage incoming_of(const Engine& engine, const std::vector<ExchangeMessage>& receives);

}  // namespace wreath
