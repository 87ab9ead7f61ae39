// SmallRun runs small calls among ranks that map each other's memory. The engine has it as a value. Calls that repeat
// the last one use it without a choice, and without virtual calls.
#pragma once

#include "src/engine/operation.hpp"
#include "src/engine/run.hpp"
#include "src/executor/small.hpp"
#include "src/membership/links.hpp"

namespace wreath {

class SmallRun final : public Run {
 public:
  explicit SmallRun(const Engine& engine) : engine_(engine) {}
  // Connects the small areas of all ranks.
  void link();
  // Starts a call. The caller sets the operation only where the call cannot end at once.
  void start(const SmallPart& part, const std::byte* input, std::byte* output, std::uint32_t signature) {
    exchange_.start(part, input, output, signature);
  }

  Result<Started> start() override;
  Advance advance() override {
    const Advance advanced = exchange_.run();
    if (exchange_.take_told()) links_->ring();
    return advanced;
  }
  RunFault fault() const override;
  std::optional<Rank> waiting_for() const override { return exchange_.waiting_for(); }
  std::vector<Question> questions() const override;
  WireBytes moved() const override { return {0, exchange_.loaded_bytes()}; }

 private:
  const Engine& engine_;
  const Links* links_ = nullptr;  // after link()
  SmallExchange exchange_;
};

}  // namespace wreath
