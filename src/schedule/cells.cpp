// Reads and writes of cells, with the happens-before checks of each.
#include "src/schedule/cells.hpp"

#include <fmt/format.h>

#include "src/schedule/show.hpp"

namespace wreath {

Cells::Cells(const Machine& machine, const Geometry& geometry, bool in_place)
    : machine_(machine), data_lanes_(machine.data_lanes()), tiles_(geometry.tiles) {
  const std::uint32_t buffer = machine.parts() * data_lanes_ * tiles_;
  area_[0] = 0;
  area_[1] = in_place ? 0 : buffer;
  area_[2] = area_[1] + buffer;
  per_rank_ = area_[2] + machine.scratch_parts() * data_lanes_ * tiles_;
  for (std::uint32_t part = 0; part < machine.parts(); ++part) {
    for (std::uint32_t lane = 0; lane < data_lanes_; ++lane) {
      for (std::uint32_t tile = 0; tile < tiles_; ++tile) elements_.push_back(geometry.range(part, lane, tile).count);
    }
  }
  cells_.resize(std::size_t{per_rank_} * static_cast<std::size_t>(machine.ranks()));
}

void Cells::reset(Rank rank, const Values& values) {
  for (std::uint32_t i = 0; i < per_rank_; ++i) {
    Cell& cell = cells_[static_cast<std::size_t>(rank) * per_rank_ + i];
    forget_reads(cell);
    cell.writer = kUnlimited;
    cell.state = i < shares() ? State::Defined : State::Undefined;
    if (i < shares()) cell.value = values.leaf(rank, i);
    ++cell.version;
  }
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
  const std::uint32_t place = id % per_rank_;
  const bool in_place = area_[1] == 0;
  const std::size_t buffer = place >= area_[2] ? 2 : !in_place && place >= area_[1] ? 1 : 0;
  const std::uint32_t part = (place - area_[buffer]) / (data_lanes_ * tiles_);
  const std::string_view label = buffer == 0 && in_place ? "buffer" : name(static_cast<Buffer>(buffer));
  return fmt::format("{} part {} of rank {}", label, part, id / per_rank_);
}

}  // namespace wreath
