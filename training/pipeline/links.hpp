// This file declares the links of a pipeline, which carry activations and gradients between neighbouring ranks, with a
// queue for each direction.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "training/compute/memory.hpp"
#include "training/mesh/group.hpp"

namespace wreath::training {

// Hands out equal buffers, which are used again and again within a step.
class BoundaryBuffers {
 public:
  BoundaryBuffers(MemoryAccounting& memory, std::size_t count) : memory_(&memory), count_(count) {}
  Buffer<float> take();
  void give(Buffer<float> buffer) { free_.push_back(std::move(buffer)); }
  // Frees all buffers and makes the next ones hold `count` floats. The caller has given all buffers back.
  void begin(std::size_t count) {
    clear();
    count_ = count;
  }
  // Frees the buffers that are not in use.
  void clear() noexcept { free_.clear(); }

 private:
  MemoryAccounting* memory_;
  std::size_t count_;
  std::vector<Buffer<float>> free_;
};

// One end of a queue of messages to or from one neighbour. The queue has a communicator of its own, so its calls wait
// for no other queue's. An empty link means that there is no such neighbour.
class Link {
 public:
  Link() = default;
  explicit Link(Group group) : group_(std::move(group)) {}

  // Posts the receive for the next message in the order of sending.
  void post_receive(BoundaryBuffers& buffers);
  // Returns the message of the first post_receive() that has not been received.
  Buffer<float> receive();
  // Sends a message and returns at once (see kQueuedMessages).
  void send(Buffer<float> message, BoundaryBuffers& buffers);
  void finish_sending(BoundaryBuffers& buffers);
  // Wakes both ends with an error; the buffers are not written or read any more.
  void abort() noexcept;
  // Frees, after abort(), the buffers in flight.
  void drop() noexcept { in_flight_.clear(); }

 private:
  struct InFlight {
    Buffer<float> buffer;
    Pending pending;
  };
  Rank peer() const noexcept { return 1 - group_->rank(); }

  std::optional<Group> group_;  // of two ranks
  std::deque<InFlight> in_flight_;
};

// The four links of one rank.
struct Links {
  Link activations_in;   // from the rank before
  Link activations_out;  // to the rank after
  Link gradients_in;     // from the rank after
  Link gradients_out;    // to the rank before
  std::array<Link*, 4> all() noexcept { return {&activations_in, &activations_out, &gradients_in, &gradients_out}; }
};

// Splits the communicator of `group`; every rank calls it. With `wrap` the first rank follows the last. Traffic counts
// under the name of `group`.
Result<Links> connect_links(Group& group, bool wrap);

}  // namespace wreath::training
