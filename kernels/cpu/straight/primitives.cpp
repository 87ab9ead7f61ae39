// The words: a message out, a message in, and both at once.
#include "kernels/cpu/straight/primitives.hpp"

namespace wreath {

Advance Strand::send(const Ends& to, const Chunk& source) {
  return begin(StepOp::Send, source) ? send_on(source, to) : Advance::Done;
}

Advance Strand::recv(const Ends& from, const Chunk& target) {
  return begin(StepOp::Recv, target) ? take_copy(from, target, {}) : Advance::Done;
}

Advance Strand::recv_send(const Ends& from, const Chunk& target, const Ends& to) {
  return begin(StepOp::RecvSend, target) ? take_copy(from, target, to) : Advance::Done;
}

Advance Strand::recv_reduce(const Ends& from, Form incoming, const Chunk& source, const Chunk& target) {
  if (!begin(StepOp::RecvReduce, target)) return Advance::Done;
  return take_sum(from, {incoming, 0, form_of(source.buffer)}, source, target, {});
}

Advance Strand::recv_reduce_send(const Ends& from, Form incoming, const Chunk& source, const Chunk& target,
                                 const Ends& to) {
  if (!begin(StepOp::RecvReduceSend, target)) return Advance::Done;
  return take_sum(from, {incoming, 0, form_of(source.buffer)}, source, target, to);
}

Advance Strand::load_reduce_send(const Ends& from, int own, const Chunk& source, const Chunk& target, const Ends& to) {
  if (!begin(StepOp::LoadReduceSend, target)) return Advance::Done;
  return take_sum(from, {form_of_inputs(), own, form_of(source.buffer)}, source, target, to);
}

Advance Strand::copy(const Chunk& source, const Chunk& target) {
  if (!begin(StepOp::Copy, target)) return Advance::Done;
  const Piece to = piece(target);
  const Piece from = piece(source);
  if (to.data != from.data) processor_.copy(to.data, from.data, to.bytes);
  return Advance::Done;
}

Advance Strand::send_on(const Chunk& made, const Ends& to) {
  if (!credit(to)) return Advance::Blocked;
  const std::uint32_t signature = outgoing_signature(made.buffer, made.part);
  const Piece whole = piece(made);
  if (by_reference(to, made.buffer, whole.bytes)) {
    publish_reference(to, signature, made.buffer, whole);
    return Advance::Done;
  }
  const std::uint64_t bytes = whole.elements * bytes_of(outgoing_form(made.buffer));
  stage_piece(begin_slot(to, bytes), made.buffer, whole);
  publish_staged(to, signature, bytes);
  return Advance::Done;
}

Advance Strand::take_copy(const Ends& from, const Chunk& target, const Ends& to) {
  if (lane_.received) return send_on(target, to);
  if (const Advance here = arrived(from, Form::Data, target); here != Advance::Advanced) {
    if (here == Advance::Blocked) post_landing(from, piece(target));
    return here;
  }
  Sources sources;
  sources.from = from;
  sources.k = 1;
  sources.operands = {Form::Data, -1, Form::Data};
  sources.plain = true;
  return take(sources, target, to);
}

Advance Strand::take_sum(const Ends& from, const Operands& operands, const Chunk& source, const Chunk& target,
                         const Ends& to) {
  if (lane_.received) return send_on(target, to);
  const Advance here = arrived(from, operands.messages, target);
  if (here != Advance::Advanced) return here;
  Sources sources;
  sources.from = from;
  sources.k = static_cast<int>(from.count) + 1;
  sources.operands = operands;
  sources.plain = false;
  sources.data[operands.own] = piece(source).data;
  return take(sources, target, to);
}

Advance Strand::arrived(const Ends& from, Form form, const Chunk& target) {
  return await(from, incoming_signature(target.part), lane_.elements * bytes_of(form));
}

// With room for the message that is sent on, the target is sent as it is made; else once there is.
Advance Strand::take(Sources& sources, const Chunk& target, const Ends& to) {
  const Piece made = piece(target);
  sources.target_form = form_of(target.buffer);
  sources.target_dead = target.buffer == Buffer::Partial;
  sources.streams = operation_.streams_output && target.buffer == Buffer::Output;
  const bool staged = to.count > 0 && !by_reference(to, target.buffer, made.bytes) && credit(to);
  std::byte* slot = staged ? begin_slot(to, made.bytes) : nullptr;
  const std::uint64_t bytes = made.elements * bytes_of(sources.operands.messages);
  const Advance found = locate_all(incoming_signature(target.part), bytes, sources);
  if (found != Advance::Advanced) return found;
  if (const Advance moved = make(made, sources, slot); moved != Advance::Advanced) return moved;
  if (const Advance read = consume_all(sources.from); read != Advance::Advanced) return read;
  if (to.count == 0) return Advance::Done;
  if (slot != nullptr) {
    publish_staged(to, outgoing_signature(target.buffer, target.part), made.bytes);
    return Advance::Done;
  }
  lane_.received = true;
  return send_on(target, to) == Advance::Done ? Advance::Done : Advance::Advanced;
}

void Strand::keep(std::int64_t begin_ns) const {
  StepEvent event{};
  event.step = place();
  event.tile = lane_.tile;
  event.lane = number_;
  event.op = op_;
  event.begin_ns = begin_ns;
  event.end_ns = now_ns();
  trace_->add(event);
}

}  // namespace wreath
