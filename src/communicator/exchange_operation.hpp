// Sends and receives of one rank as an operation of its engine.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "src/communicator/exchange.hpp"
#include "src/communicator/operation.hpp"
#include "src/executor/pair.hpp"

namespace wreath {

class Exchange final : public OwnPlan {
 public:
  // Checked messages. The engine owns the operation and outlives this.
  Exchange(Engine& engine, ExchangeMessages messages) : engine_(engine), messages_(std::move(messages)) {}

  // The next messages, where those before are over; in exchange for these.
  void exchange(ExchangeMessages& messages) { std::swap(messages_, messages); }

  // The messages, entered, if they are at most one each way, both small, with peers that map memory and have room for
  // it at once; else neither has a FIFO. What was dealt with so is taken out: launch() is for what is left.
  struct Pair {
    OutgoingMessage sent;
    IncomingMessage received;
  };
  Pair pair();
  void take_out(Direction direction);
  bool empty() const { return messages_.empty(); }
  const ExchangeMessages& messages() const { return messages_; }

  void enter() override;
  std::uint64_t record(FlightRecorder& recorder) const override;
  Result<Launch> launch(const CallMemory& memory, StagedBuffers& staged) override;
  CallMemory memory() const override;
  std::uint64_t first_number(const Question& question) const override;
  std::string describe() const override;
  std::vector<Question> questions(const LaneScheduler& lanes) const override;

 private:
  Status place(const CallMemory& memory, StagedBuffers& staged);
  Question question(const Step& step) const;
  std::uint32_t signature(Direction direction, const ExchangeMessage& message) const;

  Engine& engine_;
  ExchangeMessages messages_;
  ExchangeMessages placed_;  // the same at the addresses of those who move them; empty: these are the messages' own
  ExchangePlan plan_;        // of the last messages
  std::array<std::vector<std::uint32_t>, 2> signatures_;  // by Direction
};

}  // namespace wreath
