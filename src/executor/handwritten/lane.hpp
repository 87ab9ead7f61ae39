// Handwritten loops are made of these primitives. They are the words of schedules, fused as steps are. One source
// serves a CPU and the leader of a block.
#pragma once

#include <cstdint>

#include "src/base/clock.hpp"
#include "src/executor/lane_messages.hpp"
#include "src/executor/trace.hpp"
#include "src/schedule/geometry.hpp"
#include "src/schedule/step.hpp"

namespace wreath {

// One lane for one turn. A primitive does its step of the present tile and returns Done. Advanced means that only the
// receiving half is done, and Blocked means that nothing is. After Failed, see LaneState::fault. A primitive is called
// again, with the same arguments, until it is done. It has nothing to do where the tile of its target (send: source)
// has no elements.
template <typename Processor>
class HandwrittenLane : private LaneMessages<Processor> {
  using Work = LaneMessages<Processor>;

 public:
  using typename Work::Ends;

  // `lane` is not done. `trace` may be null: then no trace is kept.
  WREATH_HOST_DEVICE HandwrittenLane(const OperationState& operation, LaneState& lane, Processor& processor,
                                     StepTrace* trace)
      : Work(operation, lane, processor), trace_(trace) {}

  // Returns the number of ranks, two or more.
  WREATH_HOST_DEVICE std::uint32_t ranks() const { return operation_.ranks; }
  WREATH_HOST_DEVICE std::uint32_t rank() const { return operation_.rank; }
  WREATH_HOST_DEVICE std::uint32_t number() const { return lane_.number; }
  WREATH_HOST_DEVICE std::uint32_t data_lane() const { return lane_.data_lane; }
  WREATH_HOST_DEVICE const Geometry& geometry() const { return operation_.geometry; }
  WREATH_HOST_DEVICE const Step& present_step() const { return operation_.steps[lane_.step]; }

  WREATH_HOST_DEVICE static Chunk input(std::uint32_t part) { return {Buffer::Input, part}; }
  WREATH_HOST_DEVICE static Chunk output(std::uint32_t part) { return {Buffer::Output, part}; }
  // Returns the lane's one place for an unfinished sum, which is gone once the sum is sent.
  WREATH_HOST_DEVICE static Chunk partial(std::uint32_t part) { return {Buffer::Partial, part}; }
  // Returns the form in which others' inputs arrive.
  WREATH_HOST_DEVICE Form form_of_inputs() const { return operation_.premultiplies ? Form::Partial : Form::Data; }

  WREATH_HOST_DEVICE Advance send(const Ends& to, const Chunk& source) {
    return begin(StepOp::Send, source) ? send_on(source, to) : Advance::Done;
  }
  WREATH_HOST_DEVICE Advance recv(const Ends& from, const Chunk& target) {
    return begin(StepOp::Recv, target) ? take_copy(from, target, {}) : Advance::Done;
  }
  WREATH_HOST_DEVICE Advance recv_send(const Ends& from, const Chunk& target, const Ends& to) {
    return begin(StepOp::RecvSend, target) ? take_copy(from, target, to) : Advance::Done;
  }
  // Makes the sum of one message, in form `incoming`, and `source`.
  WREATH_HOST_DEVICE Advance recv_reduce(const Ends& from, Form incoming, const Chunk& source, const Chunk& target) {
    if (!begin(StepOp::RecvReduce, target)) return Advance::Done;
    return take_sum(from, {incoming, 0, form_of(source.buffer)}, source, target, {});
  }
  WREATH_HOST_DEVICE Advance recv_reduce_send(const Ends& from, Form incoming, const Chunk& source, const Chunk& target,
                                              const Ends& to) {
    if (!begin(StepOp::RecvReduceSend, target)) return Advance::Done;
    return take_sum(from, {incoming, 0, form_of(source.buffer)}, source, target, to);
  }
  // Makes the canonical sum of inputs. `source` is the input at place `own`.
  WREATH_HOST_DEVICE Advance load_reduce_send(const Ends& from, int own, const Chunk& source, const Chunk& target,
                                              const Ends& to) {
    if (!begin(StepOp::LoadReduceSend, target)) return Advance::Done;
    return take_sum(from, {form_of_inputs(), own, form_of(source.buffer)}, source, target, to);
  }
  WREATH_HOST_DEVICE Advance copy(const Chunk& source, const Chunk& target) {
    if (!begin(StepOp::Copy, target)) return Advance::Done;
    const Piece to = piece(target);
    const Piece from = piece(source);
    if (to.data != from.data) processor_.copy(to.data, from.data, to.bytes);
    return Advance::Done;
  }

  // Runs a turn of a lane that does all `steps` of a tile, primitive(0), primitive(1) and so on, before the next tile.
  template <typename Primitive>
  WREATH_HOST_DEVICE Advance tile(std::uint32_t steps, const Primitive& primitive) {
    bool moved = false;
    while (place() < steps) {
      const Advance advanced = traced([&] { return primitive(place()); });
      if (advanced != Advance::Done) return advanced == Advance::Blocked && moved ? Advance::Advanced : advanced;
      moved = true;
      ++lane_.step;
    }
    lane_.step = lane_.first;
    return ++lane_.tile < operation_.geometry.tiles ? Advance::Advanced : end();
  }

  // Runs a turn, which is one tile, of a lane that does all tiles of a step before the next step.
  template <typename Primitive>
  WREATH_HOST_DEVICE Advance tile_of_message(std::uint64_t elements, const Primitive& primitive) {
    if (const Advance advanced = traced(primitive); advanced != Advance::Done) return advanced;
    if (++lane_.tile * operation_.geometry.tile < elements) return Advance::Advanced;
    lane_.tile = 0;
    return ++lane_.step < lane_.end ? Advance::Advanced : end();
  }

 private:
  using typename Work::Piece;
  using typename Work::Sources;
  using Work::bytes_of;
  using Work::lane_;
  using Work::operation_;
  using Work::processor_;

  WREATH_HOST_DEVICE std::uint32_t place() const { return lane_.step - lane_.first; }

  WREATH_HOST_DEVICE Advance end() {
    lane_.done = true;
    return Advance::Done;
  }

  WREATH_HOST_DEVICE ElementRange range(const Chunk& chunk) const {
    return operation_.geometry.range(chunk.buffer, chunk.part, lane_.data_lane, lane_.tile);
  }
  WREATH_HOST_DEVICE Piece piece(const Chunk& chunk) const {
    return Work::piece_of(chunk.buffer, range(chunk), chunk.slot);
  }

  // Returns false where there is nothing to do. A lane that waits asks often, so the answer is kept.
  WREATH_HOST_DEVICE bool begin(StepOp op, const Chunk& moved) {
    op_ = op;
    if (lane_.elements == kNotBegun) lane_.elements = range(moved).count;
    return lane_.elements > 0;
  }

  WREATH_NOINLINE WREATH_HOST_DEVICE Advance send_on(const Chunk& made, const Ends& to) {
    const Piece whole = piece(made);
    const bool referenced = Work::by_reference(to, made.buffer, whole.bytes);
    if (!Work::credit(to, Work::room_of(referenced))) return Advance::Blocked;
    const std::uint32_t signature = Work::outgoing_signature(made.buffer, made.part);
    if (referenced) {
      Work::publish_reference(to, signature, made.buffer, whole);
      return Advance::Done;
    }
    const std::uint64_t bytes = whole.elements * bytes_of(Work::outgoing_form(made.buffer));
    std::byte* const slot = Work::begin_slot(to, bytes);
    Work::stage_piece(slot, made.buffer, whole);
    Work::publish_staged(to, signature, slot, bytes);
    return Advance::Done;
  }

  // Makes a copy of one message. If `to` has no ends, nothing is sent on.
  WREATH_NOINLINE WREATH_HOST_DEVICE Advance take_copy(const Ends& from, const Chunk& target, const Ends& to) {
    if (lane_.received) return send_on(target, to);
    Sources sources(processor_);
    sources.from = from;
    sources.k = 1;
    sources.operands = {Form::Data, -1, Form::Data};
    sources.plain = true;
    const Advance here = arrived(sources, target);
    if (here == Advance::Blocked) Work::post_landing(from, piece(target));
    return here == Advance::Advanced ? take(sources, target, to) : here;
  }

  WREATH_NOINLINE WREATH_HOST_DEVICE Advance take_sum(const Ends& from, const Operands& operands, const Chunk& source,
                                                      const Chunk& target, const Ends& to) {
    if (lane_.received) return send_on(target, to);
    Sources sources(processor_);
    sources.from = from;
    sources.k = static_cast<int>(from.count) + 1;
    sources.operands = operands;
    sources.plain = false;
    const Advance here = arrived(sources, target);
    if (here != Advance::Advanced) return here;
    sources.data[operands.own] = piece(source).data;
    return take(sources, target, to);
  }

  // Returns Advanced where the messages for `target` are here, and found.
  WREATH_HOST_DEVICE Advance arrived(Sources& sources, const Chunk& target) {
    const std::uint64_t bytes = lane_.elements * bytes_of(sources.operands.messages);
    return Work::await(Work::incoming_signature(target.part), bytes, sources);
  }

  // Makes the target. With room for the message that is sent on, it is sent as it is made, else once there is room.
  WREATH_HOST_DEVICE Advance take(Sources& sources, const Chunk& target, const Ends& to) {
    const Piece made = piece(target);
    sources.target_form = form_of(target.buffer);
    sources.target_dead = target.buffer == Buffer::Partial;
    sources.streams = Processor::kStreams && operation_.streamed == Streamed::All && target.buffer == Buffer::Output;
    const bool staged = to.count > 0 && !Work::by_reference(to, target.buffer, made.bytes);
    std::byte* slot = staged && Work::credit(to, Room::Staging) ? Work::begin_slot(to, made.bytes) : nullptr;
    if (const Advance moved = Work::make(made, sources, slot); moved != Advance::Advanced) return moved;
    if (const Advance read = Work::consume_all(sources.from); read != Advance::Advanced) return read;
    if (to.count == 0) return Advance::Done;
    if (slot != nullptr) {
      Work::publish_staged(to, Work::outgoing_signature(target.buffer, target.part), slot, made.bytes);
      return Advance::Done;
    }
    lane_.received = true;
    return send_on(target, to) == Advance::Done ? Advance::Done : Advance::Advanced;
  }

  // Runs one primitive, and keeps in the trace what it moves.
  template <typename Primitive>
  WREATH_HOST_DEVICE Advance traced(const Primitive& primitive) {
    const std::int64_t begin_ns = clock_ns();
    const Advance advanced = primitive();
    const bool moved = advanced == Advance::Done || advanced == Advance::Advanced;
    if (moved && lane_.elements > 0) keep(begin_ns);
    if (advanced == Advance::Done) {
      lane_.elements = kNotBegun;
      lane_.arrived = 0;
      lane_.received = false;
    }
    return advanced;
  }
  // Returns 0 where no trace is kept.
  WREATH_HOST_DEVICE std::int64_t clock_ns() const {
    if constexpr (Processor::kTraces) {
      if (trace_ != nullptr) return now_ns();
    }
    return 0;
  }
  WREATH_HOST_DEVICE void keep([[maybe_unused]] std::int64_t begin_ns) const {
    if constexpr (Processor::kTraces) {
      if (trace_ == nullptr) return;
      StepEvent event{};
      event.step = place();
      event.tile = lane_.tile;
      event.lane = lane_.number;
      event.op = op_;
      event.begin_ns = begin_ns;
      event.end_ns = now_ns();
      trace_->add(event);
    }
  }

  StepTrace* trace_;
  StepOp op_{};
};

}  // namespace wreath
