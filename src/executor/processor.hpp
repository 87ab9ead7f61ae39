// The contract of a Processor, which is a CPU or a block of a device, and the list of sources that it keeps.
// A Processor moves the bytes:
//   void combine(std::byte* target, Form target_form, const std::byte* const* sources, int k, Operands operands,
//                std::size_t elements)                                                      see Arithmetic
//   void copy(std::byte* target, const std::byte* source, std::size_t bytes)
//   void begin_slot(SendFifo& fifo, std::size_t bytes)   before a message of so many bytes is put into a slot,
//   void fill(std::byte* slot, const std::byte* source, std::size_t bytes)   which this does with parts of it
//   void end_slot()                   before it is published
//   kStreams          whether it has stream(), which copies past the caches: of OperationState::streams_output
//   kBlockBytes       where a target and a slot are written, they are in blocks of so many bytes, which stay near
//   kCombinesInSlots  a combination straight into a slot costs no more than filling it afterwards
//   kTraces           whether handwritten loops keep what they do, where there is a trace
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

#include <cstdint>

#include "kernels/kernels.hpp"

namespace wreath {

// Ends of FIFOs: OperationState::sources or targets [first .. + count).
struct FifoRange {
  std::uint32_t first;
  std::uint32_t count;
};

// Messages, and maybe memory of the rank's own, that become one target piece by piece: pointers move on.
template <typename Processor>
struct LaneSources : Processor::SourceList {
  WREATH_HOST_DEVICE explicit LaneSources(Processor& processor) : Processor::SourceList(processor) {}
  FifoRange from;
  int k;
  Operands operands;
  bool plain;   // one source, and only its bytes are wanted
  int fetched;  // messages that host code does not reach
  Form target_form;
  bool target_dead;  // nothing reads the target but the slot that is filled with it
  bool streams;      // the target is written past the caches
};

}  // namespace wreath
