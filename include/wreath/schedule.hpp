// A collective as data: what one rank sends, receives and reduces, in order.
//
// An algorithm builds a Schedule from few words. Passes (src/schedule) fuse neighbours, copy the
// schedule onto data lanes, cut chunks into tiles and lower the rest to fixed 32-byte steps.
#pragma once

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <vector>

#include "wreath/types.hpp"

namespace wreath {

// Input and Output belong to the caller. Scratch and Partial are the lane's own, for one tile: they hold nothing when
// the next tile begins, and no other lane sees them. Partial holds unfinished sums in the accumulator's type.
enum class Buffer : std::uint8_t { Input, Output, Scratch, Partial };
inline constexpr int kBuffers = 4;

// What bytes mean. Data: elements of the call's dtype; in a message of a reduction, either an untouched input or a
// finished result. Partial: elements of the accumulator's type (accumulator_of), premultiplied if the call
// says so, not yet divided or rounded. The same bytes where the accumulator is the dtype.
enum class Form : std::uint8_t { Data, Partial };

constexpr Form form_of(Buffer buffer) { return buffer == Buffer::Partial ? Form::Partial : Form::Data; }

// Whether a buffer is the lane's own, not the caller's: its chunks have slots.
constexpr bool is_lanes_own(Buffer buffer) { return buffer >= Buffer::Scratch; }

// A part of the problem's data, in a buffer.
//
// Parts are numbered alike on all ranks and in all buffers. Where a collective moves one vector (all_reduce,
// broadcast, reduce, barrier) they are `parts` near-equal parts of it; else part b is the block of rank b: what rank b
// contributes (all_gather, gather), what it gets (reduce_scatter, scatter), or, in all_to_all, what goes to rank b
// (Input) and comes from rank b (Output). A buffer that holds one block (Input of all_gather) has that part only.
struct Chunk {
  Buffer buffer;
  std::uint32_t part;      // whose size it has
  std::uint32_t slot = 0;  // Scratch and Partial: which of their places, from 0
  bool operator==(const Chunk&) const = default;
};

// One chunk, or several of one buffer that travel in one message, in this order. Places of several are neighbours:
// slot, slot + 1, ...
class Chunks : public std::vector<Chunk> {
 public:
  Chunks() = default;
  Chunks(Chunk one) : std::vector<Chunk>{one} {}                          // NOLINT(google-explicit-constructor)
  Chunks(std::vector<Chunk> all) : std::vector<Chunk>(std::move(all)) {}  // NOLINT(google-explicit-constructor)
};

inline constexpr int kMaximumFanIn = 256;        // messages one load_reduce may take
inline constexpr int kMaximumMessageParts = 16;  // a message of more chunks is cut into several, alike on both ends

enum class Word : std::uint8_t { Send, Recv, RecvReduce, LoadReduce, Copy, Reduce };

// What a receive takes: from which lane of the sender (-1: the receiving lane's number), and in which form.
struct Incoming {
  int lane = -1;
  Form form = Form::Data;
};

// One line of a lane. `peers`: the ranks it sends to or receives from, in ascending order.
struct Line {
  Word word;
  std::vector<Rank> peers;
  std::uint16_t from_lane = 0;  // the sender's lane that a received message comes from
  Form form = Form::Data;       // of received messages
  Chunks source{};
  Chunks target{};
  bool staged = false;  // Send: take a copy now, the source may change before it is read
};

// Steps of one rank that run in order. Different lanes of a rank run at once; nothing orders them
// but messages. A lane sends on FIFOs of its own number: the message goes to (peer, this lane). Every line is
// repeated for each tile of its part; where a tile has no elements (a part smaller than others, a block of no
// elements) the line does nothing, and no message is sent or awaited.
//
// In a reduction, Output takes finished sums only: a line that writes Output from Input, from Partial or by reducing
// finishes what it writes (divides an average, rounds), so what it writes must be complete. Messages made of
// Output are finished and are only received, never reduced again. Scratch takes finished sums only.
class Lane {
 public:
  // The peers' matching recv, recv_reduce or load_reduce consumes the message.
  void send(Rank to, Chunks source);
  // The same message to several ranks. Staged: see Line.
  void send_all(std::vector<Rank> to, Chunks source);
  // As send_all, but `source` may be overwritten as soon as the step is over. Sends from Scratch and Partial
  // always are.
  void send_all_staged(std::vector<Rank> to, Chunks source);
  // target = message
  void recv(Rank from, Chunks target, Incoming incoming = {});
  // target = source + message
  void recv_reduce(Rank from, Chunks source, Chunks target, Incoming incoming = {});
  // target = canonical sum (by absolute rank) of `source` and one message from each of `from`; one chunk each
  void load_reduce(std::vector<Rank> from, Chunk source, Chunk target, Incoming incoming = {});
  // target = source
  void copy(Chunks source, Chunks target);
  // target = target + source
  void reduce(Chunks source, Chunks target);

  const std::vector<Line>& lines() const { return lines_; }
  std::uint16_t number() const { return number_; }

 private:
  friend class Schedule;
  explicit Lane(std::uint16_t number) : number_(number) {}
  std::uint16_t number_;
  std::vector<Line> lines_;
};

// What one rank does.
class Schedule {
 public:
  // `parts`: how the vector is cut; the number of ranks where parts are blocks.
  explicit Schedule(std::uint32_t parts) : parts_(parts) {}
  // Lane `number`, made when first named. Numbers are dense from 0.
  Lane& lane(int number = 0);
  std::uint32_t parts() const { return parts_; }
  // Places the lanes use in Scratch or Partial: 1 + the highest slot named, 0 without.
  std::uint32_t slots(Buffer buffer) const;
  const std::deque<Lane>& lanes() const { return lanes_; }

 private:
  std::uint32_t parts_;
  std::deque<Lane> lanes_;  // references to lanes stay valid as others are made
};

}  // namespace wreath
