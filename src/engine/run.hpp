// Run: one way to run an operation. The driver knows no other: it asks a table for the run of the operation whose turn
// it is, advances it until it is done, and gives it back.
#pragma once

#include <cstdint>
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

// Later: readers of an earlier operation are not done yet.
enum class Started : std::uint8_t { Now, Later };

struct RunFault {
  Error error;           // failed_rank names the peer
  bool explains = true;  // the peer may still say what happened; else the error is all there is to say
};

// The driver alone calls it, for one operation at a time.
class Run {
 public:
  virtual ~Run() = default;

  // Begins; it is called again where it returned Later. An error ends the communicator.
  virtual Result<Started> start() = 0;
  // Does what can be done at once and never waits. Done: nothing is left but what wires carry. It may be called again
  // after Done and after Failed.
  virtual Advance advance() = 0;
  // Says why, after Failed.
  virtual RunFault fault() const = 0;
  // The peer that it waits for, where it is one.
  virtual std::optional<Rank> waiting_for() const = 0;
  // Lists what peers are to be asked when nothing moves.
  virtual std::vector<Question> questions() const = 0;
  // Whether it waits for what only a wire can bring.
  virtual bool expects_wire() const { return true; }
  // The bytes that this rank has sent and loaded so far.
  virtual WireBytes moved() const { return {}; }
  // Ends what is done, once the wires are idle. An error is the operation's alone.
  virtual Status end() { return {}; }
  // Stops after a failure. True once nothing reads or writes the caller's memory; it is called again until then.
  virtual bool stop() { return true; }
  // Limits the sleep of a driver that nothing wakes.
  virtual std::int64_t longest_sleep_ns() const { return 50'000'000; }
};

class RunFactory;
using RunRows = std::span<const std::unique_ptr<RunFactory>>;

// A row of the table. It outlives its runs.
class RunFactory {
 public:
  virtual ~RunFactory() = default;
  // Prepares what it needs before the ranks link, and what it needs of links and peers.
  virtual void prepare() {}
  virtual Status link() { return {}; }
  // The run of an entered operation, or null: another row takes it. `below` are the rows after this one.
  virtual Run* run_for(Operation& operation, RunRows below) = 0;
};

// The first row that takes an operation runs it.
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
  // Requires that a row takes it: the last ones of each table take what no other row does.
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

// Adds the rows of a room above the engine, which come before the engine's own.
class Engine;
using AddRuns = void (*)(Engine& engine, RunTable& table);

// Asks all other ranks whether they entered the call.
std::vector<Question> questions_of_call(const Operation& operation, Rank me, int ranks);

}  // namespace wreath
