// A Run is one way to run an operation. The driver knows no other. It asks a table for the run of the first operation,
// advances that run until it is done, and gives it back.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
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

// The driver alone calls a run, for one operation at a time.
class Run {
 public:
  virtual ~Run() = default;

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
  // Says whether the run waits for something that only a wire can deliver.
  virtual bool expects_wire() const { return true; }
  // Returns the bytes that this rank has sent and loaded so far.
  virtual WireBytes moved() const { return {}; }
  // Ends a run that is done, once the wires are idle. An error belongs to the operation alone.
  virtual Status end() { return {}; }
  // Stops after a failure. Returns true once nothing reads or writes the caller's memory. The driver calls it again
  // until then.
  virtual bool stop() { return true; }
  // Limits the sleep of a driver that nothing wakes, where the run must look again sooner than the driver would.
  virtual std::optional<std::int64_t> longest_sleep_ns() const { return std::nullopt; }
};

class RunFactory;
using RunRows = std::span<const std::unique_ptr<RunFactory>>;

// A RunFactory is a row of the table. It outlives its runs.
class RunFactory {
 public:
  virtual ~RunFactory() = default;
  // Prepares what the row needs before the ranks link.
  virtual void prepare() {}
  // Prepares what the row needs of links and peers.
  virtual Status link() { return {}; }
  // Returns the run of an entered operation, or null where another row takes it. `below` are the rows after this one.
  virtual Run* run_for(Operation& operation, RunRows below) = 0;
};

// The first row of the table that takes an operation runs it.
class RunTable {
 public:
  void add(std::unique_ptr<RunFactory> row) { rows_.push_back(std::move(row)); }
  void clear() { rows_.clear(); }
  void prepare() {
    for (const auto& row : rows_) row->prepare();
  }
  Status link() {
    for (const auto& row : rows_) WREATH_TRY(row->link());
    return {};
  }
  Run& run_for(Operation& operation) const { return first_of(rows_, operation); }
  // Returns the run of the first row that takes the operation. One row must take it: the last rows of each table take
  // all that no other row takes.
  static Run& first_of(RunRows rows, Operation& operation) {
    while (true) {
      RunFactory& row = *rows.front();
      rows = rows.subspan(1);
      if (Run* const run = row.run_for(operation, rows); run != nullptr) return *run;
    }
  }

 private:
  std::vector<std::unique_ptr<RunFactory>> rows_;
};

class Engine;
// An AddRuns adds the rows of a room above the engine. They come before the engine's own.
using AddRuns = std::function<void(Engine& engine, RunTable& table)>;

// Returns questions to all other ranks whether they entered the call.
std::vector<Question> questions_of_call(const Operation& operation, Rank me, int ranks);

}  // namespace wreath
