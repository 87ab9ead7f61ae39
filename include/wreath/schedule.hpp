// A collective as data: what one rank sends, receives and reduces, in order.
//
// An algorithm builds a Schedule from few words. Passes (src/schedule) fuse neighbours, copy the
// schedule onto data lanes, cut chunks into tiles and lower the rest to fixed 32-byte steps.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "wreath/types.hpp"

namespace wreath {

enum class Buffer : std::uint8_t { Input, Output, Scratch };

// One of the schedule's `parts` near-equal parts of a buffer. Part sizes follow from the element
// count at call time; trailing parts may be empty.
struct Chunk {
  Buffer buffer;
  std::uint32_t part;
  bool operator==(const Chunk&) const = default;
};

inline constexpr int kMaximumFanIn = 256;  // messages one load_reduce may take

enum class Word : std::uint8_t { Send, Recv, RecvReduce, LoadReduce, Copy, Reduce };

// One line of a lane. `peers`: the ranks it sends to or receives from, in ascending order.
struct Line {
  Word word;
  std::vector<Rank> peers;
  std::uint16_t from_lane = 0;  // the sender's lane that a received message comes from
  Chunk source{};
  Chunk target{};
  bool staged = false;  // Send: take a copy now, the source may change before it is read
};

// Steps of one rank that run in order. Different lanes of a rank run at once; nothing orders them
// but messages. A lane sends on FIFOs of its own number: the message goes to (peer, this lane).
class Lane {
 public:
  // The peers' matching recv, recv_reduce or load_reduce consumes the message.
  void send(Rank to, Chunk source);
  // The same message to several ranks. Staged: see Line.
  void send_all(std::vector<Rank> to, Chunk source);
  // As send_all, but `source` may be overwritten as soon as the step is over.
  void send_all_staged(std::vector<Rank> to, Chunk source);
  // target = message
  void recv(Rank from, Chunk target, int from_lane = -1);
  // target = source + message
  void recv_reduce(Rank from, Chunk source, Chunk target, int from_lane = -1);
  // target = canonical sum (by absolute rank) of `source` and one message from each of `from`
  void load_reduce(std::vector<Rank> from, Chunk source, Chunk target, int from_lane = -1);
  // target = source
  void copy(Chunk source, Chunk target);
  // target = target + source
  void reduce(Chunk source, Chunk target);

  const std::vector<Line>& lines() const { return lines_; }
  std::uint16_t number() const { return number_; }

 private:
  friend class Schedule;
  explicit Lane(std::uint16_t number) : number_(number) {}
  std::uint16_t number_;
  std::vector<Line> lines_;
};

// What one rank does. Every chunk is one of `parts` parts of its buffer; each lane is repeated
// for every tile of a part.
class Schedule {
 public:
  explicit Schedule(std::uint32_t parts) : parts_(parts) {}
  // Lane `number`, made when first named. Numbers are dense from 0.
  Lane& lane(int number = 0);
  std::uint32_t parts() const { return parts_; }
  // Parts of Scratch the lanes use: 1 + the highest part named, 0 without scratch.
  std::uint32_t scratch_parts() const;
  const std::deque<Lane>& lanes() const { return lanes_; }

 private:
  std::uint32_t parts_;
  std::deque<Lane> lanes_;  // references to lanes stay valid as others are made
};

}  // namespace wreath
