// The words that loops written by hand are made of: those of schedules, fused as steps are.
#pragma once

#include <cstdint>

#include "src/base/clock.hpp"
#include "src/executor/host.hpp"
#include "src/executor/lane_work.hpp"
#include "src/executor/straight.hpp"
#include "src/schedule/step.hpp"

namespace wreath {

// One lane for one turn. A word does its step of the present tile and returns Done; Advanced: the half that receives;
// Blocked: nothing; Failed: see LaneState::fault. It is called again, with the same arguments, until it is done. Where
// the tile of its target (send: source) has no elements there is nothing to do.
class Strand : private LaneWork<HostProcessor> {
 public:
  using LaneWork::Ends;

  explicit Strand(const StraightTurn& turn)
      : LaneWork(turn.operation, turn.lane, turn.processor), trace_(turn.trace), number_(turn.number) {}

  static Chunk input(std::uint32_t part) { return {Buffer::Input, part}; }
  static Chunk output(std::uint32_t part) { return {Buffer::Output, part}; }
  // The lane's one place for an unfinished sum, which is gone once it is sent.
  static Chunk partial(std::uint32_t part) { return {Buffer::Partial, part}; }
  // How others' inputs arrive.
  Form form_of_inputs() const { return operation_.conversions.premultiplies ? Form::Partial : Form::Data; }

  Advance send(const Ends& to, const Chunk& source);
  Advance recv(const Ends& from, const Chunk& target);
  Advance recv_send(const Ends& from, const Chunk& target, const Ends& to);
  // Of one message, in form `incoming`, and `source`.
  Advance recv_reduce(const Ends& from, Form incoming, const Chunk& source, const Chunk& target);
  Advance recv_reduce_send(const Ends& from, Form incoming, const Chunk& source, const Chunk& target, const Ends& to);
  // The canonical sum of inputs, of which `source` is the one at place `own`.
  Advance load_reduce_send(const Ends& from, int own, const Chunk& source, const Chunk& target, const Ends& to);
  Advance copy(const Chunk& source, const Chunk& target);

  // A turn of a lane that does all `steps` of a tile, word(0), word(1) and so on, before the next tile.
  template <typename Word>
  Advance tile(std::uint32_t steps, Word&& word) {
    bool moved = false;
    while (place() < steps) {
      const Advance advanced = traced([&] { return word(place()); });
      if (advanced != Advance::Done) return advanced == Advance::Blocked && moved ? Advance::Advanced : advanced;
      moved = true;
      ++lane_.step;
    }
    lane_.step = lane_.first;
    return ++lane_.tile < operation_.geometry.tiles ? Advance::Advanced : end();
  }

  // A turn of a lane that does all tiles of a step before the next step: one tile.
  template <typename Word>
  Advance tile_of_message(std::uint64_t elements, Word&& word) {
    if (const Advance advanced = traced(word); advanced != Advance::Done) return advanced;
    if (++lane_.tile * operation_.geometry.tile < elements) return Advance::Advanced;
    lane_.tile = 0;
    return ++lane_.step < lane_.end ? Advance::Advanced : end();
  }

 private:
  std::uint32_t place() const { return lane_.step - lane_.first; }

  Advance end() {
    lane_.done = true;
    return Advance::Done;
  }

  ElementRange range(const Chunk& chunk) const {
    return operation_.geometry.range(chunk.buffer, chunk.part, lane_.data_lane, lane_.tile);
  }
  Piece piece(const Chunk& chunk) const { return piece_of(chunk.buffer, range(chunk), chunk.slot); }

  // False: there is nothing to do. A lane that waits asks often, and has the answer.
  bool begin(StepOp op, const Chunk& moved) {
    op_ = op;
    if (lane_.elements == kNotBegun) lane_.elements = range(moved).count;
    return lane_.elements > 0;
  }

  // To no ends: nothing is sent on.
  Advance take_copy(const Ends& from, const Chunk& target, const Ends& to);
  Advance take_sum(const Ends& from, const Operands& operands, const Chunk& source, const Chunk& target,
                   const Ends& to);
  // Advanced: the messages for `target` are here.
  Advance arrived(const Ends& from, Form form, const Chunk& target);
  Advance take(Sources& sources, const Chunk& target, const Ends& to);
  Advance send_on(const Chunk& made, const Ends& to);

  // One word; what it moves is kept in the trace.
  template <typename Word>
  Advance traced(Word&& word) {
    const std::int64_t begin_ns = trace_ == nullptr ? 0 : now_ns();
    const Advance advanced = word();
    const bool moved = advanced == Advance::Done || advanced == Advance::Advanced;
    if (trace_ != nullptr && moved && lane_.elements > 0) keep(begin_ns);
    if (advanced == Advance::Done) {
      lane_.elements = kNotBegun;
      lane_.arrived = 0;
      lane_.received = false;
    }
    return advanced;
  }
  void keep(std::int64_t begin_ns) const;

  StepTrace* trace_;
  std::uint16_t number_;
  StepOp op_{};
};

}  // namespace wreath
