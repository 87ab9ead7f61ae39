// The executor's shared unit: try_step advances one lane by one tile of one step, and never waits.
//
// A host scheduler calls it round-robin over lanes, a CUDA block calls it in a loop. It decides
// what to do and when; the Processor moves the bytes:
//   void combine(std::byte* target, Form target_form, const std::byte* const* sources, int k, Operands operands,
//                std::size_t elements)                                                      see Arithmetic
//   void copy(std::byte* target, const std::byte* source, std::size_t bytes)
//   void fill(std::byte* slot, const std::byte* source, std::size_t bytes)
//   kBlockBytes       where a target and a slot are written, they are in blocks of so many bytes, which stay near
//   kCombinesInSlots  a combination straight into a slot costs no more than filling it afterwards
//   kPulledBytes      0: no message lies in its sender's process (kPeerAddress). Else, of memory at `pulled`: messages
//                     that are combined are read there first, in blocks of at most kPulledBlockBytes
//   std::byte* pulled
//   int pull(const ProcessMemory& process, std::byte* target, const std::byte* source, std::size_t bytes)   see
//   read_peer
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.hpp"
#include "src/base/memory_order.hpp"
#include "src/executor/state.hpp"
#include "src/fifo/access.hpp"
#include "src/schedule/geometry.hpp"
#include "src/schedule/step.hpp"
#include "wreath/fifo.hpp"

namespace wreath {

template <typename Processor>
class StepRunner {
 public:
  WREATH_HOST_DEVICE StepRunner(const OperationState& operation, LaneState& lane, Processor& processor)
      : operation_(operation), lane_(lane), processor_(processor), step_(operation.steps[lane.step]) {}

  WREATH_HOST_DEVICE Advance run() {
    if (lane_.elements == kNotBegun) lane_.elements = count();
    if (lane_.elements == 0) return operation_.step_major ? skip_step() : next_step();
    if (step_.in_count > 0 && !lane_.received) return receive();
    if (step_.op == StepOp::Copy || step_.op == StepOp::Reduce) return local();
    return send();
  }

 private:
  // The chunks a step reads or writes.
  struct Side {
    Buffer buffer;
    std::uint32_t part;
    std::uint32_t slot;
  };

  // One chunk's elements in this tile.
  struct Piece {
    std::byte* data;
    std::uint64_t offset;  // into its buffer, bytes
    std::uint64_t elements;
    std::uint64_t bytes;
  };

  // What a combination or copy takes, piece by piece: pointers move on.
  struct Sources {
    int k;
    Operands operands;
    bool plain;    // one source, and only its bytes are wanted
    int in_peers;  // messages that lie in their senders' processes
    const std::byte* data[kMaximumFanIn + 1];
  };

  struct MessageName {
    std::uint32_t region;
    std::uint64_t offset;
    std::uint32_t flags;
  };

  WREATH_HOST_DEVICE Side source() const { return {step_.source_buffer, step_.source_part, step_.source_slot}; }
  WREATH_HOST_DEVICE Side target() const { return {step_.target_buffer, step_.target_part, step_.target_slot}; }
  WREATH_HOST_DEVICE Side sent() const { return step_.op == StepOp::Send ? source() : target(); }
  WREATH_HOST_DEVICE RecvFifo& in(std::uint32_t i) const { return *operation_.sources[step_.in_first + i]; }
  WREATH_HOST_DEVICE SendFifo& out(std::uint32_t i) const { return *operation_.targets[step_.out_first + i]; }
  WREATH_HOST_DEVICE bool sends() const { return step_.out_count > 0; }
  WREATH_HOST_DEVICE bool reduces() const { return step_.op != StepOp::Recv && step_.op != StepOp::RecvSend; }
  WREATH_HOST_DEVICE std::uint64_t bytes_of(Form form) const { return operation_.geometry.bytes_of(form); }

  WREATH_HOST_DEVICE ElementRange range(const Side& side, std::uint32_t i) const {
    const std::uint32_t part = step_.chunks > 1 ? operation_.several[side.part + i] : side.part;
    return operation_.geometry.range(side.buffer, part, lane_.data_lane, lane_.tile);
  }

  WREATH_HOST_DEVICE std::uint64_t count() const {
    const Side side = sent();
    std::uint64_t elements = 0;
    for (std::uint32_t i = 0; i < step_.chunks; ++i) elements += range(side, i).count;
    return elements;
  }

  WREATH_HOST_DEVICE Piece piece(const Side& side, std::uint32_t i) const {
    const ElementRange elements = range(side, i);
    const std::uint64_t element_bytes = bytes_of(form_of(side.buffer));
    const int buffer = static_cast<int>(side.buffer);
    std::uint64_t first = elements.first;
    if (is_private(side.buffer)) {
      first = (std::uint64_t{lane_.index} * operation_.slots[buffer] + side.slot + i) * operation_.geometry.tile;
    }
    const std::uint64_t offset = first * element_bytes;
    return {operation_.buffers[buffer] + offset, offset, elements.count, elements.count * element_bytes};
  }

  WREATH_HOST_DEVICE static bool is_private(Buffer buffer) {
    return buffer == Buffer::Scratch || buffer == Buffer::Partial;
  }

  WREATH_HOST_DEVICE Form incoming_form() const {
    const bool inputs = reduces() && operation_.conversions.premultiplies;
    return (step_.flags & kPartialIncoming) != 0 || inputs ? Form::Partial : Form::Data;
  }
  WREATH_HOST_DEVICE Form outgoing_form(Buffer buffer) const {
    return multiplied_when_sent(buffer) ? Form::Partial : form_of(buffer);
  }
  WREATH_HOST_DEVICE bool multiplied_when_sent(Buffer buffer) const {
    return buffer == Buffer::Input && operation_.conversions.premultiplies;
  }
  // Whether one source is copied as it is. `finished`: it is a result, no input or sum.
  WREATH_HOST_DEVICE bool plain(Form from, bool finished, Form to) const {
    return (finished && to == Form::Data) || operation_.conversions.moves(from, to);
  }

  WREATH_HOST_DEVICE Advance fail(Fault fault, std::uint32_t i) {
    lane_.fault = fault;
    lane_.fault_source = static_cast<std::uint16_t>(step_.in_first + i);
    return Advance::Failed;
  }

  WREATH_HOST_DEVICE Advance next_step() {
    lane_.elements = kNotBegun;
    lane_.arrived = 0;
    lane_.received = false;
    if (operation_.step_major) return ++lane_.tile < operation_.geometry.tiles ? Advance::Advanced : skip_step();
    if (++lane_.step < lane_.end) return Advance::Advanced;
    lane_.step = lane_.first;
    return ++lane_.tile < operation_.geometry.tiles ? Advance::Advanced : end();
  }

  // Step by step: the part of this one has no more tiles.
  WREATH_HOST_DEVICE Advance skip_step() {
    lane_.elements = kNotBegun;
    lane_.tile = 0;
    return ++lane_.step < lane_.end ? Advance::Advanced : end();
  }

  WREATH_HOST_DEVICE Advance end() {
    lane_.done = true;
    return Advance::Done;
  }

  WREATH_HOST_DEVICE std::uint32_t incoming_signature() const {
    return operation_.output_signatures == nullptr ? operation_.signature
                                                   : operation_.output_signatures[step_.target_part];
  }
  WREATH_HOST_DEVICE std::uint32_t outgoing_signature() const {
    const bool by_part = operation_.input_signatures != nullptr && sent().buffer == Buffer::Input;
    return by_part ? operation_.input_signatures[sent().part] : operation_.signature;
  }

  // Checks that message `i` belongs to this call and finds its data.
  WREATH_HOST_DEVICE Advance find(std::uint32_t i, const SlotHeader& header, std::uint64_t bytes,
                                  const std::byte*& data) {
    if (header.signature != incoming_signature()) return fail(Fault::Signature, i);
    if (header.bytes != bytes) return fail(Fault::Bytes, i);
    const Located located = locate(in(i), header);
    const bool pullable = located.state != Locating::InPeer || Processor::kPulledBytes > 0;
    if (located.state == Locating::Invalid || !pullable) return fail(Fault::Region, i);
    data = located.data;
    return located.state == Locating::Unmapped ? Advance::Blocked : Advance::Advanced;
  }

  // The owner of referenced memory may have given up and changed it while it was read.
  WREATH_HOST_DEVICE bool torn(std::uint32_t i, const SlotHeader& header) const {
    if ((header.flags & kSlotReference) == 0 || in(i).owner_aborted == nullptr) return false;
    return !read_is_valid(*in(i).owner_aborted);
  }

  WREATH_HOST_DEVICE static std::byte* staging_slot(const SendFifo& fifo, std::uint64_t bytes) {
    return fifo.staging + staging_place(fifo, bytes);
  }

  // Lets a pump put the message where the step would copy it.
  WREATH_HOST_DEVICE void post_landing() {
    RecvFifo& fifo = in(0);
    if (fifo.landing == nullptr || reduces() || step_.chunks > 1) return;
    const Form form = incoming_form();
    if (!plain(form, form == Form::Data, form_of(step_.target_buffer))) return;
    const Piece to = piece(target(), 0);
    fifo.landing->sequence = fifo.next;
    fifo.landing->bytes = static_cast<std::uint32_t>(to.bytes);
    fifo.landing->target = to.data;
  }

  WREATH_HOST_DEVICE Advance receive() {
    const std::uint64_t bytes = lane_.elements * bytes_of(incoming_form());
    while (lane_.arrived < step_.in_count) {
      const SlotHeader* header = peek(in(lane_.arrived));
      if (header == nullptr) {
        post_landing();
        return Advance::Blocked;
      }
      const std::byte* data = nullptr;
      if (const Advance found = find(lane_.arrived, *header, bytes, data); found != Advance::Advanced) return found;
      ++lane_.arrived;
    }
    std::byte* slot = fused_slot();
    if (const Advance taken = take(bytes, slot); taken != Advance::Advanced) return taken;
    for (std::uint32_t i = 0; i < step_.in_count; ++i) consume(in(i));
    if (!sends()) return next_step();
    lane_.received = true;
    if (slot != nullptr) return publish_staged(lane_.elements * bytes_of(form_of(step_.target_buffer)));
    return Advance::Advanced;
  }

  // A staging slot to fill while the target is computed; null: the sending half comes later.
  WREATH_HOST_DEVICE std::byte* fused_slot() const {
    if (!sends() || by_reference(step_.target_buffer) || !credit()) return nullptr;
    return staging_slot(stager(), lane_.elements * bytes_of(form_of(step_.target_buffer)));
  }

  // Where message i is among the sources.
  WREATH_HOST_DEVICE static int place_of(int i, const Operands& operands) {
    return operands.own >= 0 && i >= operands.own ? i + 1 : i;
  }

  // target, and `slot` if there is one, = sum or copy of the messages, each `bytes` long.
  WREATH_HOST_DEVICE Advance take(std::uint64_t bytes, std::byte* slot) {
    Sources sources;
    const bool with_own = reduces();
    const int own = with_own ? (step_.own_place < step_.in_count ? step_.own_place : step_.in_count) : -1;
    sources.k = step_.in_count + (with_own ? 1 : 0);
    sources.in_peers = 0;
    sources.operands = {incoming_form(), own, form_of(step_.source_buffer)};
    sources.plain = !with_own && plain(sources.operands.messages, sources.operands.messages == Form::Data,
                                       form_of(step_.target_buffer));
    for (int i = 0; i < step_.in_count; ++i) {
      const auto message = static_cast<std::uint32_t>(i);
      const SlotHeader& header = *peek(in(message));
      const std::byte*& data = sources.data[place_of(i, sources.operands)];
      if (const Advance found = find(message, header, bytes, data); found != Advance::Advanced) return found;
      sources.in_peers += in_peer(header) ? 1 : 0;
    }
    for (std::uint32_t i = 0; i < step_.chunks; ++i) {
      const Piece to = piece(target(), i);
      if (to.elements == 0) continue;
      if (with_own) sources.data[own] = piece(source(), i).data;
      if (sources.in_peers == 0) {
        move(to, sources, slot);
      } else if (const Advance pulled = pull_and_move(to, sources, slot); pulled != Advance::Advanced) {
        return pulled;
      }
      if (slot != nullptr) slot += to.bytes;
    }
    for (std::uint32_t i = 0; i < step_.in_count; ++i) {
      if (torn(i, *peek(in(i)))) return fail(Fault::OwnerAborted, i);
    }
    return Advance::Advanced;
  }

  // move() where messages lie in their senders' processes: they are read into the target, or block by block to where
  // they are combined.
  WREATH_HOST_DEVICE Advance pull_and_move(const Piece& to, Sources& sources, std::byte* slot) {
    if constexpr (Processor::kPulledBytes > 0) {
      const bool dead = slot != nullptr && (step_.flags & kTargetDead) != 0;
      if (sources.plain) {
        if (!pull(0, dead ? slot : to.data, sources.data[0], to.bytes)) return Advance::Failed;
        if (slot != nullptr && !dead) processor_.fill(slot, to.data, to.bytes);
        sources.data[0] += to.bytes;
        return Advance::Advanced;
      }
      const std::uint64_t element_bytes = bytes_of(form_of(step_.target_buffer));
      const std::uint64_t block = elements_pulled(sources);
      for (std::uint64_t done = 0; done < to.elements; done += block) {
        const std::uint64_t elements = to.elements - done < block ? to.elements - done : block;
        Sources near;
        if (!pull_block(sources, elements, near)) return Advance::Failed;
        const std::uint64_t offset = done * element_bytes;
        move({dead ? to.data : to.data + offset, to.offset + offset, elements, elements * element_bytes}, near,
             slot == nullptr ? nullptr : slot + offset);
      }
    }
    return Advance::Advanced;
  }

  static constexpr std::uint64_t kPulledElements = 64;  // blocks begin at lines where they are pulled

  // Elements of a block of a message, all of which have room at `pulled`.
  WREATH_HOST_DEVICE std::uint64_t elements_pulled(const Sources& sources) const {
    const std::uint64_t share = Processor::kPulledBytes / static_cast<std::uint64_t>(sources.in_peers);
    const std::uint64_t bytes = share < Processor::kPulledBlockBytes ? share : Processor::kPulledBlockBytes;
    return bytes / bytes_of(sources.operands.messages) / kPulledElements * kPulledElements;
  }

  // near = the next block of all sources, in this process; `sources` moves on. False: failed.
  WREATH_HOST_DEVICE bool pull_block(Sources& sources, std::uint64_t elements, Sources& near) {
    near.k = sources.k;
    near.operands = sources.operands;
    near.plain = false;
    near.in_peers = 0;
    for (int i = 0; i < sources.k; ++i) near.data[i] = sources.data[i];
    const std::uint64_t bytes = elements * bytes_of(sources.operands.messages);
    const std::uint64_t stride = elements_pulled(sources) * bytes_of(sources.operands.messages);
    std::byte* place = processor_.pulled;
    for (std::uint32_t i = 0; i < step_.in_count; ++i) {
      const int at = place_of(static_cast<int>(i), sources.operands);
      if (!in_peer(*peek(in(i)))) continue;
      if (!pull(i, place, sources.data[at], bytes)) return false;
      near.data[at] = place;
      place += stride;
    }
    move_on(sources, elements);
    return true;
  }

  // target = `bytes` of message i, at `source` in its sender's process. False: failed.
  WREATH_HOST_DEVICE bool pull(std::uint32_t i, std::byte* target, const std::byte* source, std::uint64_t bytes) {
    lane_.fault_errno = processor_.pull(*in(i).process, target, source, bytes);
    if (lane_.fault_errno == 0) return true;
    fail(torn(i, *peek(in(i))) ? Fault::OwnerAborted : Fault::Unreadable, i);
    return false;
  }

  // One piece of target; with a slot block by block, so that the second store finds the block near. A target that
  // nothing else reads is left out, or only its first block is used.
  WREATH_HOST_DEVICE void move(const Piece& to, Sources& sources, std::byte* slot) {
    const Form form = form_of(step_.target_buffer);
    if (slot == nullptr) return move_block(to.data, form, sources, to.elements, false);
    const bool dead = (step_.flags & kTargetDead) != 0;
    const bool in_slot = dead && (sources.plain || Processor::kCombinesInSlots);
    if (in_slot) return move_block(slot, form, sources, to.elements, true);
    const std::uint64_t element_bytes = bytes_of(form);
    const std::uint64_t block = Processor::kBlockBytes / element_bytes;
    for (std::uint64_t done = 0; done < to.elements; done += block) {
      const std::uint64_t elements = to.elements - done < block ? to.elements - done : block;
      std::byte* place = dead ? to.data : to.data + done * element_bytes;
      move_block(place, form, sources, elements, false);
      processor_.fill(slot + done * element_bytes, place, elements * element_bytes);
    }
  }

  WREATH_HOST_DEVICE void move_block(std::byte* to, Form form, Sources& sources, std::uint64_t elements, bool in_slot) {
    if (!sources.plain) {
      processor_.combine(to, form, sources.data, sources.k, sources.operands, elements);
    } else if (in_slot) {
      processor_.fill(to, sources.data[0], elements * bytes_of(form));
    } else if (to != sources.data[0]) {
      processor_.copy(to, sources.data[0], elements * bytes_of(form));
    }
    move_on(sources, elements);
  }

  WREATH_HOST_DEVICE void move_on(Sources& sources, std::uint64_t elements) const {
    for (int i = 0; i < sources.k; ++i) {
      const bool own = i == sources.operands.own;
      sources.data[i] += elements * bytes_of(own ? sources.operands.own_form : sources.operands.messages);
    }
  }

  WREATH_HOST_DEVICE bool credit() const {
    for (std::uint32_t i = 0; i < step_.out_count; ++i) {
      if (!has_credit(out(i))) return false;
    }
    return true;
  }

  // Whether every receiver can read the message in `buffer` itself, so that no copy is staged.
  WREATH_HOST_DEVICE bool by_reference(Buffer buffer) const {
    if ((step_.flags & kStaged) != 0 || is_private(buffer) || step_.chunks > 1) return false;
    if (multiplied_when_sent(buffer)) return false;
    if (operation_.region[static_cast<int>(buffer)] != 0) return true;
    const std::uint64_t bytes = lane_.elements * bytes_of(form_of(buffer));
    const bool single_copy = operation_.single_copy_bytes > 0 && bytes >= operation_.single_copy_bytes;
    for (std::uint32_t i = 0; i < step_.out_count; ++i) {
      if (!out(i).by_reference && !(single_copy && out(i).single_copy)) return false;
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

  // Publishes one message to all targets: its address for pumps, `name` for peers that map it or read it there.
  WREATH_HOST_DEVICE Advance publish_all(const std::byte* data, std::uint64_t bytes, const MessageName& name) {
    for (std::uint32_t i = 0; i < step_.out_count; ++i) {
      SendFifo& fifo = out(i);
      SlotHeader& slot = next_slot(fifo);
      slot.epoch = operation_.epoch;
      slot.signature = outgoing_signature();
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
    const std::byte* slot = staging_slot(fifo, bytes);
    const auto offset = static_cast<std::uint64_t>(slot - fifo.staging);
    return publish_all(slot, bytes, {fifo.staging_region, fifo.staging_offset + offset, 0});
  }

  WREATH_HOST_DEVICE Advance send() {
    if (!credit()) return Advance::Blocked;
    const Side from = sent();
    if (!by_reference(from.buffer)) {
      const std::uint64_t bytes = lane_.elements * bytes_of(outgoing_form(from.buffer));
      stage_pieces(from, staging_slot(stager(), bytes));
      return publish_staged(bytes);
    }
    const Piece whole = piece(from, 0);
    const int index = static_cast<int>(from.buffer);
    lane_.referenced = true;
    const std::uint32_t region = operation_.region[index];
    if (region == 0) {
      return publish_all(whole.data, whole.bytes,
                         {kPeerAddress, reinterpret_cast<std::uint64_t>(whole.data), kSlotReference});
    }
    return publish_all(whole.data, whole.bytes,
                       {region, operation_.region_offset[index] + whole.offset, kSlotReference});
  }

  WREATH_HOST_DEVICE void stage_pieces(const Side& from, std::byte* slot) {
    const Form form = outgoing_form(from.buffer);
    for (std::uint32_t i = 0; i < step_.chunks; ++i) {
      const Piece data = piece(from, i);
      if (data.elements == 0) continue;
      if (multiplied_when_sent(from.buffer)) {
        const std::byte* input = data.data;
        processor_.combine(slot, form, &input, 1, Operands{Form::Data, -1, Form::Data}, data.elements);
      } else {
        processor_.fill(slot, data.data, data.bytes);
      }
      slot += data.elements * bytes_of(form);
    }
  }

  WREATH_HOST_DEVICE Advance local() {
    const bool finished = step_.source_buffer == Buffer::Output || step_.source_buffer == Buffer::Scratch;
    const Form from_form = form_of(step_.source_buffer);
    const Form to_form = form_of(step_.target_buffer);
    for (std::uint32_t i = 0; i < step_.chunks; ++i) {
      const Piece to = piece(target(), i);
      const Piece from = piece(source(), i);
      if (to.elements == 0) continue;
      const std::byte* pointers[2] = {to.data, from.data};
      if (step_.op == StepOp::Reduce) {
        processor_.combine(to.data, to_form, pointers, 2, Operands{to_form, 1, from_form}, to.elements);
      } else if (!plain(from_form, finished, to_form)) {
        processor_.combine(to.data, to_form, pointers + 1, 1, Operands{from_form, -1, from_form}, to.elements);
      } else if (to.data != from.data) {
        processor_.copy(to.data, from.data, to.bytes);
      }
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
