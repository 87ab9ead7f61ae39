// How bytes move between two ranks. One folder under transports/ and one row in its registry each.
//
// A transport yields, per peer and lane, a pair of FIFOs (fifo.hpp). Where both ends map the same
// memory that is all; where bytes must leave it, progress() is the pump that carries slots over a
// wire. A transport knows no algorithm and no other transport.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "wreath/fifo.hpp"
#include "wreath/result.hpp"
#include "wreath/types.hpp"

namespace wreath {

// The device that a rank's calls on device memory run on.
struct EndpointDevice {
  enum class Kind : std::uint8_t { None, Host, Cuda };
  Kind kind = Kind::None;
  std::array<std::uint8_t, 16> uuid = {};  // of a GPU, or of a part of one: equal means the same memory
  friend bool operator==(const EndpointDevice&, const EndpointDevice&) = default;
};

// A rank as its peers see it before they are linked.
struct Endpoint {
  Rank rank;
  std::uint64_t process;  // random per process: equal means the same address space
  std::uint64_t host;     // equal means shared memory and UNIX sockets may reach
  EndpointDevice device = {};
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
  bool checked = false;  // messages over a wire carry a checksum
};

// A peer's memory as this rank sees it, read only. Used by the small-message protocols.
struct MappedPeer {
  const std::byte* small_area = nullptr;  // kSmallAreaBytes
  const Counter* sleeping = nullptr;      // non-zero: the peer's driver sleeps and wants Link::wake()
  const Counter* aborted = nullptr;       // non-zero: data of the peer's slots may have been changed
  const Counter* core = nullptr;          // 1 + the core that the peer's driver waits on; 0: none was told
};
inline constexpr std::size_t kSmallMessageBytes = 16 * 1024;  // largest message of the small protocols
inline constexpr std::size_t kSmallAreaBytes = 33 * (kSmallMessageBytes + 2048);

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
  // `expecting`: a lane waits for a message of this peer; without it receiving may be tried less often.
  virtual Result<std::size_t> progress(bool /*expecting*/) { return std::size_t{0}; }
  // A descriptor that becomes readable when progress() may receive; -1: none.
  virtual int descriptor() const { return -1; }
  // Whether progress() has something to send that the wire would not take yet.
  virtual bool send_blocked() const { return false; }
  // Bytes, headers included, of published messages that the wire has not taken, be it full or the peer
  // short of slots. Until it is 0 progress() must go on being called, or the peer waits in vain.
  virtual std::size_t in_flight() const { return 0; }
  // Whether messages published to the peer would be lost if this end closed now. Any thread, while no driver is at
  // work.
  virtual bool closing_loses_data() const { return false; }
  // Wakes the peer's driver if it sleeps, after messages were published or consumed. Wires do so
  // by themselves.
  virtual void wake() {}
  // Learns of memory that the peer's slots will name as region `index` (see Region announcements in
  // docs/adding-a-transport.md). Called by the progress thread while the driver runs.
  virtual Status accept_region(std::uint32_t /*index*/, Offer) { return {}; }
  // Whether its slots may name regions, which the peer must be told of (accept_region).
  virtual bool names_regions() const { return mapped() != nullptr; }
  // Whether the peer reads this process's memory through the kernel (kPeerAddress), or why not; nullopt: nobody tried.
  virtual std::optional<Status> single_copy() const { return std::nullopt; }
  // What the two ends share beside FIFOs when they map each other's memory; null for a wire.
  virtual const MappedPeer* mapped() const { return nullptr; }
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

class OwnSegment;  // src/fifo/segment.hpp

// What a transport may know of its communicator.
struct TransportContext {
  Endpoint self;
  int ranks;
  FifoShape shape;
  // Of this rank, in the memory that the row names; outlives the transport. Null: mapped memory is not available.
  OwnSegment* segment = nullptr;
  std::string_view faults = {};  // DebugOptions::faults
  bool single_copy = false;      // ranks may read each other's memory through the kernel
};

struct TransportRow {
  std::string_view name;
  Result<std::unique_ptr<Transport>> (*make)(const TransportContext&);
};

// The table (transports/registry.cpp), in order of preference.
std::span<const TransportRow> transports() noexcept;
// The row of that name; null when there is none.
const TransportRow* find_transport(std::string_view name) noexcept;

// How ranks of several processes read each other's memory of a device, beside a transport that maps the host's: no
// transport, but allowed and named as if it were one.
inline constexpr std::string_view kDeviceReach = "cuda_ipc";
// The names that CommunicatorOptions::transports may have.
std::vector<std::string_view> transport_names();

// A transport around another one, which it serves under the other's name.
struct DecoratorRow {
  std::string_view name;
  std::string_view TransportContext::*setting;  // it is used where this is not empty
  Status (*check)(std::string_view setting);    // InvalidArgument names what is wrong
  Result<std::unique_ptr<Transport>> (*make)(std::unique_ptr<Transport> inner, const TransportContext&);
};
// The table (transports/registry.cpp), innermost first.
std::span<const DecoratorRow> transport_decorators() noexcept;

}  // namespace wreath
