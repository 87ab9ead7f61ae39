// Calls that run by themselves: no queue, no number, no driver. Another room makes them; the engine only ends them.
#pragma once

#include <string>

#include "src/engine/operation.hpp"
#include "src/tuner/tuner.hpp"
#include "wreath/call.hpp"
#include "wreath/result.hpp"

namespace wreath {

class Undriven {
 public:
  virtual ~Undriven() = default;
  // Whether such a call is made this way: the same on all ranks that make the same call.
  virtual bool takes(const Call& call) const = 0;
  // Begins a call that it takes. False: its stream captured it, and the launches of the graph will run it.
  virtual Result<bool> begin(Operation& operation) = 0;
  // Says how calls of a query are made; empty: not this way.
  virtual std::string plan_text(const Query& query) const = 0;
  // The progress thread looks for failures. True: it is to look again before long.
  virtual bool watch() = 0;
  // Any thread: whether a call may not be over yet.
  virtual bool in_flight() = 0;
  // The communicator has failed: calls that wait give up, those that come will.
  virtual void stop() = 0;
};

}  // namespace wreath
