// A schedule is a collective as data: it says what one rank sends, receives and reduces, in order.
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

// The memory that a chunk is in. Input and Output belong to the caller. Scratch and Partial are the lane's own, for one
// tile. They hold nothing when the next tile begins, and no other lane sees them. Partial holds unfinished sums in the
// accumulator's type.
enum class Buffer : std::uint8_t { Input, Output, Scratch, Partial };
inline constexpr int kBuffers = 4;

// The meaning of bytes. Data bytes are elements of the call's dtype; in a message of a reduction they are an untouched
// input or a finished result. Partial bytes are elements of the accumulator's type (accumulator_of), premultiplied if
// the call says so, not yet divided or rounded. Both are the same bytes where the accumulator is the dtype.
enum class Form : std::uint8_t { Data, Partial };

constexpr Form form_of(Buffer buffer) { return buffer == Buffer::Partial ? Form::Partial : Form::Data; }

// Returns whether a buffer is the lane's own, not the caller's. The chunks of such a buffer have slots.
constexpr bool is_lanes_own(Buffer buffer) { return buffer >= Buffer::Scratch; }

// A part of the problem's data, in a buffer.
//
// Parts are numbered alike on all ranks and in all buffers. Where a collective moves one vector (all_reduce, broadcast,
// reduce, barrier) they are `parts` near-equal parts of that vector. Otherwise part b is the block of rank b. This is
// the block that rank b contributes (all_gather, gather) or gets (reduce_scatter, scatter). In all_to_all, it goes to
// rank b (Input) or comes from rank b (Output). A buffer that holds one block (Input of all_gather) has that part only.
struct Chunk {
  Buffer buffer;
  // The part whose size the chunk has.
  std::uint32_t part;
  // The place in Scratch or Partial, from 0.
  std::uint32_t slot = 0;
  bool operator==(const Chunk&) const = default;
};

// One chunk, or several of one buffer that travel in one message, in this order. The places of several chunks are
// neighbours: slot, slot + 1, ...
class Chunks : public std::vector<Chunk> {
 public:
  Chunks() = default;
  Chunks(Chunk one) : std::vector<Chunk>{one} {}                          // NOLINT(google-explicit-constructor)
  Chunks(std::vector<Chunk> all) : std::vector<Chunk>(std::move(all)) {}  // NOLINT(google-explicit-constructor)
};

inline constexpr int kMaximumFanIn = 256;  // of messages, for one load_reduce
// A message of more chunks is cut into several, alike on both ends.
inline constexpr int kMaximumMessageParts = 16;

enum class Word : std::uint8_t { Send, Recv, RecvReduce, LoadReduce, Copy, Reduce };

// The message that a receive takes: the sender's lane (-1: the number of the receiving lane), and the form.
struct Incoming {
  int lane = -1;
  Form form = Form::Data;
};

// One line of a lane. `peers` are the ranks to which it sends or from which it receives, in ascending order.
struct Line {
  Word word;
  std::vector<Rank> peers;
  std::uint16_t from_lane = 0;  // lane of the sender, for a received message
  Form form = Form::Data;       // of received messages
  Chunks source{};
  Chunks target{};
  // A Send with this flag takes a copy now: the source may change before it is read.
  bool staged = false;
};

// The steps of one rank that run in order. Different lanes of a rank run at once; nothing orders them but messages. A
// lane sends on FIFOs of its own number: the message goes to (peer, this lane). Every line is repeated for each tile of
// its part. A tile has no elements where a part is smaller than others, or a block has none. Then the line does
// nothing, and no message is sent or awaited.
//
// The Output of a reduction takes finished sums only. A line that writes Output from Input, from Partial or by reducing
// finishes what it writes (divides an average, rounds). So the value that it writes must be complete. Messages made of
// Output are finished, and are only received, never reduced again. Scratch takes finished sums only.
class Lane {
 public:
  // Sends a message. The peers' matching recv, recv_reduce or load_reduce consumes it.
  void send(Rank to, Chunks source);
  // Sends the same message to several ranks, without the flag Line::staged.
  void send_all(std::vector<Rank> to, Chunks source);
  // Does the same as send_all, but `source` may be overwritten as soon as the step is over. Sends from Scratch and
  // Partial are always staged.
  void send_all_staged(std::vector<Rank> to, Chunks source);
  // Does target = message.
  void recv(Rank from, Chunks target, Incoming incoming = {});
  // Does target = source + message.
  void recv_reduce(Rank from, Chunks source, Chunks target, Incoming incoming = {});
  // Does target = canonical sum (by absolute rank) of `source` and one message from each of `from`. Each has one chunk.
  void load_reduce(std::vector<Rank> from, Chunk source, Chunk target, Incoming incoming = {});
  // Does target = source.
  void copy(Chunks source, Chunks target);
  // Does target = target + source.
  void reduce(Chunks source, Chunks target);

  const std::vector<Line>& lines() const { return lines_; }
  std::uint16_t number() const { return number_; }

 private:
  friend class Schedule;
  explicit Lane(std::uint16_t number) : number_(number) {}
  std::uint16_t number_;
  std::vector<Line> lines_;
};

// The work of one rank.
class Schedule {
 public:
  // `parts` says into how many parts the vector is cut. It is the number of ranks where parts are blocks.
  explicit Schedule(std::uint32_t parts) : parts_(parts) {}
  // Returns lane `number`, which is made when it is first named. Numbers are dense from 0.
  Lane& lane(int number = 0);
  std::uint32_t parts() const { return parts_; }
  // Returns the number of places that the lanes use in Scratch or Partial. It is 1 + the highest slot named, or 0.
  std::uint32_t slots(Buffer buffer) const;
  const std::deque<Lane>& lanes() const { return lanes_; }

 private:
  std::uint32_t parts_;
  // A deque keeps references to lanes valid while other lanes are made.
  std::deque<Lane> lanes_;
};

}  // namespace wreath
