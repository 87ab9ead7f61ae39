// What a lane does with messages, whoever decides which and when: the part of the executor that steps (try_step.hpp)
// and loops written by hand (kernels/straight) share. Nothing here waits. The Processor moves the bytes:
//   void combine(std::byte* target, Form target_form, const std::byte* const* sources, int k, Operands operands,
//                std::size_t elements)                                                      see Arithmetic
//   void copy(std::byte* target, const std::byte* source, std::size_t bytes)
//   void begin_slot(SendFifo& fifo, std::size_t bytes)   before a message of so many bytes is put into a slot,
//   void fill(std::byte* slot, const std::byte* source, std::size_t bytes)   which this does with parts of it
//   void end_slot()                   before it is published
//   kStreams          whether it has stream(), which copies past the caches: of OperationState::streams_output
//   kBlockBytes       where a target and a slot are written, they are in blocks of so many bytes, which stay near
//   kCombinesInSlots  a combination straight into a slot costs no more than filling it afterwards
//   kTraces           whether loops written by hand keep what they do, where there is a trace
//   SourceList        made of the processor, which it may share: `data`, room for kMaximumFanIn + 1 pointers to sources
//   kKeepsSources     what is put there stays there while the lane waits
//   kPulledBytes      0: all messages are where they are read. Else, of memory at `pulled`: messages
//                     that are combined are read there first, in blocks of at most kPulledBlockBytes; and SourceList
//                     has `origins`, an Origin for each of `data`
//   std::byte* pulled
//   int pull(const ProcessMemory& process, std::byte* target, const std::byte* source, std::size_t bytes)   see
//   read_peer
//   int pull(std::uint64_t device, ...)   the same out of a device's memory
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.hpp"
#include "src/base/memory_order.hpp"
#include "src/base/planted_fault.hpp"
#include "src/executor/lane_messages.hpp"
#include "src/executor/state.hpp"
#include "src/fifo/access.hpp"
#include "wreath/fifo.hpp"

namespace wreath {

template <typename Processor>
class LaneWork : protected LaneMessages<Processor> {
  using Messages = LaneMessages<Processor>;

 public:
  using typename Messages::Ends;

  WREATH_HOST_DEVICE LaneWork(const OperationState& operation, LaneState& lane, Processor& processor)
      : Messages(operation, lane), processor_(processor) {}

 protected:
  using Messages::lane_;
  using Messages::operation_;
  using typename Messages::MessageName;
  using typename Messages::Sources;
  using typename Messages::Span;

  // One chunk's elements in this tile.
  struct Piece {
    std::byte* data;
    std::uint64_t offset;  // into its buffer, bytes
    std::uint64_t elements;
    std::uint64_t bytes;
  };

  WREATH_HOST_DEVICE std::uint64_t bytes_of(Form form) const { return operation_.geometry.bytes_of(form); }

  WREATH_HOST_DEVICE static bool is_private(Buffer buffer) {
    return buffer == Buffer::Scratch || buffer == Buffer::Partial;
  }

  // `range` of a buffer; in the lane's own ones at place `slot`.
  WREATH_HOST_DEVICE Piece piece_of(Buffer buffer, const ElementRange& range, std::uint32_t slot) const {
    const std::uint64_t element_bytes = bytes_of(form_of(buffer));
    const int index = static_cast<int>(buffer);
    std::uint64_t first = range.first;
    if (is_private(buffer)) {
      first = (std::uint64_t{lane_.index} * operation_.slots[index] + slot) * operation_.geometry.tile;
    }
    const std::uint64_t offset = first * element_bytes;
    return {operation_.buffers[index] + offset, offset, range.count, range.count * element_bytes};
  }

  WREATH_HOST_DEVICE bool multiplied_when_sent(Buffer buffer) const {
    return buffer == Buffer::Input && operation_.conversions.premultiplies;
  }
  WREATH_HOST_DEVICE Form outgoing_form(Buffer buffer) const {
    return multiplied_when_sent(buffer) ? Form::Partial : form_of(buffer);
  }
  // Whether one source is copied as it is. `finished`: it is a result, no input or sum.
  WREATH_HOST_DEVICE bool plain(Form from, bool finished, Form to) const {
    return (finished && to == Form::Data) || operation_.conversions.moves(from, to);
  }

  WREATH_HOST_DEVICE std::uint32_t incoming_signature(std::uint32_t target_part) const {
    return operation_.output_signatures == nullptr ? operation_.signature : operation_.output_signatures[target_part];
  }
  WREATH_HOST_DEVICE std::uint32_t outgoing_signature(Buffer buffer, std::uint32_t part) const {
    const bool by_part = operation_.input_signatures != nullptr && buffer == Buffer::Input;
    return by_part ? operation_.input_signatures[part] : operation_.signature;
  }

  // ---- taking ----

  // Lets a pump put the message where it would be copied.
  WREATH_HOST_DEVICE void post_landing(const Ends& from, const Piece& target) {
    RecvFifo& fifo = Messages::in(from, 0);
    if (fifo.landing == nullptr) return;
    fifo.landing->sequence = fifo.next;
    fifo.landing->bytes = static_cast<std::uint32_t>(target.bytes);
    fifo.landing->target = target.data;
  }

  // `to`, and `slot` if there is one, = sum or copy of the sources.
  WREATH_HOST_DEVICE Advance make(const Piece& to, Sources& sources, std::byte* slot) {
    if (sources.fetched > 0) return pull_and_move(to, sources, slot);
    move(to, sources, slot);
    return Advance::Advanced;
  }

  // ---- sending ----

  // Whether every receiver can read `bytes` of `buffer` itself, so that no copy is staged.
  WREATH_HOST_DEVICE bool by_reference(const Ends& to, Buffer buffer, std::uint64_t bytes) const {
    if (is_private(buffer) || multiplied_when_sent(buffer)) return false;
    const std::uint32_t region = operation_.region[static_cast<int>(buffer)];
    if (operation_.device == 0 && region != 0) return true;
    const bool large = operation_.single_copy_bytes > 0 && bytes >= operation_.single_copy_bytes;
    for (std::uint32_t i = 0; i < to.count; ++i) {
      const SendFifo& fifo = Messages::out(to, i);
      const bool there = operation_.device == 0 ? fifo.single_copy : fifo.same_process || maps(fifo, region);
      const bool local = fifo.by_reference && operation_.device == 0;
      if (!local && !(large && there)) return false;
    }
    return true;
  }

  // The target whose staging slot holds the one copy for all: one that peers map, if there is one.
  WREATH_HOST_DEVICE SendFifo& stager(const Ends& to) const {
    for (std::uint32_t i = 0; i < to.count; ++i) {
      if (!Messages::out(to, i).by_reference) return Messages::out(to, i);
    }
    return Messages::out(to, 0);
  }

  // Where the next message is put, until publish_staged().
  WREATH_HOST_DEVICE std::byte* begin_slot(const Ends& to, std::uint64_t bytes) const {
    SendFifo& fifo = stager(to);
    processor_.begin_slot(fifo, bytes);
    return fifo.staging + staging_place(fifo, bytes);
  }

  // `slot` = what is sent of a piece of `buffer`.
  WREATH_HOST_DEVICE void stage_piece(std::byte* slot, Buffer buffer, const Piece& piece) {
    if (!multiplied_when_sent(buffer)) return processor_.fill(slot, piece.data, piece.bytes);
    const std::byte* input = piece.data;
    processor_.combine(slot, Form::Partial, &input, 1, Operands{Form::Data, -1, Form::Data}, piece.elements);
  }

  WREATH_HOST_DEVICE void publish_staged(const Ends& to, std::uint32_t signature, std::uint64_t bytes) {
    processor_.end_slot();
    const SendFifo& fifo = stager(to);
    const std::uint64_t place = staging_place(fifo, bytes);
    Messages::publish_all(to, signature, {fifo.staging + place, bytes},
                          {fifo.staging_region, fifo.staging_offset + place, 0});
  }

  WREATH_HOST_DEVICE void publish_reference(const Ends& to, std::uint32_t signature, Buffer buffer,
                                            const Piece& piece) {
    const int index = static_cast<int>(buffer);
    const std::uint32_t region = operation_.region[index];
    MessageName name{region, operation_.region_offset[index] + piece.offset, kSlotReference};
    if (region == 0) {  // of a device: all are in this process
      name.region = kPeerAddress;
      name.offset = reinterpret_cast<std::uint64_t>(piece.data);
    }
    name.allocation = operation_.allocation[index];
    lane_.referenced = true;
    Messages::publish_all(to, signature, {piece.data, piece.bytes}, name);
  }

  Processor& processor_;

 private:
  static constexpr std::uint64_t kPulledElements = 64;  // blocks begin at lines where they are pulled

  // Whether the reader has mapped that region of a device's memory.
  WREATH_HOST_DEVICE static bool maps(const SendFifo& fifo, std::uint32_t region) {
    return region != 0 && (fifo.readable >> region & 1U) != 0;
  }

  // make() where messages lie in their senders' processes.
  WREATH_HOST_DEVICE Advance pull_and_move(const Piece& to, Sources& sources, std::byte* slot) {
    if constexpr (Processor::kPulledBytes > 0) {
      return sources.plain ? pull_whole(to, sources, slot) : pull_by_blocks(to, sources, slot);
    }
    return Advance::Advanced;
  }

  // One message is read into the target, or into the slot that is sent instead.
  WREATH_HOST_DEVICE Advance pull_whole(const Piece& to, Sources& sources, std::byte* slot) {
    const bool dead = slot != nullptr && sources.target_dead;
    if (!pull(sources, 0, dead ? slot : to.data, to.bytes)) return Advance::Failed;
    if (slot != nullptr && !dead) processor_.fill(slot, to.data, to.bytes);
    sources.data[0] += to.bytes;
    return Advance::Advanced;
  }

  // Messages are read to where they are combined.
  WREATH_HOST_DEVICE Advance pull_by_blocks(const Piece& to, Sources& sources, std::byte* slot) {
    const bool dead = slot != nullptr && sources.target_dead;
    const std::uint64_t element_bytes = bytes_of(sources.target_form);
    const std::uint64_t block = elements_pulled(sources);
    for (std::uint64_t done = 0; done < to.elements; done += block) {
      const std::uint64_t elements = to.elements - done < block ? to.elements - done : block;
      Sources near(processor_);
      if (!pull_block(sources, elements, near)) return Advance::Failed;
      const std::uint64_t offset = done * element_bytes;
      move({dead ? to.data : to.data + offset, to.offset + offset, elements, elements * element_bytes}, near,
           slot == nullptr ? nullptr : slot + offset);
    }
    return Advance::Advanced;
  }

  // Elements of a block of a message, all of which have room at `pulled`.
  WREATH_HOST_DEVICE std::uint64_t elements_pulled(const Sources& sources) const {
    const std::uint64_t share = Processor::kPulledBytes / static_cast<std::uint64_t>(sources.fetched);
    const std::uint64_t bytes = share < Processor::kPulledBlockBytes ? share : Processor::kPulledBlockBytes;
    return bytes / bytes_of(sources.operands.messages) / kPulledElements * kPulledElements;
  }

  // near = the next block of all sources, in this process; `sources` moves on. False: failed.
  WREATH_HOST_DEVICE bool pull_block(Sources& sources, std::uint64_t elements, Sources& near) {
    near.from = sources.from;
    near.k = sources.k;
    near.operands = sources.operands;
    near.plain = false;
    near.fetched = 0;
    near.target_form = sources.target_form;
    near.target_dead = sources.target_dead;
    near.streams = sources.streams;
    for (int i = 0; i < sources.k; ++i) near.data[i] = sources.data[i];
    const std::uint64_t bytes = elements * bytes_of(sources.operands.messages);
    const std::uint64_t stride = elements_pulled(sources) * bytes_of(sources.operands.messages);
    std::byte* place = processor_.pulled;
    for (std::uint32_t i = 0; i < sources.from.count; ++i) {
      const int at = Messages::place_of(static_cast<int>(i), sources.operands);
      if (!sources.origins[at].fetched) continue;
      if (!pull(sources, i, place, bytes)) return false;
      near.data[at] = place;
      place += stride;
    }
    move_on(sources, elements);
    return true;
  }

  // target = the next bytes of message i, which is fetched. False: failed.
  WREATH_HOST_DEVICE bool pull(const Sources& sources, std::uint32_t i, std::byte* target, std::uint64_t bytes) {
    const Ends& from = sources.from;
    const int at = Messages::place_of(static_cast<int>(i), sources.operands);
    const std::uint64_t device = sources.origins[at].device;
    lane_.fault_errno = device != 0 ? processor_.pull(device, target, sources.data[at], bytes)
                                    : processor_.pull(*Messages::in(from, i).process, target, sources.data[at], bytes);
    if (lane_.fault_errno == 0) return true;
    finish_reads();
    Messages::fail(Messages::torn(from, i) ? Fault::OwnerAborted : Fault::Unreadable, from, i);
    return false;
  }

  // Whether the target is one of the sources: its lines are near, having been read.
  WREATH_HOST_DEVICE static bool adds_to(const Piece& to, const Sources& sources) {
    return sources.operands.own >= 0 && sources.data[sources.operands.own] == to.data;
  }

  // One piece of target; with a slot block by block, so that the second store finds the block near. A target that
  // nothing else reads is left out, or only its first block is used.
  WREATH_HOST_DEVICE void move(const Piece& to, Sources& sources, std::byte* slot) {
    if (sources.streams && !adds_to(to, sources)) return move_past_caches(to, sources, slot);
    if (slot == nullptr) return move_block(to.data, sources, to.elements, false);
    const bool dead = sources.target_dead;
    const bool in_slot = dead && (sources.plain || Processor::kCombinesInSlots);
    if (in_slot) return move_block(slot, sources, to.elements, true);
    const std::uint64_t element_bytes = bytes_of(sources.target_form);
    const std::uint64_t block = Processor::kBlockBytes / element_bytes;
    for (std::uint64_t done = 0; done < to.elements; done += block) {
      const std::uint64_t elements = to.elements - done < block ? to.elements - done : block;
      std::byte* place = dead ? to.data : to.data + done * element_bytes;
      move_block(place, sources, elements, false);
      const std::uint64_t lost = planted_fault(1) && elements < block ? 1 : 0;
      processor_.fill(slot + done * element_bytes, place, (elements - lost) * element_bytes);
    }
  }

  // As move(); what is combined is combined near, block by block, and goes from there to the target and to the slot.
  WREATH_HOST_DEVICE void move_past_caches(const Piece& to, Sources& sources, std::byte* slot) {
    if constexpr (Processor::kStreams) {
      const std::uint64_t element_bytes = bytes_of(sources.target_form);
      alignas(64) std::byte near[Processor::kBlockBytes];
      const bool whole = sources.plain && slot == nullptr;
      const std::uint64_t block = whole ? to.elements : Processor::kBlockBytes / element_bytes;
      for (std::uint64_t done = 0; done < to.elements; done += block) {
        const std::uint64_t elements = to.elements - done < block ? to.elements - done : block;
        const std::uint64_t offset = done * element_bytes;
        const std::byte* made = sources.plain ? sources.data[0] : near;
        if (!sources.plain) {
          processor_.combine(near, sources.target_form, sources.data, sources.k, sources.operands, elements);
        }
        if (to.data + offset != made) processor_.stream(to.data + offset, made, elements * element_bytes);
        if (slot != nullptr) processor_.fill(slot + offset, made, elements * element_bytes);
        move_on(sources, elements);
      }
      processor_.end_stream();
    }
  }

  WREATH_HOST_DEVICE void move_block(std::byte* to, Sources& sources, std::uint64_t elements, bool in_slot) {
    const Form form = sources.target_form;
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
};

}  // namespace wreath
