// The executor's shared unit: try_step advances one lane by one tile of one step, and never waits.
//
// A host scheduler calls it round-robin over lanes, and a CUDA block calls it in a loop. try_step decides what to do
// and when. LaneMessages does it, by means of the Processor.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/memory_order.hpp"
#include "src/base/planted_fault.hpp"
#include "src/executor/lane_messages.hpp"
#include "src/executor/state.hpp"
#include "src/schedule/geometry.hpp"
#include "src/schedule/step.hpp"

namespace wreath {

template <typename Processor>
class StepRunner : private LaneMessages<Processor> {
 public:
  WREATH_HOST_DEVICE StepRunner(const OperationState& operation, LaneState& lane, Processor& processor,
                                const Step& step)
      : Work(operation, lane, processor), step_(step) {}
  WREATH_HOST_DEVICE StepRunner(const OperationState& operation, LaneState& lane, Processor& processor)
      : StepRunner(operation, lane, processor, operation.steps[lane.step]) {}

  // Returns the elements of the present tile of the step.
  WREATH_HOST_DEVICE std::uint64_t elements() const { return lane_.elements == kNotBegun ? count() : lane_.elements; }

  // Posts the places of the next messages of the lane's FIFOs, as far as the FIFOs take them. Of the lane it reads and
  // changes only how far places are posted.
  WREATH_HOST_DEVICE void post_places() {
    if (lane_.posted_step == kNonePosted) begin_to_post();
    while (lane_.posted_step < lane_.end && post_next()) {
    }
  }

  WREATH_HOST_DEVICE Advance run() {
    lane_.elements = elements();
    if (lane_.elements == 0) return operation_.step_major ? skip_step() : next_step();
    if (step_.in_count > 0 && !lane_.received) return receive();
    if (step_.op == StepOp::Copy || step_.op == StepOp::Reduce) return local();
    return send();
  }

 private:
  using Work = LaneMessages<Processor>;
  using typename Work::Ends;
  using typename Work::Piece;
  using typename Work::Sources;
  using Work::bytes_of;
  using Work::in;
  using Work::lane_;
  using Work::operation_;
  using Work::plain;
  using Work::processor_;

  // The chunks that a step reads or writes.
  struct Side {
    Buffer buffer;
    std::uint32_t part;
    std::uint32_t slot;
  };

  WREATH_HOST_DEVICE static Side source_of(const Step& step) {
    return {step.source_buffer, step.source_part, step.source_slot};
  }
  WREATH_HOST_DEVICE static Side target_of(const Step& step) {
    return {step.target_buffer, step.target_part, step.target_slot};
  }
  WREATH_HOST_DEVICE static Side sent_of(const Step& step) {
    return step.op == StepOp::Send ? source_of(step) : target_of(step);
  }
  WREATH_HOST_DEVICE Side source() const { return source_of(step_); }
  WREATH_HOST_DEVICE Side target() const { return target_of(step_); }
  WREATH_HOST_DEVICE Side sent() const { return sent_of(step_); }
  WREATH_HOST_DEVICE Ends from() const { return {step_.in_first, step_.in_count}; }
  WREATH_HOST_DEVICE Ends to() const { return {step_.out_first, step_.out_count}; }
  WREATH_HOST_DEVICE bool sends() const { return step_.out_count > 0; }
  WREATH_HOST_DEVICE bool streams() const {
    const bool own = step_.op == StepOp::Copy && step_.source_buffer == Buffer::Input;
    const bool is_streamed = operation_.streamed == Streamed::All || (operation_.streamed == Streamed::Own && own);
    return Processor::kStreams && is_streamed && step_.target_buffer == Buffer::Output;
  }
  WREATH_HOST_DEVICE bool reduces() const { return step_.op != StepOp::Recv && step_.op != StepOp::RecvSend; }

  // Returns the elements of chunk i of a step, in a tile.
  WREATH_HOST_DEVICE ElementRange range(const Step& step, const Side& side, std::uint32_t i, std::uint32_t tile) const {
    const std::uint32_t part = step.chunks > 1 ? operation_.several[side.part + i] : side.part;
    return operation_.geometry.range(side.buffer, part, lane_.data_lane, tile);
  }
  WREATH_HOST_DEVICE ElementRange range(const Side& side, std::uint32_t i) const {
    return range(step_, side, i, lane_.tile);
  }

  WREATH_HOST_DEVICE std::uint64_t count(const Step& step, std::uint32_t tile) const {
    const Side side = sent_of(step);
    std::uint64_t elements = 0;
    for (std::uint32_t i = 0; i < step.chunks; ++i) elements += range(step, side, i, tile).count;
    return elements;
  }
  WREATH_HOST_DEVICE std::uint64_t count() const { return count(step_, lane_.tile); }

  WREATH_HOST_DEVICE Piece piece(const Side& side, std::uint32_t i) const {
    return Work::piece_of(side.buffer, range(side, i), side.slot + i);
  }

  WREATH_HOST_DEVICE Form incoming_form() const {
    const bool inputs = reduces() && operation_.premultiplies;
    return (step_.flags & kPartialIncoming) != 0 || inputs ? Form::Partial : Form::Data;
  }
  WREATH_HOST_DEVICE std::uint32_t incoming_signature() const { return Work::incoming_signature(step_.target_part); }
  WREATH_HOST_DEVICE std::uint32_t outgoing_signature() const {
    return Work::outgoing_signature(sent().buffer, sent().part);
  }
  WREATH_HOST_DEVICE bool by_reference(Buffer buffer) const {
    if ((step_.flags & kStaged) != 0 || step_.chunks > 1) return false;
    return Work::by_reference(to(), buffer, lane_.elements * bytes_of(form_of(buffer)));
  }

  // Returns the bytes of the part behind this tile. Of other buffers than Input they may not be there yet.
  WREATH_HOST_DEVICE std::uint64_t rest_of_input(const Side& side) const {
    return side.buffer == Buffer::Input ? bytes_behind(side) : 0;
  }
  WREATH_HOST_DEVICE std::uint64_t bytes_behind(const Side& side) const {
    const std::uint64_t elements =
        operation_.geometry.elements_behind(side.buffer, side.part, lane_.data_lane, lane_.tile);
    return elements * bytes_of(form_of(side.buffer));
  }
  // Failures of peers are seen between two reads, so a read does not take long.
  WREATH_HOST_DEVICE static std::uint64_t read_ahead_at_most(std::uint64_t bytes) {
    constexpr std::uint64_t kMost = std::uint64_t{16} << 20;
    return bytes < kMost ? bytes : kMost;
  }
  // Returns whether the next tiles of this step belong behind this one, in memory that nothing uses before.
  WREATH_HOST_DEVICE bool lands_in_order() const {
    return (step_.flags & kLands) != 0 && step_.chunks == 1 && step_.target_buffer == Buffer::Output;
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

  // Goes on to the next step of a step-major schedule: the part of this step has no more tiles.
  WREATH_HOST_DEVICE Advance skip_step() {
    lane_.elements = kNotBegun;
    lane_.tile = 0;
    return ++lane_.step < lane_.end ? Advance::Advanced : end();
  }

  WREATH_HOST_DEVICE Advance end() {
    lane_.done = true;
    return Advance::Done;
  }

  // Lets a pump put the message where the step would copy it.
  WREATH_HOST_DEVICE void post_landing() {
    if (reduces() || step_.chunks > 1) return;
    const Form form = incoming_form();
    if (!plain(form, form == Form::Data, form_of(step_.target_buffer))) return;
    Work::post_landing(from(), piece(target(), 0));
  }

  // Posts places ahead of their steps.
  WREATH_HOST_DEVICE void post_ahead() {
    if constexpr (Processor::kLands) {
      if (operation_.lands && in(from(), 0).landings > 1) post_places();
    }
  }

  // The lane has taken no message yet of a FIFO that takes places ahead.
  WREATH_HOST_DEVICE void begin_to_post() {
    lane_.posted_step = lane_.first;
    lane_.posted_tile = 0;
    for (std::uint32_t index = lane_.first; index < lane_.end; ++index) {
      const Step& step = operation_.steps[index];
      const Ends ends{step.in_first, step.in_count};
      for (std::uint32_t i = 0; i < ends.count; ++i) in(ends, i).posted = in(ends, i).next;
    }
  }

  // Posts the places of the messages of one step and tile. Returns false where a FIFO has enough of them.
  WREATH_HOST_DEVICE bool post_next() {
    const Step& step = operation_.steps[lane_.posted_step];
    const std::uint64_t elements = count(step, lane_.posted_tile);
    const Ends ends{step.in_first, elements == 0 ? 0U : step.in_count};
    for (std::uint32_t i = 0; i < ends.count; ++i) {
      if (has_places(in(ends, i))) return false;
    }
    std::byte* target = nullptr;
    if ((step.flags & kLands) != 0) {
      const ElementRange place = range(step, target_of(step), 0, lane_.posted_tile);
      target = Work::piece_of(step.target_buffer, place, step.target_slot).data;
    }
    const std::uint64_t bytes = elements * bytes_of(Form::Data);
    for (std::uint32_t i = 0; i < ends.count; ++i) wreath::post_ahead(in(ends, i), target, bytes);
    go_on_posting(elements);
    return true;
  }

  // Goes on in the order of next_step() and skip_step().
  WREATH_HOST_DEVICE void go_on_posting(std::uint64_t elements) {
    const std::uint32_t tiles = operation_.geometry.tiles;
    if (operation_.step_major) {
      if (elements > 0 && ++lane_.posted_tile < tiles) return;
      lane_.posted_tile = 0;
      ++lane_.posted_step;
    } else if (++lane_.posted_step == lane_.end && ++lane_.posted_tile < tiles) {
      lane_.posted_step = lane_.first;
    }
  }

  WREATH_HOST_DEVICE Advance receive() {
    post_ahead();
    Sources sources(processor_);
    sources.from = from();
    sources.operands.messages = incoming_form();
    sources.operands.own = own_place();
    const std::uint64_t bytes = lane_.elements * bytes_of(sources.operands.messages);
    if (const Advance here = Work::await(incoming_signature(), bytes, sources); here != Advance::Advanced) {
      if (here == Advance::Blocked) post_landing();
      return here;
    }
    std::byte* slot = fused_slot();
    if (const Advance taken = take(sources, slot); taken != Advance::Advanced) return taken;
    if (const Advance read = Work::consume_all(from()); read != Advance::Advanced) return read;
    lane_.taken_bytes += step_.in_count * bytes;
    if (!sends()) return next_step();
    lane_.received = true;
    if (slot == nullptr) return Advance::Advanced;
    Work::publish_staged(to(), outgoing_signature(), slot, lane_.elements * bytes_of(form_of(step_.target_buffer)));
    return next_step();
  }

  // Returns a staging slot to fill while the target is computed. Returns null where the sending half comes later.
  WREATH_HOST_DEVICE std::byte* fused_slot() const {
    if (!sends() || by_reference(step_.target_buffer) || !Work::credit(to(), Room::Staging)) return nullptr;
    return Work::begin_slot(to(), lane_.elements * bytes_of(form_of(step_.target_buffer)));
  }

  // Returns the place of the own source among all sources, or -1 where there is none.
  WREATH_HOST_DEVICE int own_place() const {
    if (!reduces()) return -1;
    return step_.own_place < step_.in_count && !planted_fault(2) ? step_.own_place : step_.in_count;
  }

  // Makes the target, and `slot` if there is one, as the sum or copy of the messages.
  WREATH_HOST_DEVICE Advance take(Sources& sources, std::byte* slot) {
    const int own = sources.operands.own;
    const Form messages = sources.operands.messages;
    sources.k = step_.in_count + (own >= 0 ? 1 : 0);
    sources.operands.own_form = form_of(step_.source_buffer);
    sources.plain = own < 0 && plain(messages, messages == Form::Data, form_of(step_.target_buffer));
    sources.target_form = form_of(step_.target_buffer);
    sources.target_dead = (step_.flags & kTargetDead) != 0;
    sources.streams = streams() && !sources.target_dead;
    const bool ahead = sources.fetched > 0 && slot == nullptr && lands_in_order();
    sources.target_rest = ahead ? read_ahead_at_most(bytes_behind(target())) : 0;
    for (std::uint32_t i = 0; i < step_.chunks; ++i) {
      const Piece to = piece(target(), i);
      if (to.elements == 0) continue;
      if (own >= 0) sources.data[own] = piece(source(), i).data;
      if (const Advance made = Work::make(to, sources, slot); made != Advance::Advanced) return made;
      if (slot != nullptr) slot += to.bytes;
    }
    return Advance::Advanced;
  }

  WREATH_HOST_DEVICE Advance send() {
    const Side from = sent();
    const bool referenced = by_reference(from.buffer);
    if (!Work::credit(to(), Work::room_of(referenced))) return Advance::Blocked;
    if (referenced) {
      Work::publish_reference(to(), outgoing_signature(), from.buffer, piece(from, 0), rest_of_input(from));
      lane_.named = true;
      return next_step();
    }
    const std::uint64_t element_bytes = bytes_of(Work::outgoing_form(from.buffer));
    const std::uint64_t bytes = lane_.elements * element_bytes;
    std::byte* const slot = Work::begin_slot(to(), bytes);
    std::byte* place = slot;
    for (std::uint32_t i = 0; i < step_.chunks; ++i) {
      const Piece data = piece(from, i);
      if (data.elements > 0) Work::stage_piece(place, from.buffer, data);
      place += data.elements * element_bytes;
    }
    Work::publish_staged(to(), outgoing_signature(), slot, bytes);
    return next_step();
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
        copy(to, from);
      }
    }
    return next_step();
  }

  WREATH_HOST_DEVICE void copy(const Piece& to, const Piece& from) {
    if constexpr (Processor::kStreams) {
      if (streams()) {
        processor_.stream(to.data, from.data, to.bytes);
        return processor_.end_stream();
      }
    }
    processor_.copy(to.data, from.data, to.bytes);
  }

  const Step& step_;
};

// Advances `lane` by at most one step of one tile. `step` is the lane's present step, wherever that lies. Advanced
// means that something moved. Blocked means that nothing can move until a peer (or a pump) acts. Done means that the
// lane is over. Failed means that lane.fault has the reason.
template <typename Processor>
WREATH_HOST_DEVICE inline Advance try_step(const OperationState& operation, LaneState& lane, Processor& processor,
                                           const Step& step) {
  return StepRunner<Processor>(operation, lane, processor, step).run();
}
template <typename Processor>
WREATH_HOST_DEVICE inline Advance try_step(const OperationState& operation, LaneState& lane, Processor& processor) {
  return lane.done ? Advance::Done : try_step(operation, lane, processor, operation.steps[lane.step]);
}

}  // namespace wreath
