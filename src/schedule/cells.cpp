// Reads and writes cells, with the happens-before checks of each access.
#include "src/schedule/cells.hpp"

#include <fmt/format.h>

#include "src/schedule/meaning.hpp"
#include "src/schedule/show.hpp"

namespace wreath {

Cells::Area Cells::area_of(const Machine& machine, const Problem& problem, Buffer buffer, Rank rank) {
  switch (holding(problem, buffer, rank)) {
    case Holding::None: return {};
    case Holding::OwnPart: return {.first_part = static_cast<std::uint32_t>(rank), .parts = 1};
    case Holding::AllParts: return {.first_part = 0, .parts = machine.parts()};
  }
  return {};
}

std::uint64_t Cells::count(const Machine& machine, const Problem& problem, const Shapes& shapes) {
  const std::uint64_t slots = std::uint64_t{machine.scratch_slots()} + machine.partial_slots();
  std::uint64_t parts = 0;
  for (Rank rank = 0; rank < machine.ranks(); ++rank) {
    for (const Buffer buffer : {Buffer::Input, Buffer::Output}) parts += area_of(machine, problem, buffer, rank).parts;
  }
  return parts * machine.data_lanes() * shapes.tiles() + slots * machine.lanes().size();
}

Cells::Cells(const Machine& machine, const Problem& problem, const Shapes& shapes, bool in_place)
    : machine_(machine),
      in_place_(in_place),
      data_lanes_(machine.data_lanes()),
      tiles_(shapes.tiles()),
      slots_(machine.scratch_slots() + machine.partial_slots()) {
  std::uint32_t next = 0;
  for (Rank rank = 0; rank < machine.ranks(); ++rank) {
    Area input = area_of(machine, problem, Buffer::Input, rank);
    Area output = area_of(machine, problem, Buffer::Output, rank);
    Area& larger = input.parts >= output.parts ? input : output;
    Area& smaller = input.parts >= output.parts ? output : input;
    larger.first_cell = next;
    next += share(larger.parts, 0, 0);
    if (in_place) {
      smaller.first_cell = larger.first_cell + share(smaller.first_part - larger.first_part, 0, 0);
    } else {
      smaller.first_cell = next;
      next += share(smaller.parts, 0, 0);
    }
    areas_.push_back({input, output});
  }
  first_slot_ = next;
  cells_.resize(first_slot_ + std::size_t{slots_} * machine.lanes().size());
}

void Cells::clear(std::uint32_t id) {
  Cell& cell = cells_[id];
  forget_reads(cell);
  cell.writer = kUnlimited;
  cell.state = State::Undefined;
  ++cell.version;
}

void Cells::reset(Rank rank, const Values& values) {
  const auto& [input, output] = areas_[static_cast<std::size_t>(rank)];
  for (std::uint32_t i = 0; i < share(output.parts, 0, 0); ++i) clear(output.first_cell + i);
  for (std::uint32_t i = 0; i < share(input.parts, 0, 0); ++i) {
    clear(input.first_cell + i);
    Cell& cell = cells_[input.first_cell + i];
    cell.state = State::Defined;
    cell.value = values.leaf(rank, share(input.first_part, 0, 0) + i);
  }
}

void Cells::forget_slots(std::uint32_t lane) {
  for (std::uint32_t i = 0; i < slots_; ++i) clear(first_slot_ + lane * slots_ + i);
}

void Cells::forget_reads(Cell& cell) {
  while (cell.reads != kUnlimited) {
    Read& read = reads_[cell.reads];
    const std::uint32_t next = read.next;
    read.next = free_read_;
    free_read_ = cell.reads;
    cell.reads = next;
  }
}

const Value* Cells::load(const Clocks& clocks, std::uint32_t lane, std::uint32_t id, std::string& fault) const {
  const Cell& cell = cells_[id];
  if (cell.state != State::Defined) {
    fault = fmt::format("reads {}, which {}", describe(id),
                        cell.state == State::Dead ? "was marked dead" : "nothing was written to");
    return nullptr;
  }
  if (cell.writer != kUnlimited && !clocks.ordered(lane, cell.writer, cell.write_epoch)) {
    fault = fmt::format("reads {}, but nothing orders that after the write by lane {}", describe(id),
                        machine_.lanes()[cell.writer].index);
    return nullptr;
  }
  return &cell.value;
}

void Cells::note_read(const Clocks& clocks, std::uint32_t lane, std::uint32_t id) {
  Cell& cell = cells_[id];
  const std::uint32_t epoch = clocks.epoch(lane);
  if (cell.reads != kUnlimited && reads_[cell.reads].lane == lane) {
    reads_[cell.reads].epoch = epoch;
    return;
  }
  std::uint32_t place = free_read_;
  if (place == kUnlimited) {
    place = static_cast<std::uint32_t>(reads_.size());
    reads_.push_back({});
  } else {
    free_read_ = reads_[place].next;
  }
  reads_[place] = {lane, epoch, cell.reads};
  cell.reads = place;
}

bool Cells::store(const Clocks& clocks, std::uint32_t lane, std::uint32_t id, const Value* value, std::string& fault) {
  Cell& cell = cells_[id];
  if (cell.writer != kUnlimited && !clocks.ordered(lane, cell.writer, cell.write_epoch)) {
    fault = fmt::format("overwrites {}, but nothing orders that after the write by lane {}", describe(id),
                        machine_.lanes()[cell.writer].index);
    return false;
  }
  for (std::uint32_t read = cell.reads; read != kUnlimited; read = reads_[read].next) {
    if (clocks.ordered(lane, reads_[read].lane, reads_[read].epoch)) continue;
    const MachineLane& reader = machine_.lanes()[reads_[read].lane];
    fault = fmt::format("overwrites {}, which rank {} lane {} may still be reading", describe(id), reader.rank,
                        reader.index);
    return false;
  }
  forget_reads(cell);
  cell.writer = lane;
  cell.write_epoch = clocks.epoch(lane);
  cell.state = value != nullptr ? State::Defined : State::Dead;
  if (value != nullptr) cell.value = *value;
  ++cell.version;
  return true;
}

std::string Cells::describe(std::uint32_t id) const {
  if (id >= first_slot_) {
    const std::uint32_t slot = (id - first_slot_) % slots_, scratch = machine_.scratch_slots();
    const MachineLane& lane = machine_.lanes()[(id - first_slot_) / slots_];
    return fmt::format("{} slot {} of rank {} lane {}", name(slot < scratch ? Buffer::Scratch : Buffer::Partial),
                       slot < scratch ? slot : slot - scratch, lane.rank, lane.index);
  }
  for (Rank rank = 0; rank < machine_.ranks(); ++rank) {
    for (const Buffer buffer : {Buffer::Output, Buffer::Input}) {
      const Area& area = areas_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(buffer)];
      if (id < area.first_cell || id >= area.first_cell + share(area.parts, 0, 0)) continue;
      return fmt::format("{} part {} of rank {}", in_place_ ? "buffer" : name(buffer),
                         area.first_part + (id - area.first_cell) / (data_lanes_ * tiles_), rank);
    }
  }
  return "nothing";
}

}  // namespace wreath
