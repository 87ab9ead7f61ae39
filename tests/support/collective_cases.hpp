// Calls of every collective: where a rank's blocks lie, what it must get, and a run that compares every byte.
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
  std::vector<std::size_t> counts = {};  // the v-forms: of each block, instead of `count`
  bool gaps = false;                     // the v-forms: blocks do not touch each other

  bool varying() const { return !counts.empty(); }
  bool can_be_in_place() const { return collective != Collective::AllToAll; }
  // Elements of the block that goes from `from` to `to`; of all_to_all_v different in both directions.
  std::size_t block(Rank from, Rank to) const {
    if (!varying()) return count;
    return counts[static_cast<std::size_t>(collective == Collective::AllToAll ? (from + 2 * to) % ranks : to)];
  }
  std::string text() const {
    return fmt::format("{} {} {} x {}{}, root {} of {}", name(collective), name(dtype), name(op), count,
                       varying() ? fmt::format(" blocks of {}", fmt::join(counts, " ")) : "", root, ranks);
  }
};

// Memory of a device for the buffers of one call after the other.
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

// How one rank's memory lies for one call.
struct Placement {
  std::size_t input_offset = 0;  // bytes after a line
  std::size_t output_offset = 0;
  bool in_place = false;
  bool shared = false;         // memory that peers map
  Device* device = nullptr;    // whose memory it is; null: ordinary memory
  DeviceRoom* room = nullptr;  // where in it; null: each buffer is an allocation
};

// A block of one buffer of one rank: where it is, and whose elements it holds (source kAllRanks: the combination).
inline constexpr Rank kAllRanks = -1;
struct PlacedBlock {
  std::size_t first = 0;
  std::size_t count = 0;
  Rank source = 0;
  std::size_t source_first = 0;
};

// One buffer of one rank.
struct BufferLayout {
  std::vector<PlacedBlock> blocks;
  std::vector<std::size_t> counts;  // of the v-forms' tables
  std::vector<std::size_t> displacements;
  std::size_t end() const {
    std::size_t last = 0;
    for (const PlacedBlock& each : blocks) last = std::max(last, each.first + each.count);
    return last;
  }
};

// Elements of `from`'s input before the block for `to`.
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

// What rank `me` holds in Input, or must hold in Output afterwards.
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
    // An all_to_all counts by pairs, all others by the block's own rank.
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

// Bytes at an offset after a line, with room around, in ordinary memory, memory that peers map or a device's memory, of
// which this holds an image.
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
  // What calls name the byte `at` of this memory.
  std::byte* in_call(std::byte* at) const { return on_device_ == nullptr ? at : on_device_ + (at - start_); }
  // Image to device, and back.
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

// One rank's part in a call: its buffers, filled, and afterwards compared with what they must hold.
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

  // Empty, or where the first wrong byte is.
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
