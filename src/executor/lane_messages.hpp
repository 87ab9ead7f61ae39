// A lane's messages, whoever moves their data: looks for them, says where they lie, gives their slots back, and tells
// peers of new ones. The order of looks, fences and tells is here (src/base/memory_order.hpp). Of the Processor
// (lane_work.hpp) the constants and the list of sources are used.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.hpp"
#include "src/base/memory_order.hpp"
#include "src/base/planted_fault.hpp"
#include "src/executor/state.hpp"
#include "src/fifo/access.hpp"
#include "wreath/fifo.hpp"

namespace wreath {

template <typename Processor>
class LaneMessages {
 public:
  WREATH_HOST_DEVICE LaneMessages(const OperationState& operation, LaneState& lane)
      : operation_(operation), lane_(lane) {}

 protected:
  // Ends of FIFOs: OperationState::sources or targets [first .. + count).
  struct Ends {
    std::uint32_t first;
    std::uint32_t count;
  };

  // Messages, and maybe memory of the rank's own, that become one target piece by piece: pointers move on.
  struct Sources : Processor::SourceList {
    WREATH_HOST_DEVICE explicit Sources(Processor& processor) : Processor::SourceList(processor) {}
    Ends from;
    int k;
    Operands operands;
    bool plain;   // one source, and only its bytes are wanted
    int fetched;  // messages that host code does not reach
    Form target_form;
    bool target_dead;  // nothing reads the target but the slot that is filled with it
    bool streams;      // the target is written past the caches
  };

  // What messages have to be.
  struct Expected {
    std::uint32_t signature;
    std::uint64_t bytes;
  };

  struct MessageName {
    std::uint32_t region;
    std::uint64_t offset;
    std::uint32_t flags;
    std::uint64_t allocation = 0;  // of a device's memory, for peers of this process
  };

  struct Span {
    const std::byte* data;
    std::uint64_t bytes;
  };

  WREATH_HOST_DEVICE RecvFifo& in(const Ends& from, std::uint32_t i) const {
    return *operation_.sources[from.first + i];
  }
  WREATH_HOST_DEVICE SendFifo& out(const Ends& to, std::uint32_t i) const { return *operation_.targets[to.first + i]; }
  WREATH_HOST_DEVICE Advance fail(Fault fault, const Ends& from, std::uint32_t i) {
    lane_.fault = fault;
    lane_.fault_source = static_cast<std::uint16_t>(from.first + i);
    return Advance::Failed;
  }

  // ---- taking ----

  // Advanced: all messages of sources.from are here, and are what is expected; `sources` has where they lie, at the
  // places that sources.operands leave them. What a message costs if its header is far: a look, an acquire for all that
  // were found together, and one read of the header.
  WREATH_HOST_DEVICE Advance await(const Expected& expected, Sources& sources) {
    const std::uint32_t known = lane_.arrived;
    const std::uint32_t here = count_here(sources.from, known);
    if (here > known) acquire_looks();
    sources.fetched = 0;
    for (; lane_.arrived < here; ++lane_.arrived) {
      if (const Advance found = find(lane_.arrived, expected, sources); found != Advance::Advanced) return found;
    }
    if (here < sources.from.count) return Advance::Blocked;
    if (Processor::kKeepsSources && known > 0) return check_owners(sources.from);  // they may have given up meanwhile
    for (std::uint32_t i = 0; !Processor::kKeepsSources && i < known; ++i) {
      if (const Advance found = find(i, expected, sources); found != Advance::Advanced) return found;
    }
    return Advance::Advanced;
  }

  // After finish_reads(): the owner of referenced memory may have given up and changed it while it was read.
  WREATH_HOST_DEVICE bool torn(const Ends& from, std::uint32_t i) const {
    const RecvFifo& fifo = in(from, i);
    return (load_far(awaited_slot(fifo)).flags & kSlotReference) != 0 && gave_up(fifo);
  }

  // After the last read of messages: gives their slots back.
  WREATH_HOST_DEVICE Advance consume_all(const Ends& from) {
    finish_reads();
    if (const Advance owned = check_owners(from); owned != Advance::Advanced) return owned;
    lane_.reads_references = false;
    for (std::uint32_t i = 0; i < from.count; ++i) give_back(in(from, i));
    return Advance::Advanced;
  }

  // ---- sending ----

  // Whether all targets have room for a message. What was found is known from then on, also where another has none.
  WREATH_HOST_DEVICE bool credit(const Ends& to) const {
    bool all = true;
    bool found = false;
    for (std::uint32_t i = 0; all && i < to.count; ++i) {
      SendFifo& fifo = out(to, i);
      if (fifo.credits > 0) continue;
      all = look_for_credit(fifo);
      found = found || all;
    }
    if (found) acquire_looks();
    return all;
  }

  // Publishes one message to all targets, which are different ones: its address for pumps, `name` for peers that map it
  // or read it there.
  WREATH_HOST_DEVICE void publish_all(const Ends& to, std::uint32_t signature, const Span& message,
                                      const MessageName& name) {
    for (std::uint32_t i = 0; i < to.count; ++i) {
      SendFifo& fifo = out(to, i);
      SlotHeader& slot = next_slot(fifo);
      slot.epoch = operation_.epoch;
      slot.lane = fifo.lane;
      slot.signature = signature;
      slot.bytes = static_cast<std::uint32_t>(message.bytes);
      slot.flags = fifo.by_reference ? 0 : name.flags;
      slot.region = fifo.by_reference ? kLocalAddress : name.region;
      slot.offset = fifo.by_reference ? reinterpret_cast<std::uint64_t>(message.data) : name.offset;
      if (operation_.device != 0 && fifo.same_process && name.flags == kSlotReference) {
        slot.region = kDeviceAddress;
        slot.offset = reinterpret_cast<std::uint64_t>(message.data);
        set_allocation(slot, {operation_.device, name.allocation});
      }
    }
    if (!planted_fault(3)) finish_writes();
    for (std::uint32_t i = 0; i < to.count; ++i) hand_over(out(to, i));
    lane_.sent_bytes += to.count * message.bytes;
  }

  // Where message i is among the sources.
  WREATH_HOST_DEVICE static int place_of(int i, const Operands& operands) {
    return operands.own >= 0 && i >= operands.own ? i + 1 : i;
  }

  const OperationState& operation_;
  LaneState& lane_;

 private:
  static constexpr std::uint32_t kLooksAtOnce = Processor::kKeepsSources ? 4 : 1;

  // Of the first messages how many are here, `known` of them for sure.
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
  // Of the messages from `first` on, kLooksAtOnce at most: all looks are on their way before one is answered.
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
  WREATH_HOST_DEVICE Advance find(std::uint32_t i, const Expected& expected, Sources& sources) {
    RecvFifo& fifo = in(sources.from, i);
    const SlotHeader& slot = awaited_slot(fifo);
    const SlotHeader header = load_far(slot);
    const bool gone = gave_up(fifo);
    if (!belongs(header, fifo) || header.signature != expected.signature)
      return fail(Fault::Signature, sources.from, i);
    if (header.bytes != expected.bytes) return fail(Fault::Bytes, sources.from, i);
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
    if constexpr (Processor::kPulledBytes > 0) sources.origins[place] = {fetched, located.device};
    sources.fetched += fetched ? 1 : 0;
    lane_.reads_references = lane_.reads_references || reference;
    return Advance::Advanced;
  }

  // Whether the header is one of this communicator, and of this lane.
  WREATH_HOST_DEVICE bool belongs(const SlotHeader& header, const RecvFifo& fifo) const {
    return header.epoch == operation_.epoch && header.lane == fifo.lane;
  }

  // Whether what messages refer to is still what was sent. Flags are read again only where an owner has given up.
  WREATH_HOST_DEVICE Advance check_owners(const Ends& from) {
    if (!lane_.reads_references) return Advance::Advanced;
    bool any = false;
    for (std::uint32_t i = 0; i < from.count; ++i) any |= gave_up(in(from, i));
    for (std::uint32_t i = 0; any && i < from.count; ++i) {
      if (torn(from, i)) return fail(Fault::OwnerAborted, from, i);
    }
    return Advance::Advanced;
  }
};

}  // namespace wreath
