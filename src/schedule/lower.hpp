// Lowering: from the lines an algorithm wrote to the 32-byte steps executors read.
#pragma once

#include "src/schedule/step.hpp"
#include "wreath/result.hpp"
#include "wreath/schedule.hpp"

namespace wreath {

// What rank `me` runs, on `data_lanes` copies of the schedule's lanes (strands): copy d works on share d
// of every part, and its strand s is lane number d * strands + s. Neighbouring lines of one chunk are fused, lines of
// more than kMaximumMessageParts chunks are cut, sends from Scratch and Partial are staged, and targets that nobody
// reads are marked. InvalidArgument names lane and line of what cannot be run: no or repeated peers, a message to
// self, a part out of range, chunks that differ in number or buffer or are not neighbours, a write to Input, a sum
// in Scratch, a finished sum that is reduced, sends of one lane to several peers that differ in their peers, two lanes
// that receive from one FIFO, more than 65,535 lanes or messages. Peers beyond the job's ranks and ends that do not
// match are found by verify().
Result<Lowered> lower(const Schedule& schedule, Rank me, int data_lanes);

// Whether a step of this kind has a first part (all but Send), and ends in a send.
constexpr bool has_first_part(StepOp op) { return op != StepOp::Send; }
constexpr bool has_send(StepOp op) { return op == StepOp::Send || op >= StepOp::RecvSend; }
// Whether it reads its source (a receive has only its message).
constexpr bool reads_source(StepOp op) { return op != StepOp::Recv && op != StepOp::RecvSend; }
// The first part of a fused step, alone; other kinds are themselves.
constexpr StepOp first_part(StepOp op) {
  switch (op) {
    case StepOp::RecvSend: return StepOp::Recv;
    case StepOp::RecvReduceSend: return StepOp::RecvReduce;
    case StepOp::LoadReduceSend: return StepOp::LoadReduce;
    default: return op;
  }
}

}  // namespace wreath
