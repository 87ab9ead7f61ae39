// A Processor is a CPU or a block of a device. This file has its contract, and the list of sources that it keeps.
// A Processor moves the bytes:
//   void combine(std::byte* target, Form target_form, const std::byte* const* sources, int k, Operands operands,
//                std::size_t elements)
//       Combines sources as Arithmetic::combine does.
//   void copy(std::byte* target, const std::byte* source, std::size_t bytes)
//   std::size_t begin_slot(SendFifo& fifo, std::size_t bytes)
//       Prepares for a message of so many bytes that is put into a slot. Returns its place in the staging memory.
//   void fill(std::byte* slot, const std::byte* source, std::size_t bytes)
//       Puts a part of that message into the slot.
//   void end_slot()
//       Ends the slot, before its message is published.
//   Send, Recv
//       Are the ends of FIFOs that it uses: SendFifo and RecvFifo, or what is derived from them. OperationState points
//       to such. in_place(), name_message() and locate() are overloaded for them.
//   kStreams
//       Says whether there is stream(), which copies past the caches (see OperationState::streamed).
//   kBlockBytes
//       Gives the size of the blocks in which both a target and a slot are written, so that each block stays near.
//   kCombinesInSlots
//       Says whether a combination straight into a slot costs no more than filling the slot afterwards.
//   kLands
//       Says whether messages may land where steps would copy them (OperationState::lands).
//   kTraces
//       Says whether handwritten loops keep what they do, where there is a trace.
//   SourceList
//       Is made of the processor, which it may share. `data` has room for kMaximumFanIn + 1 pointers to sources.
//   kKeepsSources
//       Says whether the pointers in `data` stay there while the lane waits.
//   kPulledBytes
//       Is 0 where all messages can be read where they are. Otherwise it is the size of the memory at `pulled`.
//       Messages that are combined are read there first, in blocks of at most kPulledBlockBytes. SourceList then has
//       `origins`: Located::device, or kReadInPlace, for each entry of `data`.
//   std::byte* pulled
//   ReadAhead* read_ahead
//       Has an entry for each step of the plan. It is not used where kPulledBytes is 0.
//   int pull(const ProcessMemory& process, std::byte* target, const std::byte* source, std::size_t bytes)
//       Does the same as read_peer.
//   int pull(std::uint64_t device, ...)
//       Does the same out of a device's memory.
#pragma once

#include <cstdint>

#include "kernels/kernels.hpp"

namespace wreath {

// A range of ends of FIFOs: OperationState::sources or targets [first .. + count).
struct FifoRange {
  std::uint32_t first;
  std::uint32_t count;
};

// Says which bytes of a step's next tiles were read before their messages came: where the next one lies at the sender,
// where it was put, and how many there are.
struct ReadAhead {
  const std::byte* source = nullptr;
  std::byte* target = nullptr;
  std::uint64_t bytes = 0;
};

// The messages, and maybe memory of the rank's own, that become one target piece by piece. The pointers move on with
// each piece.
template <typename Processor>
struct LaneSources : Processor::SourceList {
  WREATH_HOST_DEVICE explicit LaneSources(Processor& processor) : Processor::SourceList(processor) {}
  FifoRange from;
  int k;
  Operands operands;
  // There is one source, and only its bytes are wanted.
  bool plain;
  // The number of messages that must be fetched, because host code does not reach them.
  int fetched;
  Form target_form;
  // The slot that is filled with the target is its only reader.
  bool target_dead;
  // The target is written past the caches.
  bool streams;
  // The bytes behind the last message that its sender lets be read ahead of their messages, and the bytes behind the
  // target that may be filled so.
  std::uint64_t rest = 0;
  std::uint64_t target_rest = 0;
};

}  // namespace wreath
