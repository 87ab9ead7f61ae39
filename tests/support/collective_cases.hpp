// Describes calls of every collective: where a rank's blocks are and what data it must get. A run compares every byte.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "src/schedule/geometry.hpp"
#include "tests/support/collective_data.hpp"
#include "wreath/wreath.hpp"

namespace wreath::test {

// One call of all ranks.
struct CollectiveCase {
  Collective collective = Collective::AllReduce;
  DataType dtype = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  int ranks = 1;
  Rank root = 0;
  std::size_t count = 0;
  // The v-forms have the count of each block here, instead of `count`.
  std::vector<std::size_t> counts = {};
  // With this flag the blocks of v-forms do not touch each other.
  bool gaps = false;

  bool varying() const { return !counts.empty(); }
  bool can_be_in_place() const { return collective != Collective::AllToAll; }
  // Returns the elements of the block that goes from `from` to `to`. In all_to_all_v the two directions differ.
  std::size_t block(Rank from, Rank to) const {
    if (!varying()) return count;
    return counts[static_cast<std::size_t>(collective == Collective::AllToAll ? (from + 2 * to) % ranks : to)];
  }
  std::string text() const {
    return fmt::format("{} {} {} x {}{}, root {} of {}", name(collective), name(dtype), name(op), count,
                       varying() ? fmt::format(" blocks of {}", fmt::join(counts, " ")) : "", root, ranks);
  }
};

// Holds memory of a device, for the buffers of one call after the other.
class DeviceRoom {
 public:
  DeviceRoom(Device& device, std::size_t bytes, MemoryUse use) : memory_(device.allocate(bytes, use).value()) {}
  std::byte* take(std::size_t bytes) {
    std::byte* const taken = memory_.data() + used_;
    used_ += (bytes + 255) / 256 * 256;
    if (used_ > memory_.size()) throw std::runtime_error("a room for calls is too small");
    return taken;
  }
  void clear() { used_ = 0; }

 private:
  DeviceMemory memory_;
  std::size_t used_ = 0;
};

// Says where one rank's memory is in one call.
struct Placement {
  std::size_t input_offset = 0;  // bytes after the begin of a cache line
  std::size_t output_offset = 0;
  bool in_place = false;
  bool shared = false;       // memory that peers map
  Device* device = nullptr;  // the memory's device; null: ordinary memory
  // The room in which buffers are placed; with null each buffer is an allocation.
  DeviceRoom* room = nullptr;
};

// A block of one buffer of one rank has a place, and the elements of rank `source`. The source kAllRanks means the
// combination.
inline constexpr Rank kAllRanks = -1;
struct PlacedBlock {
  std::size_t first = 0;
  std::size_t count = 0;
  Rank source = 0;
  std::size_t source_first = 0;
};

// Describes one buffer of one rank.
struct BufferLayout {
  std::vector<PlacedBlock> blocks;
  std::vector<std::size_t> counts;  // for the v-forms' tables
  std::vector<std::size_t> displacements;
  std::size_t end() const {
    std::size_t last = 0;
    for (const PlacedBlock& each : blocks) last = std::max(last, each.first + each.count);
    return last;
  }
};

// Returns the number of elements of `from`'s input before the block for `to`.
inline std::size_t elements_before(const CollectiveCase& work, Rank from, Rank to) {
  std::size_t before = 0;
  for (Rank rank = 0; rank < to; ++rank) before += work.block(from, rank);
  return before;
}

inline bool unused_by(const CollectiveCase& work, Rank me, Buffer buffer) {
  if (!has_root(work.collective) || me == work.root) return false;
  const bool input_of_root = work.collective == Collective::Broadcast || work.collective == Collective::Scatter;
  return (buffer == Buffer::Input) == input_of_root;
}

// Returns the blocks that rank `me` holds in Input, or must hold in Output afterwards.
inline BufferLayout layout_of(const CollectiveCase& work, Rank me, Buffer buffer) {
  BufferLayout layout;
  const bool output = buffer == Buffer::Output;
  const Rank combined = reduces(work.collective) ? kAllRanks : work.root;
  if (!moves_blocks(work.collective)) {
    if (!unused_by(work, me, buffer)) layout.blocks = {{0, work.count, output ? combined : me, 0}};
    return layout;
  }
  if (holds_one_block(work.collective, buffer)) {
    const std::size_t first = output ? elements_before(work, combined == kAllRanks ? 0 : work.root, me) : 0;
    if (!unused_by(work, me, buffer)) layout.blocks = {{0, work.block(me, me), output ? combined : me, first}};
    return layout;
  }
  std::size_t at = 0;
  for (Rank rank = 0; rank < work.ranks; ++rank) {
    // An all_to_all has a count for each pair of ranks. All other collectives have one for the block's own rank.
    const bool pairs = work.collective == Collective::AllToAll;
    const std::size_t count = !pairs ? work.block(rank, rank) : output ? work.block(rank, me) : work.block(me, rank);
    const std::size_t first = pairs    ? elements_before(work, output ? rank : me, output ? me : rank)
                              : output ? 0
                                       : elements_before(work, me, rank);
    if (work.gaps) at += 1 + static_cast<std::size_t>(rank) % 3;
    layout.counts.push_back(count);
    layout.displacements.push_back(at);
    if (!unused_by(work, me, buffer)) layout.blocks.push_back({at, count, output ? rank : me, first});
    at += count;
  }
  return layout;
}

// Holds bytes at an offset after a cache line, with room around them. They are in ordinary memory, in memory that peers
// map, or in a device's memory, of which this holds an image.
class Room {
 public:
  static constexpr std::size_t kMargin = 64;
  static constexpr std::byte kUntouched{0x5A};
  Room(std::size_t bytes, std::size_t offset, const Placement& placement)
      : bytes_(bytes + 2 * kMargin), its_(placement.device == nullptr ? host_device() : *placement.device) {
    const std::size_t total = bytes_ + offset + kMargin;
    const bool shared = placement.shared;
    if (placement.device != nullptr && !shared && placement.room == nullptr) {
      device_ = placement.device->allocate(total).value();
      on_device_ = device_.data();
    } else if (placement.device != nullptr && !shared) {
      on_device_ = placement.room->take(total);
    }
    total_ = total;
    if (shared) {
      memory_ = allocate(total).value();
    } else {
      plain_.resize(total);
    }
    std::byte* const start = shared ? memory_.data() : plain_.data();
    start_ = start;
    first_ = start + (kMargin - reinterpret_cast<std::uintptr_t>(start) % kMargin) % kMargin + offset;
    std::fill_n(first_, bytes_, kUntouched);
  }
  std::byte* data() const { return first_ + kMargin; }
  std::span<const std::byte> all() const { return {first_, bytes_}; }
  // Returns the address by which calls name the byte `at` of this memory.
  std::byte* in_call(std::byte* at) const { return on_device_ == nullptr ? at : on_device_ + (at - start_); }
  // Copies the image to the device; download() copies it back.
  void upload() const {
    if (on_device_ != nullptr) its_.copy(on_device_, start_, total_).value();
  }
  void download() const {
    if (on_device_ != nullptr) its_.copy(start_, on_device_, total_).value();
  }

 private:
  std::size_t bytes_;
  Device& its_;
  DeviceMemory device_;
  std::byte* on_device_ = nullptr;
  std::size_t total_ = 0;
  std::byte* start_ = nullptr;
  std::vector<std::byte> plain_;
  Memory memory_;
  std::byte* first_ = nullptr;
};

// Holds one rank's part in a call: it fills the buffers, and afterwards compares them with the right contents.
class CollectiveRun {
 public:
  CollectiveRun(const CollectiveCase& work, const CollectiveData& data, Rank me, const Placement& placement)
      : work_(work),
        data_(data),
        me_(me),
        placement_(placement),
        in_place_(placement.in_place && work.can_be_in_place()),
        input_(layout_of(work, me, Buffer::Input)),
        output_(layout_of(work, me, Buffer::Output)),
        output_room_(bytes(in_place_ ? std::max(input_.end(), output_.end()) : output_.end()), placement.output_offset,
                     placement),
        input_room_(in_place_ ? 0 : bytes(input_.end()), placement.input_offset, placement) {
    const bool wide_input = input_.end() > output_.end();
    const auto own = static_cast<std::size_t>(me);
    const auto shift = [&](const BufferLayout& whole) {
      return whole.displacements.empty() ? 0 : bytes(whole.displacements[own]);
    };
    output_at_ = output_room_.data() + (in_place_ && wide_input ? shift(input_) : 0);
    input_at_ = in_place_ ? output_room_.data() + (wide_input ? 0 : shift(output_)) : input_room_.data();
    for (const PlacedBlock& each : input_.blocks) copy_block(each, input_at_);
    expected_output_.assign(output_room_.all().begin(), output_room_.all().end());
    expected_input_.assign(input_room_.all().begin(), input_room_.all().end());
    std::byte* const image = expected_output_.data() + (output_at_ - output_room_.all().data());
    for (const PlacedBlock& each : output_.blocks) copy_block(each, image);
    output_room_.upload();
    input_room_.upload();
  }

  const CollectiveCase& work() const { return work_; }
  const Placement& placement() const { return placement_; }

  Call call() const {
    Call call;
    call.collective = work_.collective;
    call.dtype = work_.dtype;
    if (reduces(work_.collective)) call.reduction = perf::reduction_of(work_.op, me_);
    call.root = work_.root;
    call.input = input_.blocks.empty() ? nullptr : (in_place_ ? output_room_ : input_room_).in_call(input_at_);
    call.output = output_.blocks.empty() ? nullptr : output_room_.in_call(output_at_);
    call.count = work_.varying() ? 0 : work_.count;
    if (work_.varying()) {
      call.input_blocks = table(input_);
      call.output_blocks = table(output_);
    }
    return call;
  }

  // Returns the place of the first wrong byte; empty where all are right.
  std::string wrong() const {
    output_room_.download();
    input_room_.download();
    const std::string text = differs("output", output_room_, expected_output_, output_at_);
    return !text.empty() ? text : differs("input", input_room_, expected_input_, input_at_);
  }

 private:
  std::size_t bytes(std::size_t elements) const { return elements * size_of(work_.dtype); }
  void copy_block(const PlacedBlock& block, std::byte* to) const {
    const std::byte* from = block.source == kAllRanks ? data_.combined() : data_.input(block.source);
    if (block.count > 0) std::memcpy(to + bytes(block.first), from + bytes(block.source_first), bytes(block.count));
  }
  Blocks table(const BufferLayout& layout) const {
    if (layout.counts.empty()) return {};
    return {layout.counts,
            work_.gaps ? std::span<const std::size_t>(layout.displacements) : std::span<const std::size_t>()};
  }
  std::string differs(const char* what, const Room& room, const std::vector<std::byte>& expected,
                      const std::byte* start) const {
    const std::span<const std::byte> now = room.all();
    const auto found = std::mismatch(now.begin(), now.end(), expected.begin());
    if (found.first == now.end()) return {};
    const std::ptrdiff_t at = &*found.first - start;
    return fmt::format("rank {}: {} byte {} (element {}) is {:#04x}, not {:#04x}{}; {}", me_, what, at,
                       at / static_cast<std::ptrdiff_t>(size_of(work_.dtype)), std::to_integer<int>(*found.first),
                       std::to_integer<int>(*found.second), in_place_ ? ", in place" : "", work_.text());
  }

  const CollectiveCase& work_;
  const CollectiveData& data_;
  Rank me_;
  Placement placement_;
  bool in_place_;
  BufferLayout input_;
  BufferLayout output_;
  Room output_room_;
  Room input_room_;
  std::byte* output_at_ = nullptr;
  std::byte* input_at_ = nullptr;
  std::vector<std::byte> expected_output_;
  std::vector<std::byte> expected_input_;
};

}  // namespace wreath::test
