// Transports move bytes between two ranks. Each is one folder under transports/ and one row of the table there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wreath/endpoint.hpp"
#include "wreath/link.hpp"
#include "wreath/result.hpp"
#include "wreath/wire_counts.hpp"

namespace wreath {

// Makes the links of one communicator that use this transport. It knows no algorithm and no other transport.
class Transport {
 public:
  virtual ~Transport() = default;
  // Says why the two ends could not be linked at all. Both ends get the same answer.
  virtual Status reachable(const Endpoint& self, const Endpoint& peer) const = 0;
  virtual Result<Offer> offer(const Endpoint& peer) = 0;
  virtual Result<std::unique_ptr<Link>> connect(const Endpoint& peer, Offer theirs) = 0;
  // Returns what its links have counted, without the transport's name. Only the driver of the links calls it.
  virtual WireCounts counts() const { return {}; }
};

class OwnSegment;  // src/fifo/segment.hpp

// A transport knows this about its communicator, and no more.
struct TransportContext {
  Endpoint self;
  int ranks;
  FifoShape shape;
  // Points to this rank's memory that peers map; it outlives the transport. It is null where mapped memory is not
  // available.
  OwnSegment* segment = nullptr;
  std::string_view faults = {};  // DebugOptions::faults
  bool single_copy = false;      // ranks read each other's memory through the kernel
  std::int64_t stall_ms = 0;     // Timeouts::stall_ms
  // A link has so many, where the row needs them. 0 means one, to which a link between hosts may add others.
  std::size_t streams = 1;
};

// Both ends of a link map memory of one process or of one host. With None a wire carries the bytes.
enum class SharedMemory : std::uint8_t { None, Process, Host };

// The rest of the library and the tools know a transport by its row; they compare no names.
struct TransportRow {
  std::string_view name;  // what users call it
  SharedMemory shares;
  // connect() takes connected, authenticated stream sockets as its offer's last descriptors.
  bool needs_stream;
  Result<std::unique_ptr<Transport>> (*make)(const TransportContext&);
  Status (*probe)() = nullptr;  // null: it can be used everywhere
  // Explains the way of a message of so many bytes, for `wreath plan explain`. Null where all go alike.
  MessageWay (*explain)(std::uint64_t bytes) = nullptr;

  // Says what the transport needs that this machine lacks.
  Status usable() const { return probe == nullptr ? Status() : probe(); }
  bool is_wire() const { return shares == SharedMemory::None; }
  bool links_processes() const { return shares != SharedMemory::Process; }
};

// Returns the table (transports/registry.cpp), in order of preference.
std::span<const TransportRow> transports() noexcept;
// Returns the row of that name; null when there is none.
const TransportRow* find_transport(std::string_view name) noexcept;
// Returns the names of the rows that link processes.
std::vector<std::string> transports_between_processes();
// Returns those of them that can be used here. Rows load libraries and open adapters to tell, and what libfabric opened
// does not work in processes that are forked afterwards.
std::vector<std::string> usable_between_processes();

// Ranks of several processes read each other's device memory in this way, beside a transport that maps the host's
// memory. Users allow it, and messages name it, as if it were a transport.
inline constexpr std::string_view kDeviceReach = "cuda_ipc";
// Returns the names that CommunicatorOptions::transports may have.
std::vector<std::string_view> transport_names();

// Makes a transport around another one, which then serves under the other's name.
struct DecoratorRow {
  std::string_view name;
  std::string_view TransportContext::*setting;  // used where this is not empty
  Status (*check)(std::string_view setting);    // InvalidArgument names what is wrong
  Result<std::unique_ptr<Transport>> (*make)(std::unique_ptr<Transport> inner, const TransportContext&);
};
// Returns the table (transports/registry.cpp), innermost first.
std::span<const DecoratorRow> transport_decorators() noexcept;

}  // namespace wreath
