// Lowering turns the lines that an algorithm wrote into the 32-byte steps that executors read.
#pragma once

#include "src/schedule/step.hpp"
#include "wreath/result.hpp"
#include "wreath/schedule.hpp"

namespace wreath {

// Returns the steps of rank `me`, on `data_lanes` copies of the schedule's lanes (strands). Copy d works on share d of
// every part, and its strand s is lane number d * strands + s. Neighbouring lines of one chunk are fused. Lines of more
// than kMaximumMessageParts chunks are cut. Sends from Scratch and Partial are staged. Targets that nobody reads are
// marked, and receives into places of Output that nothing touches before them. `in_place` says that Input and Output
// may be the same memory. InvalidArgument names lane and line of a fault. Faults of peers are no or repeated peers, and
// a message to self. Faults of chunks are a part out of range, and chunks that differ in number or buffer or are not
// neighbours. Faults of memory are a write to Input, a sum in Scratch, and a finished sum that is reduced. Faults of
// lanes are sends of one lane to several peers that differ in their peers, and two lanes that receive from one FIFO.
// More than 65,535 lanes or messages are refused, too. verify() finds peers beyond the job's ranks, and ends that do
// not match.
Result<Lowered> lower(const Schedule& schedule, Rank me, int data_lanes, bool in_place = true);

// Returns whether a step of this kind has a first part (all but Send).
constexpr bool has_first_part(StepOp op) { return op != StepOp::Send; }
// Returns whether a step of this kind ends in a send.
constexpr bool has_send(StepOp op) { return op == StepOp::Send || op >= StepOp::RecvSend; }
// Returns whether a step of this kind reads its source. A receive has only its message.
constexpr bool reads_source(StepOp op) { return op != StepOp::Recv && op != StepOp::RecvSend; }
// Returns the first part of a fused step, alone. Other kinds are returned unchanged.
constexpr StepOp first_part(StepOp op) {
  switch (op) {
    case StepOp::RecvSend: return StepOp::Recv;
    case StepOp::RecvReduceSend: return StepOp::RecvReduce;
    case StepOp::LoadReduceSend: return StepOp::LoadReduce;
    default: return op;
  }
}

}  // namespace wreath
