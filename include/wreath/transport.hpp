// How bytes move between two ranks. One folder under transports/ and one row in its registry each.
//
// A transport yields, per peer and lane, a pair of FIFOs (fifo.hpp). Where both ends map the same
// memory that is all; where bytes must leave it, progress() is the pump that carries slots over a
// wire. A transport knows no algorithm and no other transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "wreath/fifo.hpp"
#include "wreath/result.hpp"
#include "wreath/types.hpp"

namespace wreath {

// A rank as its peers see it before they are linked.
struct Endpoint {
  Rank rank;
  std::uint64_t process;  // random per process: equal means the same address space
  std::uint64_t host;     // equal means shared memory and UNIX sockets may reach
};

// What one rank tells a peer so that it can be reached: bytes and descriptors, sent over the
// authenticated control connection. Owns its descriptors.
struct Offer {
  std::vector<std::byte> bytes;
  std::vector<int> descriptors;
  Offer() = default;
  Offer(Offer&& other) noexcept;
  Offer& operator=(Offer&& other) noexcept;
  ~Offer();
};

// The shape of every FIFO of a communicator; equal on all ranks.
struct FifoShape {
  std::uint16_t lanes;
  std::uint32_t slot_count;      // a power of two
  std::uint32_t slot_bytes;      // a power of two
  std::uint32_t first_sequence;  // where sequences start (tests start just before the wrap)
  std::uint16_t epoch;
};

// A link to one peer. Driven by one thread at a time (the holder of the communicator's token).
class Link {
 public:
  virtual ~Link() = default;
  virtual SendFifo& send_fifo(std::uint16_t lane) = 0;
  virtual RecvFifo& recv_fifo(std::uint16_t lane) = 0;
  // Makes sure staging memory exists for `lane`; may allocate. Called before a lane's first message.
  virtual Status prepare(std::uint16_t lane) = 0;
  // Pump: moves what can be moved without waiting; the count of bytes moved. An error is final and
  // says that the wire is gone. Links without a wire do nothing.
  virtual Result<std::size_t> progress() { return std::size_t{0}; }
  // A descriptor that becomes readable when progress() may receive; -1: none.
  virtual int descriptor() const { return -1; }
  // Whether progress() has something to send that the wire would not take yet.
  virtual bool send_blocked() const { return false; }
  // Bytes still to leave user memory that was sent by reference. 0: that memory may be reused.
  virtual std::size_t in_flight() const { return 0; }
};

// All links of one communicator that use this transport.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string_view name() const = 0;
  // Whether the two ends could be linked at all; symmetric. A reason when not.
  virtual Status reachable(const Endpoint& self, const Endpoint& peer) const = 0;
  // Whether connect() needs a connected, authenticated stream socket as the offer's descriptor.
  virtual bool needs_stream() const = 0;
  virtual Result<Offer> offer(const Endpoint& peer) = 0;
  virtual Result<std::unique_ptr<Link>> connect(const Endpoint& peer, Offer theirs) = 0;
};

// What a transport may know of its communicator.
struct TransportContext {
  Endpoint self;
  int ranks;
  FifoShape shape;
};

struct TransportRow {
  std::string_view name;
  Result<std::unique_ptr<Transport>> (*make)(const TransportContext&);
};

// The table (transports/registry.cpp), in order of preference.
std::span<const TransportRow> transports() noexcept;

}  // namespace wreath
