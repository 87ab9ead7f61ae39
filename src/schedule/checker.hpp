// The hooks that make a greedy run a proof: values, message sizes and hazards.
#pragma once

#include <string>
#include <vector>

#include "src/schedule/cells.hpp"
#include "src/schedule/clocks.hpp"
#include "src/schedule/machine.hpp"
#include "wreath/algorithm.hpp"

namespace wreath {

// Runs with unlimited slots and all lanes resident: these order the least, so what holds here holds for
// every K and R.
class Checker : public RunHooks {
 public:
  Checker(const Machine& machine, Order order, const Geometry& geometry, bool in_place);

  bool begin(Rank rank, std::uint32_t operation);
  bool finish(Rank rank, std::uint32_t operation);
  bool receive(std::uint32_t lane, const MachineStep& step, std::uint32_t tile);
  bool send(std::uint32_t lane, const MachineStep& step, std::uint32_t tile);

  // What was wrong, and where; empty if nothing was.
  const std::string& fault() const { return fault_; }

 private:
  // A message in flight. By reference (cell != kUnlimited) its data is read where it is taken.
  struct Message {
    Value value;
    std::uint64_t elements;
    std::uint32_t cell;
    std::uint32_t version;
    Stamp stamp;
    std::uint32_t next;
  };
  struct Queue {
    std::uint32_t head = kUnlimited;
    std::uint32_t tail = kUnlimited;
  };
  // The cells of the step at hand.
  struct Place {
    std::uint32_t lane;
    std::uint32_t tile;
    std::uint32_t source;
    std::uint32_t target;
    std::uint64_t source_elements;
    std::uint64_t target_elements;
  };

  Place place(std::uint32_t lane, const Step& step, std::uint32_t tile) const;
  // What is wrong with the final value of a share of the output; empty: nothing.
  std::string wrong_with(const Value* value, std::uint32_t share);
  bool fail(std::uint32_t lane, const MachineStep& step, std::uint32_t tile, std::string_view why);
  bool take_all(const Place& at, const MachineStep& step);
  bool take(const Place& at, std::uint32_t fifo, std::uint64_t elements);
  bool compute(const Place& at, const Step& step, Value& result);
  bool read(const Place& at, std::uint32_t cell, Value& value);
  void push(std::uint32_t fifo, const Message& message);

  const Machine& machine_;
  Order order_;
  Values values_;
  Clocks clocks_;
  Cells cells_;
  std::vector<Value> expected_;  // by share
  std::vector<Queue> queues_;    // by FIFO
  std::vector<Message> messages_;
  std::uint32_t free_message_ = kUnlimited;
  std::vector<Value> carried_;  // by lane: what a fused step's first part made
  std::vector<Value> taken_;    // messages of the step at hand
  std::string fault_;
};

}  // namespace wreath
