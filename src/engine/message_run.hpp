// MessageRun runs at most one send and one receive over wires, of up to kPairMessageBytes each, without lanes.
#pragma once

#include "src/engine/operation.hpp"
#include "src/engine/run.hpp"
#include "src/executor/wire_messages.hpp"

namespace wreath {

class MessageRun final : public Run {
 public:
  explicit MessageRun(const Engine& engine) : engine_(engine) {}
  // Says whether the run may run these messages. Each end of a message decides for itself.
  static bool serves(const Engine& engine, const ExchangeMessages& messages);

  Result<Started> start() override;
  Advance advance() override;
  RunFault fault() const override;
  std::optional<Rank> waiting_for() const override;
  std::vector<Question> questions() const override;
  bool expects(Rank peer) const override { return messages_.waits() && received().peer == peer; }
  WireBytes moved() const override { return {messages_.sent_bytes(), 0}; }

 private:
  const ExchangeMessage& sent() const { return operation().messages.sends.front(); }
  const ExchangeMessage& received() const { return operation().messages.receives.front(); }

  const Engine& engine_;
  WireMessages messages_;
};

}  // namespace wreath
