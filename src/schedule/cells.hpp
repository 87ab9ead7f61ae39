// The memory of all ranks as verify() sees it. Cells hold symbolic values, and know which lanes touched them last.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/schedule/clocks.hpp"
#include "src/schedule/shapes.hpp"
#include "src/schedule/values.hpp"
#include "wreath/algorithm.hpp"

namespace wreath {

// One cell is the elements of (buffer, part, data lane, tile) of a rank, or a slot of a lane's Scratch or Partial.
// Steps touch whole cells only, and distinct cells never overlap. In place, parts that Input and Output both hold are
// the same cells.
class Cells {
 public:
  // The machine, problem and shapes must live as long as this object.
  Cells(const Machine& machine, const Problem& problem, const Shapes& shapes, bool in_place);
  // Returns the number of those cells.
  static std::uint64_t count(const Machine& machine, const Problem& problem, const Shapes& shapes);

  // Returns the name of the elements of (part, data lane, tile). It is the same on all ranks and in all buffers.
  std::uint32_t share(std::uint32_t part, std::uint16_t data_lane, std::uint32_t tile) const {
    return (part * data_lanes_ + data_lane) * tiles_ + tile;
  }
  std::uint32_t shares() const { return machine_.parts() * data_lanes_ * tiles_; }
  std::uint32_t tiles() const { return tiles_; }
  // Returns the cell of Input or Output, or kUnlimited where the rank does not hold that part.
  std::uint32_t cell(Rank rank, Buffer buffer, std::uint32_t part, std::uint16_t data_lane, std::uint32_t tile) const {
    const Area& area = areas_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(buffer)];
    const std::uint32_t place = part - area.first_part;  // wraps around below
    return place < area.parts ? area.first_cell + share(place, data_lane, tile) : kUnlimited;
  }
  // Returns the parts of Input or Output that the rank holds: the first one and the number.
  std::pair<std::uint32_t, std::uint32_t> held(Rank rank, Buffer buffer) const {
    const Area& area = areas_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(buffer)];
    return {area.first_part, area.parts};
  }
  // Returns the cell of a slot of Scratch or Partial.
  std::uint32_t slot(std::uint32_t lane, Buffer buffer, std::uint32_t slot) const {
    const std::uint32_t first = buffer == Buffer::Scratch ? 0 : machine_.scratch_slots();
    return first_slot_ + lane * slots_ + first + slot;
  }

  // Gives the rank a fresh Input, and an Output that holds nothing.
  void reset(Rank rank, const Values& values);
  // Empties the lane's Scratch and Partial.
  void forget_slots(std::uint32_t lane);

  const Value* peek(std::uint32_t cell) const {
    return cells_[cell].state == State::Defined ? &cells_[cell].value : nullptr;
  }
  std::uint32_t version(std::uint32_t cell) const { return cells_[cell].version; }
  // Returns whether the cell was written since reset(), or was read and not written since.
  bool is_touched(std::uint32_t cell) const {
    return cells_[cell].writer != kUnlimited || cells_[cell].reads != kUnlimited;
  }

  // Returns the value as `lane` reads it now. Returns null with a fault where there is no value, or nothing orders its
  // write before this read.
  const Value* load(const Clocks& clocks, std::uint32_t lane, std::uint32_t cell, std::string& fault) const;
  // Notes that `lane` reads the cell in its present event.
  void note_read(const Clocks& clocks, std::uint32_t lane, std::uint32_t cell);
  // Stores a value. Returns false with a fault where nothing orders the last write, and all reads since, before this
  // write. If `value` is null, the cell then holds nothing that may be read.
  bool store(const Clocks& clocks, std::uint32_t lane, std::uint32_t cell, const Value* value, std::string& fault);

  // Returns "output part 3 of rank 1" or "partial slot 0 of rank 1 lane 2". In place, a text has "buffer" for the first
  // word.
  std::string describe(std::uint32_t cell) const;

 private:
  enum class State : std::uint8_t { Undefined, Defined, Dead };
  struct Cell {
    Value value;
    State state = State::Undefined;
    std::uint32_t version = 0;
    std::uint32_t writer = kUnlimited;  // lane of the last write since reset
    std::uint32_t write_epoch = 0;
    std::uint32_t reads = kUnlimited;  // reads since that write
  };
  struct Read {
    std::uint32_t lane;
    std::uint32_t epoch;
    std::uint32_t next;
  };
  // The parts of Input or Output that a rank holds.
  struct Area {
    std::uint32_t first_part = 0;
    std::uint32_t parts = 0;
    std::uint32_t first_cell = 0;
  };
  using Areas = std::array<Area, 2>;
  static Area area_of(const Machine& machine, const Problem& problem, Buffer buffer, Rank rank);
  void clear(std::uint32_t cell);
  void forget_reads(Cell& cell);

  const Machine& machine_;
  bool in_place_;
  std::uint32_t data_lanes_;
  std::uint32_t tiles_;
  std::uint32_t slots_;  // of a lane
  // The cells of slots follow those of buffers.
  std::uint32_t first_slot_;
  std::vector<Areas> areas_;  // by rank
  std::vector<Cell> cells_;
  std::vector<Read> reads_;
  std::uint32_t free_read_ = kUnlimited;
};

}  // namespace wreath
