// AloneRun runs calls that need no peer: calls of one rank alone, calls without elements, and calls that no algorithm
// serves.
#pragma once

#include "src/engine/operation.hpp"
#include "src/engine/run.hpp"

namespace wreath {

class AloneRun final : public Run {
 public:
  explicit AloneRun(Engine& engine) : engine_(engine) {}
  // Does the whole call.
  Result<Started> start() override;
  Advance advance() override { return Advance::Done; }
  RunFault fault() const override { return {}; }
  std::optional<Rank> waiting_for() const override { return std::nullopt; }
  std::vector<Question> questions() const override { return {}; }
  Status end() override { return status_; }

 private:
  Engine& engine_;
  Status status_;
};

}  // namespace wreath
