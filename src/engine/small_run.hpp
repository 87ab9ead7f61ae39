// SmallRun runs small calls among ranks that map each other's memory, and of two ranks over a wire. The engine has it
// as a value. Calls that repeat the last one use it without a choice, and without virtual calls.
#pragma once

#include "src/engine/operation.hpp"
#include "src/engine/run.hpp"
#include "src/executor/small.hpp"
#include "src/executor/small_pair.hpp"
#include "src/membership/links.hpp"

namespace wreath {

class SmallRun final : public Run {
 public:
  explicit SmallRun(const Engine& engine) : engine_(engine) {}
  // Connects the small areas of all ranks, or the ends of the wire between two.
  void link();
  // Says whether messages go over a wire.
  bool over_wire() const { return over_wire_; }
  // Starts a call. The caller sets the operation only where the call cannot end at once.
  void start(const SmallPart& part, const std::byte* input, std::byte* output, std::uint32_t signature) {
    over_wire_ ? pair_.start(part, input, output, signature) : exchange_.start(part, input, output, signature);
  }

  Result<Started> start() override;
  Advance advance() override {
    if (over_wire_) return pair_.run();
    const Advance advanced = exchange_.run();
    if (exchange_.take_told()) links_->ring();
    return advanced;
  }
  RunFault fault() const override;
  std::optional<Rank> waiting_for() const override { return over_wire_ ? pair_.peer() : exchange_.waiting_for(); }
  std::vector<Question> questions() const override;
  bool expects(Rank /*peer*/) const override { return !over_wire_ || pair_.waits(); }
  WireBytes moved() const override {
    return over_wire_ ? WireBytes{pair_.sent_bytes(), 0} : WireBytes{0, exchange_.loaded_bytes()};
  }

 private:
  const Engine& engine_;
  Links* links_ = nullptr;  // after link()
  SmallExchange exchange_;
  bool over_wire_ = false;
  SmallPair pair_;
};

}  // namespace wreath
