// The memory of all ranks as verify() sees it: cells that hold symbolic values and know who touched them last.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/schedule/clocks.hpp"
#include "src/schedule/geometry.hpp"
#include "src/schedule/values.hpp"

namespace wreath {

// One cell is the elements of (buffer, part, data lane, tile) of a rank. Steps touch whole cells only, and
// distinct cells never overlap, except that Input and Output are the same cells in place.
class Cells {
 public:
  Cells(const Machine& machine, const Geometry& geometry, bool in_place);

  // How many elements a share has, the same in all buffers: 0 for an empty tail.
  std::uint64_t elements(std::uint32_t share) const { return elements_[share]; }
  // Which elements of a buffer: equal for Input and Output, and for every rank.
  std::uint32_t share(std::uint32_t part, std::uint16_t data_lane, std::uint32_t tile) const {
    return (part * data_lanes_ + data_lane) * tiles_ + tile;
  }
  std::uint32_t shares() const { return static_cast<std::uint32_t>(elements_.size()); }
  std::uint32_t cell(Rank rank, Buffer buffer, std::uint32_t share) const {
    return static_cast<std::uint32_t>(rank) * per_rank_ + area_[static_cast<std::size_t>(buffer)] + share;
  }

  // Fresh Input, nothing anywhere else.
  void reset(Rank rank, const Values& values);

  const Value* peek(std::uint32_t cell) const {
    return cells_[cell].state == State::Defined ? &cells_[cell].value : nullptr;
  }
  std::uint32_t version(std::uint32_t cell) const { return cells_[cell].version; }

  // The value as `lane` reads it now; null with a fault where it has none, or where nothing orders its write before.
  const Value* load(const Clocks& clocks, std::uint32_t lane, std::uint32_t cell, std::string& fault) const;
  // Notes that `lane` reads the cell in its present event.
  void note_read(const Clocks& clocks, std::uint32_t lane, std::uint32_t cell);
  // False with a fault where nothing orders the last write and all reads since before this write.
  // value == nullptr: the cell holds nothing that may be read.
  bool store(const Clocks& clocks, std::uint32_t lane, std::uint32_t cell, const Value* value, std::string& fault);

  // "output part 3 of rank 1"; in place "buffer part 3 of rank 1".
  std::string describe(std::uint32_t cell) const;

 private:
  enum class State : std::uint8_t { Undefined, Defined, Dead };
  struct Cell {
    Value value;
    State state = State::Undefined;
    std::uint32_t version = 0;
    std::uint32_t writer = kUnlimited;  // lane of the last write since reset
    std::uint32_t write_epoch = 0;
    std::uint32_t reads = kUnlimited;  // reads since then
  };
  struct Read {
    std::uint32_t lane;
    std::uint32_t epoch;
    std::uint32_t next;
  };
  void forget_reads(Cell& cell);

  const Machine& machine_;
  std::uint32_t data_lanes_;
  std::uint32_t tiles_;
  std::uint32_t per_rank_;
  std::uint32_t area_[3];
  std::vector<std::uint64_t> elements_;
  std::vector<Cell> cells_;
  std::vector<Read> reads_;
  std::uint32_t free_read_ = kUnlimited;
};

}  // namespace wreath
