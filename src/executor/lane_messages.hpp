// LaneMessages finds a lane's messages, makes targets of them, gives their slots back, and tells peers of new ones.
// Steps (try_step.hpp) or handwritten loops decide which, and when. The order of looks, fences and tells is here
// (src/base/memory_order.hpp). Nothing here waits. A Processor (processor.hpp) moves the bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.hpp"
#include "src/base/memory_order.hpp"
#include "src/base/planted_fault.hpp"
#include "src/executor/processor.hpp"
#include "src/executor/state.hpp"
#include "src/fifo/access.hpp"
#include "wreath/fifo.hpp"

namespace wreath {

// Where a message is, for peers that map it or read it there.
struct MessageName {
  std::uint32_t region;
  std::uint64_t offset;
  std::uint32_t flags;
  Buffer buffer;  // of a kSlotReference
  // The bytes behind the message that peers may read ahead of their messages.
  std::uint64_t rest = 0;
};

// Says when the receiver of a FIFO reads the messages of a buffer where they are. `region` names the buffer; 0 is none.
enum class InPlace : std::uint8_t { Never, Large, Always };
WREATH_HOST_DEVICE inline InPlace in_place(const SendFifo& fifo, std::uint32_t region) {
  if (region != 0 || fifo.by_reference) return InPlace::Always;
  return fifo.single_copy ? InPlace::Large : InPlace::Never;
}

// Writes into the header where the message at `data` is. Pumps get its address.
WREATH_HOST_DEVICE inline void name_message(SlotHeader& slot, const SendFifo& fifo, const OperationState& /*operation*/,
                                            const std::byte* data, const MessageName& name) {
  slot.flags = name.flags & (fifo.by_reference ? kSlotLands : kSlotReference);
  slot.region = fifo.by_reference ? kLocalAddress : name.region;
  slot.offset = fifo.by_reference ? reinterpret_cast<std::uint64_t>(data) : name.offset;
  if (!fifo.by_reference && name.rest > 0) set_rest(slot, name.rest);
}

template <typename Processor>
class LaneMessages {
  using Send = typename Processor::Send;
  using Recv = typename Processor::Recv;

 public:
  WREATH_HOST_DEVICE LaneMessages(const OperationState& operation, LaneState& lane, Processor& processor)
      : operation_(operation), lane_(lane), processor_(processor) {}

  using Ends = FifoRange;
  using Sources = LaneSources<Processor>;

 protected:
  WREATH_HOST_DEVICE Recv& in(const Ends& from, std::uint32_t i) const {
    return static_cast<Recv&>(*operation_.sources[from.first + i]);
  }
  WREATH_HOST_DEVICE Send& out(const Ends& to, std::uint32_t i) const {
    return static_cast<Send&>(*operation_.targets[to.first + i]);
  }
  WREATH_HOST_DEVICE Advance fail(Fault fault, const Ends& from, std::uint32_t i) {
    lane_.fault = fault;
    lane_.fault_source = static_cast<std::uint16_t>(from.first + i);
    return Advance::Failed;
  }

  // The elements of one chunk in this tile.
  struct Piece {
    std::byte* data;
    std::uint64_t offset;  // into its buffer, in bytes
    std::uint64_t elements;
    std::uint64_t bytes;
  };

  WREATH_HOST_DEVICE std::uint64_t bytes_of(Form form) const { return operation_.geometry.bytes_of(form); }

  WREATH_HOST_DEVICE static bool is_private(Buffer buffer) {
    return buffer == Buffer::Scratch || buffer == Buffer::Partial;
  }

  // Returns the piece for `range` of a buffer. In the lane's own buffers it is at place `slot`.
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
    return buffer == Buffer::Input && operation_.premultiplies;
  }
  WREATH_HOST_DEVICE Form outgoing_form(Buffer buffer) const {
    return multiplied_when_sent(buffer) ? Form::Partial : form_of(buffer);
  }
  // Returns whether one source is copied unchanged. `finished` says that the source is a result, not an input or a sum.
  WREATH_HOST_DEVICE bool plain(Form from, bool finished, Form to) const {
    return (finished && to == Form::Data) || operation_.moves(from, to);
  }

  WREATH_HOST_DEVICE std::uint32_t incoming_signature(std::uint32_t target_part) const {
    return operation_.output_signatures == nullptr ? operation_.signature : operation_.output_signatures[target_part];
  }
  WREATH_HOST_DEVICE std::uint32_t outgoing_signature(Buffer buffer, std::uint32_t part) const {
    const bool by_part = operation_.input_signatures != nullptr && buffer == Buffer::Input;
    return by_part ? operation_.input_signatures[part] : operation_.signature;
  }

  // ---- taking ----

  // Returns Advanced where all messages of sources.from are here, and have this signature and size. `sources` then has
  // where they lie, at the places that sources.operands leave them. A message whose header is far costs a look and one
  // read of the header. All messages that were found together cost one acquire.
  WREATH_HOST_DEVICE Advance await(std::uint32_t signature, std::uint64_t bytes, Sources& sources) {
    const std::uint32_t known = lane_.arrived;
    const std::uint32_t here = count_here(sources.from, known);
    if (here > known) acquire_looks();
    sources.fetched = 0;
    for (; lane_.arrived < here; ++lane_.arrived) {
      if (const Advance found = find(lane_.arrived, signature, bytes, sources); found != Advance::Advanced)
        return found;
    }
    if (here < sources.from.count) return Advance::Blocked;
    // The owners may have given up since the last look.
    if (Processor::kKeepsSources && known > 0) return check_owners(sources.from);
    for (std::uint32_t i = 0; !Processor::kKeepsSources && i < known; ++i) {
      if (const Advance found = find(i, signature, bytes, sources); found != Advance::Advanced) return found;
    }
    return Advance::Advanced;
  }

  // Returns whether the owner of referenced memory has given up, and may have changed it while it was read. It is
  // called after finish_reads().
  WREATH_HOST_DEVICE bool torn(const Ends& from, std::uint32_t i) const {
    const RecvFifo& fifo = in(from, i);
    return (load_far(awaited_slot(fifo)).flags & kSlotReference) != 0 && gave_up(fifo);
  }

  // Gives the slots of messages back, after the last read of them.
  WREATH_HOST_DEVICE Advance consume_all(const Ends& from) {
    finish_reads();
    if (const Advance owned = check_owners(from); owned != Advance::Advanced) return owned;
    lane_.reads_references = false;
    for (std::uint32_t i = 0; i < from.count; ++i) {
      hold_place(in(from, i));
      give_back(in(from, i));
    }
    return Advance::Advanced;
  }

  // Lets a pump put the message where it would be copied.
  WREATH_HOST_DEVICE void post_landing(const Ends& from, const Piece& target) {
    RecvFifo& fifo = in(from, 0);
    if (fifo.landing == nullptr || fifo.landings > 1) return;
    fifo.landing->sequence = fifo.next;
    fifo.landing->bytes = static_cast<std::uint32_t>(target.bytes);
    fifo.landing->target = target.data;
  }

  // Makes `to`, and `slot` if there is one, as the sum or copy of the sources.
  WREATH_HOST_DEVICE Advance make(const Piece& to, Sources& sources, std::byte* slot) {
    if (sources.fetched > 0) return pull_and_move(to, sources, slot);
    move(to, sources, slot);
    return Advance::Advanced;
  }

  // ---- sending ----

  // Returns whether all targets have room for a message. Room that was found stays known, also where others have none.
  WREATH_HOST_DEVICE bool credit(const Ends& to, Room room) const {
    bool all = true;
    bool found = false;
    for (std::uint32_t i = 0; all && i < to.count; ++i) {
      SendFifo& fifo = out(to, i);
      if (fifo.credits >= credits_for(fifo, room)) continue;
      all = look_for_credit(fifo, room);
      found = found || all;
    }
    if (found) acquire_looks();
    return all;
  }

  // Returns the room for a message. Lanes in turns stay near their reader: who has named all data would fall asleep.
  WREATH_HOST_DEVICE Room room_of(bool referenced) const {
    return referenced && operation_.order == LaneOrder::Lowest ? Room::Header : Room::Staging;
  }

  // Publishes one message to all targets, which are different ones.
  WREATH_HOST_DEVICE void publish_all(const Ends& to, std::uint32_t signature, const std::byte* data,
                                      std::uint64_t bytes, const MessageName& name) {
    for (std::uint32_t i = 0; i < to.count; ++i) {
      const Send& fifo = out(to, i);
      SlotHeader& slot = next_slot(fifo);
      slot.epoch = operation_.epoch;
      slot.lane = fifo.lane;
      slot.signature = signature;
      slot.bytes = static_cast<std::uint32_t>(bytes);
      name_message(slot, fifo, operation_, data, name);
    }
    if (!planted_fault(3)) finish_writes();
    for (std::uint32_t i = 0; i < to.count; ++i) hand_over(out(to, i));
    lane_.sent_bytes += to.count * bytes;
  }

  // Returns the place of message i among the sources.
  WREATH_HOST_DEVICE static int place_of(int i, const Operands& operands) {
    return operands.own >= 0 && i >= operands.own ? i + 1 : i;
  }

  // Returns whether every receiver can read `bytes` bytes of `buffer` itself, so that no copy is staged.
  WREATH_HOST_DEVICE bool by_reference(const Ends& to, Buffer buffer, std::uint64_t bytes) const {
    if (is_private(buffer) || multiplied_when_sent(buffer)) return false;
    const std::uint32_t region = operation_.region[static_cast<int>(buffer)];
    const bool large = operation_.single_copy_bytes > 0 && bytes >= operation_.single_copy_bytes;
    for (std::uint32_t i = 0; i < to.count; ++i) {
      const InPlace when = in_place(out(to, i), region);
      if (when == InPlace::Never || (when == InPlace::Large && !large)) return false;
    }
    return true;
  }

  // Returns the target whose staging slot holds the one copy for all. It is one that peers map, if there is one.
  WREATH_HOST_DEVICE SendFifo& stager(const Ends& to) const {
    for (std::uint32_t i = 0; i < to.count; ++i) {
      if (!out(to, i).by_reference) return out(to, i);
    }
    return out(to, 0);
  }

  // Returns the place where the next message is put, until publish_staged().
  WREATH_HOST_DEVICE std::byte* begin_slot(const Ends& to, std::uint64_t bytes) const {
    return processor_.begin_slot(stager(to), bytes);
  }

  // Puts what is sent of a piece of `buffer` into `slot`.
  WREATH_HOST_DEVICE void stage_piece(std::byte* slot, Buffer buffer, const Piece& piece) {
    if (!multiplied_when_sent(buffer)) return processor_.fill(slot, piece.data, piece.bytes);
    const std::byte* input = piece.data;
    processor_.combine(slot, Form::Partial, &input, 1, Operands{Form::Data, -1, Form::Data}, piece.elements);
  }

  // Publishes the message of so many bytes in `slot`, which begin_slot() returned.
  WREATH_HOST_DEVICE void publish_staged(const Ends& to, std::uint32_t signature, const std::byte* slot,
                                         std::uint64_t bytes) {
    processor_.end_slot();
    const MessagePlace place = name_place(stager(to), slot, bytes);
    publish_all(to, signature, slot, bytes, {place.region, place.offset, 0, {}});
  }

  // Names the message. `rest` bytes behind it are its lane's next messages, and will not change either.
  WREATH_HOST_DEVICE void publish_reference(const Ends& to, std::uint32_t signature, Buffer buffer, const Piece& piece,
                                            std::uint64_t rest = 0) {
    const int index = static_cast<int>(buffer);
    const std::uint32_t region = operation_.region[index];
    const std::uint32_t lands = operation_.lands ? kSlotLands : 0;
    MessageName name{region, operation_.region_offset[index] + piece.offset, kSlotReference | lands, buffer};
    // Peers read at the address where there is no region.
    if (region == 0) {
      name.region = kPeerAddress;
      name.offset = reinterpret_cast<std::uint64_t>(piece.data);
      name.rest = operation_.device == 0 ? rest : 0;
    }
    lane_.referenced = true;
    publish_all(to, signature, piece.data, piece.bytes, name);
  }

  const OperationState& operation_;
  LaneState& lane_;
  Processor& processor_;

 private:
  static constexpr std::uint32_t kLooksAtOnce = Processor::kKeepsSources ? 4 : 1;

  // Returns how many of the first messages are here. `known` of them are here for sure.
  WREATH_HOST_DEVICE std::uint32_t count_here(const Ends& from, std::uint32_t known) const {
    std::uint32_t here = known;
    while (here < from.count) {
      const std::uint32_t left = from.count - here;
      const std::uint32_t more = left == 1 ? (is_here(in(from, here)) ? 1 : 0) : count_next(from, here);
      here += more;
      if (more < kLooksAtOnce) break;
    }
    return here;
  }
  // Returns how many messages from `first` on are here, kLooksAtOnce at most. All looks begin before one is answered.
  WREATH_HOST_DEVICE std::uint32_t count_next(const Ends& from, std::uint32_t first) const {
    const std::uint32_t last = from.count - 1;
    bool looks[kLooksAtOnce];
    WREATH_UNROLL
    for (std::uint32_t i = 0; i < kLooksAtOnce; ++i) {
      looks[i] = is_here(in(from, first + i < last ? first + i : last)) && first + i <= last;
    }
    std::uint32_t found = 0;
    while (found < kLooksAtOnce && looks[found]) ++found;
    return found;
  }

  // Checks that message i belongs to this call, and finds its data.
  WREATH_HOST_DEVICE Advance find(std::uint32_t i, std::uint32_t signature, std::uint64_t bytes, Sources& sources) {
    Recv& fifo = in(sources.from, i);
    const SlotHeader& slot = awaited_slot(fifo);
    const SlotHeader header = load_far(slot);
    const bool gone = gave_up(fifo);
    if (!belongs(header, fifo) || header.signature != signature) return fail(Fault::Signature, sources.from, i);
    if (header.bytes != bytes) return fail(Fault::Bytes, sources.from, i);
    const Located located = locate(fifo, header, slot.data);
    const bool fetched = located.state == Locating::Fetched;
    if (located.state == Locating::Invalid || (fetched && Processor::kPulledBytes == 0)) {
      return fail(Fault::Region, sources.from, i);
    }
    const bool reference = (header.flags & kSlotReference) != 0;
    // Memory of a device that its owner has freed must not even be looked at.
    if (located.device != 0 && reference && gone) return fail(Fault::OwnerAborted, sources.from, i);
    if (located.state == Locating::Unmapped) return Advance::Blocked;
    const int place = place_of(static_cast<int>(i), sources.operands);
    sources.data[place] = located.data;
    if constexpr (Processor::kPulledBytes > 0) sources.origins[place] = fetched ? located.device : kReadInPlace;
    sources.fetched += fetched ? 1 : 0;
    sources.rest = rest_of(header);
    lane_.reads_references = lane_.reads_references || reference;
    return Advance::Advanced;
  }

  // Returns whether the header is one of this communicator, and of this lane.
  WREATH_HOST_DEVICE bool belongs(const SlotHeader& header, const RecvFifo& fifo) const {
    return header.epoch == operation_.epoch && header.lane == fifo.lane;
  }

  // Checks that referenced memory still holds what was sent. Flags are read again only where an owner has given up.
  WREATH_HOST_DEVICE Advance check_owners(const Ends& from) {
    if (!lane_.reads_references) return Advance::Advanced;
    bool any = false;
    for (std::uint32_t i = 0; i < from.count; ++i) any |= gave_up(in(from, i));
    for (std::uint32_t i = 0; any && i < from.count; ++i) {
      if (torn(from, i)) return fail(Fault::OwnerAborted, from, i);
    }
    return Advance::Advanced;
  }
  // Blocks begin at whole lines where they are pulled.
  static constexpr std::uint64_t kPulledElements = 64;

  // Does the same as make(), where messages lie in their senders' processes.
  WREATH_HOST_DEVICE Advance pull_and_move(const Piece& to, Sources& sources, std::byte* slot) {
    if constexpr (Processor::kPulledBytes > 0) {
      return sources.plain ? pull_whole(to, sources, slot) : pull_by_blocks(to, sources, slot);
    }
    return Advance::Advanced;
  }

  // Reads one message into the target, or into the slot that is sent instead. Where nothing else is done with messages,
  // it reads those behind this one, too: the kernel takes 4 to 14 % longer for the same bytes in pieces (0007).
  WREATH_HOST_DEVICE Advance pull_whole(const Piece& to, Sources& sources, std::byte* slot) {
    const bool dead = slot != nullptr && sources.target_dead;
    ReadAhead& ahead = processor_.read_ahead[lane_.step];
    if (ahead.source == sources.data[0] && ahead.target == to.data && ahead.bytes >= to.bytes) {
      ahead = {ahead.source + to.bytes, ahead.target + to.bytes, ahead.bytes - to.bytes};
    } else {
      const std::uint64_t rest = sources.rest < sources.target_rest ? sources.rest : sources.target_rest;
      if (!pull(sources, 0, dead ? slot : to.data, to.bytes + rest)) return Advance::Failed;
      ahead = {sources.data[0] + to.bytes, to.data + to.bytes, rest};
    }
    if (slot != nullptr && !dead) processor_.fill(slot, to.data, to.bytes);
    sources.data[0] += to.bytes;
    return Advance::Advanced;
  }

  // Reads messages to the places where they are combined.
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

  // Returns the elements of a message's block. The blocks of all messages have room at `pulled`.
  WREATH_HOST_DEVICE std::uint64_t elements_pulled(const Sources& sources) const {
    const std::uint64_t share = Processor::kPulledBytes / static_cast<std::uint64_t>(sources.fetched);
    const std::uint64_t bytes = share < Processor::kPulledBlockBytes ? share : Processor::kPulledBlockBytes;
    return bytes / bytes_of(sources.operands.messages) / kPulledElements * kPulledElements;
  }

  // Makes `near` the next block of all sources, in this process, and moves `sources` on. Returns false after a failure.
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
      const int at = place_of(static_cast<int>(i), sources.operands);
      if (sources.origins[at] == kReadInPlace) continue;
      if (!pull(sources, i, place, bytes)) return false;
      near.data[at] = place;
      place += stride;
    }
    move_on(sources, elements);
    return true;
  }

  // Reads the next bytes of message i, which is fetched, into `target`. Returns false after a failure.
  WREATH_HOST_DEVICE bool pull(const Sources& sources, std::uint32_t i, std::byte* target, std::uint64_t bytes) {
    const Ends& from = sources.from;
    const int at = place_of(static_cast<int>(i), sources.operands);
    const std::uint64_t device = sources.origins[at];
    lane_.fault_errno = device != 0 ? processor_.pull(device, target, sources.data[at], bytes)
                                    : processor_.pull(*in(from, i).process, target, sources.data[at], bytes);
    if (lane_.fault_errno == 0) return true;
    finish_reads();
    fail(torn(from, i) ? Fault::OwnerAborted : Fault::Unreadable, from, i);
    return false;
  }

  // Returns whether the target is one of the sources. Its lines are near then, because they have been read.
  WREATH_HOST_DEVICE static bool adds_to(const Piece& to, const Sources& sources) {
    return sources.operands.own >= 0 && sources.data[sources.operands.own] == to.data;
  }

  // Makes one piece of the target. With a slot it works block by block, so that the second store finds the block near.
  // A target that nothing else reads is left out, or only its first block is used.
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

  // Does the same as move(), past the caches. Sums are made near, block by block, and go to the target and to the slot.
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
