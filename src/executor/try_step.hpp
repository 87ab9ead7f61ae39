// The executor's shared unit: try_step advances one lane by one tile of one step, and never waits.
//
// A host scheduler calls it round-robin over lanes, a CUDA block calls it in a loop. It decides
// what to do and when; the Processor moves the bytes:
//   void reduce(std::byte* target, const std::byte* const* sources, int k, std::size_t elements)
//   void copy(std::byte* target, const std::byte* source, std::size_t bytes)
//   void fill(std::byte* slot, const std::byte* source, std::size_t bytes)
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/memory_order.hpp"
#include "src/fifo/access.hpp"
#include "src/schedule/geometry.hpp"
#include "src/schedule/step.hpp"
#include "wreath/fifo.hpp"

namespace wreath {

enum class Advance : std::uint8_t { Advanced, Blocked, Done, Failed };

// Why try_step failed, and on which message.
enum class Fault : std::uint8_t { None, Signature, Bytes, Region, OwnerAborted };

// A lane in flight. Written by the thread that drives it only.
struct LaneState {
  std::uint32_t first = 0;
  std::uint32_t end = 0;
  std::uint32_t step = 0;
  std::uint32_t tile = 0;
  std::uint16_t data_lane = 0;
  std::uint16_t arrived = 0;  // messages of the present step that are known to be here
  bool received = false;      // the receiving half of a fused step is done
  bool referenced = false;    // sent user memory by reference: end only when it was read
  bool done = false;
  Fault fault = Fault::None;
  std::uint16_t fault_source = 0;  // index into sources
};

// What all lanes of one rank share during an operation. Plain pointers: it also lives on a device.
struct OperationState {
  const Step* steps = nullptr;
  Geometry geometry{};
  std::byte* buffers[3] = {};    // by Buffer
  std::uint32_t region[3] = {};  // how peers name that buffer; 0: they cannot
  std::uint64_t region_offset[3] = {};
  SendFifo* const* targets = nullptr;  // by Lowered::targets
  RecvFifo* const* sources = nullptr;  // by Lowered::sources
  std::uint32_t target_count = 0;
  std::uint32_t signature = 0;
  std::uint16_t epoch = 0;
};

inline constexpr std::size_t kFuseBlockBytes = 8192;  // a block that stays in L1 between two kernels

template <typename Processor>
class StepRunner {
 public:
  WREATH_HOST_DEVICE StepRunner(const OperationState& operation, LaneState& lane, Processor& processor)
      : operation_(operation), lane_(lane), processor_(processor), step_(operation.steps[lane.step]) {}

  WREATH_HOST_DEVICE Advance run() {
    if (step_.in_count > 0 && !lane_.received) return receive();
    if (step_.op == StepOp::Copy || step_.op == StepOp::Reduce) return local();
    return send(step_.op == StepOp::Send ? step_.source_buffer : step_.target_buffer,
                step_.op == StepOp::Send ? step_.source_part : step_.target_part);
  }

 private:
  struct Span {
    std::byte* data;
    std::uint64_t offset;  // into its buffer, bytes
    std::uint64_t elements;
    std::uint64_t bytes;
  };

  struct MessageName {
    std::uint32_t region;
    std::uint64_t offset;
    std::uint32_t flags;
  };

  WREATH_HOST_DEVICE Span span(Buffer buffer, std::uint32_t part) const {
    const ElementRange range = operation_.geometry.range(part, lane_.data_lane, lane_.tile);
    const std::uint64_t offset = range.first * operation_.geometry.element_bytes;
    std::byte* base = operation_.buffers[static_cast<int>(buffer)];
    return {base == nullptr ? nullptr : base + offset, offset, range.count,
            range.count * operation_.geometry.element_bytes};
  }
  WREATH_HOST_DEVICE Span source() const { return span(step_.source_buffer, step_.source_part); }
  WREATH_HOST_DEVICE Span target() const { return span(step_.target_buffer, step_.target_part); }
  WREATH_HOST_DEVICE RecvFifo& in(std::uint32_t i) const { return *operation_.sources[step_.in_first + i]; }
  WREATH_HOST_DEVICE SendFifo& out(std::uint32_t i) const { return *operation_.targets[step_.out_first + i]; }
  WREATH_HOST_DEVICE bool sends() const { return step_.out_count > 0; }

  WREATH_HOST_DEVICE Advance fail(Fault fault, std::uint32_t i) {
    lane_.fault = fault;
    lane_.fault_source = static_cast<std::uint16_t>(step_.in_first + i);
    return Advance::Failed;
  }

  WREATH_HOST_DEVICE Advance next_step() {
    lane_.arrived = 0;
    lane_.received = false;
    if (++lane_.step < lane_.end) return Advance::Advanced;
    lane_.step = lane_.first;
    if (++lane_.tile < operation_.geometry.tiles) return Advance::Advanced;
    lane_.done = true;
    return Advance::Done;
  }

  // Checks that message `i` belongs to this call and finds its data.
  WREATH_HOST_DEVICE Advance find(std::uint32_t i, const SlotHeader& header, std::uint64_t bytes,
                                  const std::byte*& data) {
    if (header.signature != operation_.signature) return fail(Fault::Signature, i);
    if (header.bytes != bytes) return fail(Fault::Bytes, i);
    const Located located = locate(in(i), header);
    if (located.state == Locating::Invalid) return fail(Fault::Region, i);
    data = located.data;
    return located.state == Locating::Unmapped ? Advance::Blocked : Advance::Advanced;
  }

  // The owner of referenced memory may have given up and changed it while it was read.
  WREATH_HOST_DEVICE bool torn(std::uint32_t i, const SlotHeader& header) const {
    if ((header.flags & kSlotReference) == 0 || in(i).owner_aborted == nullptr) return false;
    return !read_is_valid(*in(i).owner_aborted);
  }

  WREATH_HOST_DEVICE static std::byte* staging_slot(const SendFifo& fifo) {
    return fifo.staging + std::size_t{fifo.next & (fifo.slot_count - 1)} * fifo.slot_bytes;
  }

  WREATH_HOST_DEVICE void post_landing(const Span& to) {
    RecvFifo& fifo = in(0);
    if (fifo.landing == nullptr) return;
    fifo.landing->sequence = fifo.next;
    fifo.landing->bytes = static_cast<std::uint32_t>(to.bytes);
    fifo.landing->target = to.data;
  }

  WREATH_HOST_DEVICE Advance receive() {
    const Span to = target();
    while (lane_.arrived < step_.in_count) {
      const SlotHeader* header = peek(in(lane_.arrived));
      if (header == nullptr) {
        if (step_.op == StepOp::Recv || step_.op == StepOp::RecvSend) post_landing(to);
        return Advance::Blocked;
      }
      const std::byte* data = nullptr;
      if (const Advance found = find(lane_.arrived, *header, to.bytes, data); found != Advance::Advanced) return found;
      ++lane_.arrived;
    }
    std::byte* slot = fused_slot(to.bytes);
    if (const Advance combined = combine(to, slot); combined != Advance::Advanced) return combined;
    for (std::uint32_t i = 0; i < step_.in_count; ++i) consume(in(i));
    if (!sends()) return next_step();
    lane_.received = true;
    if (slot != nullptr) return publish_staged(to.bytes);
    return Advance::Advanced;
  }

  // A staging slot to fill while the target is computed; null: the sending half comes later.
  WREATH_HOST_DEVICE std::byte* fused_slot(std::uint64_t bytes) const {
    if (!sends() || by_reference(step_.target_buffer) || !credit()) return nullptr;
    return bytes <= stager().slot_bytes ? staging_slot(stager()) : nullptr;
  }

  WREATH_HOST_DEVICE Advance combine(const Span& to, std::byte* slot) {
    const std::byte* pointers[kMaximumFanIn + 1];
    int k = 0;
    const bool reduces = step_.op != StepOp::Recv && step_.op != StepOp::RecvSend;
    const Span own = reduces ? source() : to;
    for (std::uint32_t i = 0; i < step_.in_count; ++i) {
      if (reduces && i == step_.own_place) pointers[k++] = own.data;
      if (const Advance found = find(i, *peek(in(i)), to.bytes, pointers[k]); found != Advance::Advanced) return found;
      ++k;
    }
    if (reduces && step_.own_place >= step_.in_count) pointers[k++] = own.data;
    if (to.bytes > 0) move(to, pointers, k, slot);
    for (std::uint32_t i = 0; i < step_.in_count; ++i) {
      if (torn(i, *peek(in(i)))) return fail(Fault::OwnerAborted, i);
    }
    return Advance::Advanced;
  }

  // target = sum or copy of the pointers; with a slot, block by block so that the second store
  // finds the block in L1.
  WREATH_HOST_DEVICE void move(const Span& to, const std::byte** pointers, int k, std::byte* slot) {
    const std::uint64_t element_bytes = operation_.geometry.element_bytes;
    const std::uint64_t block = slot == nullptr ? to.bytes : kFuseBlockBytes / element_bytes * element_bytes;
    for (std::uint64_t done = 0; done < to.bytes; done += block) {
      const std::uint64_t bytes = to.bytes - done < block ? to.bytes - done : block;
      if (k > 1) {
        processor_.reduce(to.data + done, pointers, k, bytes / element_bytes);
      } else if (to.data + done != pointers[0]) {
        processor_.copy(to.data + done, pointers[0], bytes);
      }
      if (slot != nullptr) processor_.fill(slot + done, to.data + done, bytes);
      for (int i = 0; i < k; ++i) pointers[i] += bytes;
    }
  }

  WREATH_HOST_DEVICE bool credit() const {
    for (std::uint32_t i = 0; i < step_.out_count; ++i) {
      if (!has_credit(out(i))) return false;
    }
    return true;
  }

  // Whether every receiver can read `buffer` itself, so that no copy is staged.
  WREATH_HOST_DEVICE bool by_reference(Buffer buffer) const {
    if ((step_.flags & kStaged) != 0) return false;
    if (operation_.region[static_cast<int>(buffer)] != 0) return true;
    for (std::uint32_t i = 0; i < step_.out_count; ++i) {
      if (!out(i).by_reference) return false;
    }
    return true;
  }

  // The target whose staging slot holds the one copy for all: one that peers map, if there is one.
  WREATH_HOST_DEVICE SendFifo& stager() const {
    for (std::uint32_t i = 0; i < step_.out_count; ++i) {
      if (!out(i).by_reference) return out(i);
    }
    return out(0);
  }

  // Publishes one message to all targets: its address for pumps, `name` for peers that map it.
  WREATH_HOST_DEVICE Advance publish_all(const std::byte* data, std::uint64_t bytes, const MessageName& name) {
    for (std::uint32_t i = 0; i < step_.out_count; ++i) {
      SendFifo& fifo = out(i);
      SlotHeader& slot = next_slot(fifo);
      slot.epoch = operation_.epoch;
      slot.signature = operation_.signature;
      slot.bytes = static_cast<std::uint32_t>(bytes);
      slot.flags = fifo.by_reference ? 0 : name.flags;
      slot.region = fifo.by_reference ? kLocalAddress : name.region;
      slot.offset = fifo.by_reference ? reinterpret_cast<std::uint64_t>(data) : name.offset;
      publish(fifo);
    }
    return next_step();
  }

  WREATH_HOST_DEVICE Advance publish_staged(std::uint64_t bytes) {
    const SendFifo& fifo = stager();
    const std::byte* slot = staging_slot(fifo);
    const auto offset = static_cast<std::uint64_t>(slot - fifo.staging);
    return publish_all(slot, bytes, {fifo.staging_region, fifo.staging_offset + offset, 0});
  }

  WREATH_HOST_DEVICE Advance send(Buffer buffer, std::uint32_t part) {
    if (!credit()) return Advance::Blocked;
    const Span from = span(buffer, part);
    if (!by_reference(buffer)) {
      if (from.bytes > 0) processor_.fill(staging_slot(stager()), from.data, from.bytes);
      return publish_staged(from.bytes);
    }
    lane_.referenced = true;
    const int index = static_cast<int>(buffer);
    return publish_all(from.data, from.bytes,
                       {operation_.region[index], operation_.region_offset[index] + from.offset, kSlotReference});
  }

  WREATH_HOST_DEVICE Advance local() {
    const Span to = target();
    const Span from = source();
    if (step_.op == StepOp::Copy) {
      if (to.bytes > 0 && to.data != from.data) processor_.copy(to.data, from.data, to.bytes);
    } else if (to.bytes > 0) {
      const std::byte* pointers[2] = {to.data, from.data};
      processor_.reduce(to.data, pointers, 2, to.elements);
    }
    return next_step();
  }

  const OperationState& operation_;
  LaneState& lane_;
  Processor& processor_;
  const Step& step_;
};

// Advances `lane` by at most one step of one tile. Advanced: something moved. Blocked: nothing can
// move until a peer (or a pump) acts. Done: the lane is over. Failed: see lane.fault.
template <typename Processor>
WREATH_HOST_DEVICE inline Advance try_step(const OperationState& operation, LaneState& lane, Processor& processor) {
  if (lane.done) return Advance::Done;
  return StepRunner<Processor>(operation, lane, processor).run();
}

}  // namespace wreath
