// Undriven calls run by themselves: they have no queue, no number and no driver. Another room makes them; the engine
// only ends them.
#pragma once

#include <string>
#include <string_view>

#include "src/engine/operation.hpp"
#include "src/tuner/tuner.hpp"
#include "wreath/call.hpp"
#include "wreath/result.hpp"

namespace wreath {

class Undriven {
 public:
  virtual ~Undriven() = default;
  // Says whether such a call is made this way. The answer is the same on all ranks that make the same call.
  virtual bool takes(const Call& call) const = 0;
  // Begins a call that takes() accepts. Returns false where it was captured, to run later.
  virtual Result<bool> begin(Operation& operation) = 0;
  // Says how calls of a query are made; empty: not this way.
  virtual std::string plan_text(const Query& query) const = 0;
  // Looks for failures; the progress thread calls it. Returns true where that thread must look again before long.
  virtual bool watch() = 0;
  // Says whether a call may still be running. Any thread may ask.
  virtual bool in_flight() = 0;
  // Says what keeps such calls from their end, for an error.
  virtual std::string_view unfinished() const = 0;
  // Ends calls after the communicator has failed. Calls that wait give up now, and later calls give up, too.
  virtual void stop() = 0;
};

}  // namespace wreath
