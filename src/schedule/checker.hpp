// The checker's hooks make a greedy run a proof of values, message sizes and hazards.
#pragma once

#include <string>
#include <vector>

#include "src/schedule/cells.hpp"
#include "src/schedule/clocks.hpp"
#include "src/schedule/machine.hpp"
#include "src/schedule/meaning.hpp"

namespace wreath {

// The checker runs with unlimited slots and all lanes resident. These order the least, so what holds here holds for
// every K and R.
class Checker : public RunHooks {
 public:
  // Machine, claim and shapes must live as long as this object. `values` has as many ranks as the machine.
  Checker(const Machine& machine, const Claim& claim, const Shapes& shapes, bool in_place, const Values& values);

  bool begin(Rank rank, std::uint32_t operation);
  bool finish(Rank rank, std::uint32_t operation);
  void start_tile(std::uint32_t lane) { cells_.forget_slots(lane); }
  bool receive(std::uint32_t lane, const MachineStep& step, std::uint32_t tile);
  bool send(std::uint32_t lane, const MachineStep& step, std::uint32_t tile);

  // Returns what was wrong, and where. It is empty if nothing was wrong.
  const std::string& fault() const { return fault_; }

 private:
  // One chunk of a message in flight. If it was sent by reference (cell != kUnlimited), its data is read where it is
  // taken.
  struct Piece {
    Value value;
    std::uint64_t elements;
    std::uint32_t cell;
    std::uint32_t version;
    Stamp stamp;  // only in the first chunk
    std::uint32_t next;
    std::uint16_t chunks;  // of the message, in its first chunk
    Form form;
  };
  struct Queue {
    std::uint32_t head = kUnlimited;
    std::uint32_t tail = kUnlimited;
  };
  struct Operand {
    Buffer buffer = Buffer::Input;
    std::uint32_t cell = kUnlimited;
    std::uint64_t elements = 0;
  };
  // The operands of one chunk of the present step.
  struct Place {
    Operand source;
    Operand target;
  };

  bool find_places(std::uint32_t lane, const Step& step, std::uint32_t tile);
  bool find(Operand& operand, std::uint32_t lane, std::uint32_t part, std::uint32_t slot, std::uint32_t tile);
  // Returns what is wrong with the final value of a cell of Output. Returns an empty text where nothing is.
  std::string wrong_with(const Value* value, const Owed& owed, std::uint32_t share);
  bool fail(std::uint32_t lane, const MachineStep& step, std::uint32_t tile, std::string_view why);
  bool do_first_part(std::uint32_t lane, const MachineStep& step);
  bool do_send(std::uint32_t lane, const MachineStep& step);
  bool take(std::uint32_t lane, const Step& step, std::uint32_t fifo);
  bool take_piece(std::uint32_t lane, const Step& step, const Piece& piece, std::uint64_t elements);
  bool compute(std::uint32_t lane, const Step& step, std::uint32_t chunk, Value& result);
  bool load(std::uint32_t lane, const Operand& operand, Value& value);
  bool read(std::uint32_t lane, const Operand& operand, Value& value);
  bool settle(Value& value, Buffer target);
  bool fault(std::string text);
  std::uint32_t pop(std::uint32_t fifo);
  void push(std::uint32_t fifo, const Piece& piece);

  const Machine& machine_;
  const Claim& claim_;
  const Shapes& shapes_;
  // The collective combines elements if this is true.
  bool sums_;
  Values values_;
  Clocks clocks_;
  Cells cells_;
  // The sums over all ranks by share, for a reduction.
  std::vector<Value> complete_;
  std::vector<Queue> queues_;  // by FIFO
  std::vector<Piece> pieces_;
  std::uint32_t free_piece_ = kUnlimited;
  // The results of fused steps' first parts, by lane.
  std::vector<Value> carried_;
  std::vector<Value> taken_;   // of the present step, chunk by chunk
  std::vector<Place> places_;  // chunks of the present step
  std::string fault_;
};

}  // namespace wreath
