// A Run is one way to run an operation. The driver chooses the run of the first operation, and advances it until it is
// done.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "src/executor/state.hpp"
#include "src/membership/question.hpp"
#include "wreath/communicator.hpp"
#include "wreath/result.hpp"

namespace wreath {

class Operation;

// Later means that readers of an earlier operation are not done yet.
enum class Started : std::uint8_t { Now, Later };

struct RunFault {
  Error error;  // failed_rank names the peer
  // The flag is true where the peer may still say what happened. Otherwise the error is all there is to say.
  bool explains = true;
};

// The driver alone calls a run, for one operation after the other.
class Run {
 public:
  virtual ~Run() = default;

  // Sets the operation that the run runs next.
  void set(Operation& operation) { operation_ = &operation; }
  // Begins the run. The driver calls it again where it returned Later. An error ends the communicator.
  virtual Result<Started> start() = 0;
  // Does all that it can do at once, and never waits. Done means that only wires still carry something. The driver may
  // call it again after Done and after Failed.
  virtual Advance advance() = 0;
  // Returns the reason, after Failed.
  virtual RunFault fault() const = 0;
  // Returns the peer that the run waits for, where it is one peer.
  virtual std::optional<Rank> waiting_for() const = 0;
  // Lists what peers are to be asked when nothing moves.
  virtual std::vector<Question> questions() const = 0;
  // Says whether the run waits for something that only the wire to this peer can deliver.
  virtual bool expects(Rank peer) const {
    static_cast<void>(peer);
    return true;
  }
  // Returns the bytes that this rank has sent and loaded so far.
  virtual WireBytes moved() const { return {}; }
  // Ends a run that is done, once the wires are idle. An error belongs to the operation alone.
  virtual Status end() { return {}; }
  // Stops after a failure. Returns true once nothing reads or writes the caller's memory. The driver calls it again
  // until then.
  virtual bool stop() { return true; }
  // Limits the sleep of a driver that nothing wakes, where the run must look again sooner than the driver would.
  virtual std::optional<std::int64_t> longest_sleep_ns() const { return std::nullopt; }

 protected:
  Operation& operation() const { return *operation_; }

 private:
  Operation* operation_ = nullptr;
};

// Chooses runs for a room above the engine.
class OuterRuns {
 public:
  virtual ~OuterRuns() = default;
  // Prepares what the runs need before the ranks link.
  virtual void prepare() = 0;
  // Prepares what the runs need of links and peers.
  virtual Status link() = 0;
  // Returns the run of an operation whose run would be `own`: that one, or another one in its place or around it.
  virtual Run& run_for(Operation& operation, Run& own) = 0;
};

class Engine;
// Makes the choice of a room above the engine; null where that room has no runs.
using MakeOuterRuns = std::function<std::unique_ptr<OuterRuns>(Engine& engine)>;

// Returns questions to all other ranks whether they entered the call.
std::vector<Question> questions_of_call(const Operation& operation, Rank me, int ranks);

}  // namespace wreath
