// A network adapter writes by itself: it puts bytes into registered memory of a peer and tells the peer 32 bits. The
// pump of this folder knows networks by this interface alone, and each of them is one folder under transports/.
//
// One thread at a time uses an adapter and its channels: the holder of the communicator's token. Only
// deregister_memory() is called by any thread, while the holder is in another call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/dma_buf.hpp"
#include "wreath/result.hpp"

namespace wreath {

// So many adapters may share the messages of a link: its rails.
inline constexpr std::size_t kMostRails = 8;

// Memory that an adapter registered, as a peer names it.
struct RemoteMemory {
  std::uint64_t address = 0;  // of its first byte, as puts count it
  std::uint64_t key = 0;
  bool operator==(const RemoteMemory&) const = default;
};
// The same memory by rail: each adapter has a name of its own for it.
using RailMemories = std::vector<RemoteMemory>;

// Somebody makes what peers have put into memory of a device visible to the device's kernels and copies.
enum class Flusher : std::uint8_t {
  None,     // nobody: peers do not put there
  Device,   // DmaBufDevice::flush_adapter_writes(), for all adapters at once
  Adapter,  // Adapter::flush() of each adapter that has put there
};

// Memory that is registered with an adapter.
struct RegisteredMemory {
  std::uint64_t registration = 0;
  std::optional<RemoteMemory> remote;  // names the first byte to peers, where they may put
  Flusher flusher = Flusher::None;     // of memory of a device
};

struct PutLimits {
  std::uint32_t inline_bytes = 0;  // of the largest put whose memory needs no registration
  std::uint64_t put_bytes = 0;     // of the largest put
  std::uint32_t outstanding = 0;   // puts of a channel that have not ended
  // A put that tells arrives after all puts that its channel took before it.
  bool ordered = false;
  std::uint32_t told_bits = 32;  // a put tells a number of so many bits
  std::uint32_t rails = 1;       // so many adapters, each with these limits, share the puts of a message
  bool polled = false;           // puts that were taken go on only while poll() is called
  bool shared = false;           // channels share what they go through: none of them is stopped alone
  // An adapter says within this time that a put has ended, or that its channel is lost. 0: it may take longer.
  std::int64_t silent_ms = 0;
};

struct Put {
  const std::byte* from = nullptr;
  std::uint32_t bytes = 0;         // may be 0
  std::uint64_t registration = 0;  // of the memory at `from`; 0: the bytes are copied before put() returns
  std::uint64_t to = 0;            // an address in the peer's memory
  std::uint64_t key = 0;           // of that memory
  std::optional<std::uint32_t> tells;
  bool optional = false;  // a peer that has left needs it no more, so that its failure is nobody's loss
  // PutEvent::Ended comes back with `number`. An ordered channel's event says so of all earlier puts, too.
  bool reports = false;
  std::uint64_t number = 0;
};

struct PutEvent {
  enum class Kind : std::uint8_t {
    Ended,  // the peer has the bytes of put `number` and was told; the adapter no longer reads its memory
    Told,   // the peer told `told`, and the bytes of that put are here
    Lost,   // the channel has failed: it takes no more puts before reset()
  };
  Kind kind = Kind::Ended;
  std::uint16_t channel = 0;  // Channel::index()
  std::uint32_t told = 0;
  std::uint64_t number = 0;
  // The reason of Lost. `retryable` says that a new connection may help: a link that was down, or retries that ran out.
  Error error{};
  bool retryable = false;
};

// A channel puts into the memory of one peer. It is a queue pair of verbs, or a peer's address at an endpoint.
class Channel {
 public:
  virtual ~Channel() = default;
  virtual std::uint16_t index() const = 0;   // among the adapter's channels
  virtual std::string describe() const = 0;  // "mlx5_0 port 1 gid 3"
  // Returns what the peer's connect() takes. It changes with reset().
  virtual std::vector<std::byte> address() const = 0;
  // Links the channel with the peer's. The bytes are a stranger's: Mismatch names what is wrong with them.
  virtual Status connect(std::span<const std::byte> theirs) = 0;
  // Hands puts to the adapter, at one doorbell. Returns how many it took, in order; fewer where it is full.
  virtual Result<std::size_t> put(std::span<const Put> puts) = 0;
  // Stops the channel. Returns true once the adapter neither reads nor writes memory for it, and poll() has given all
  // its events: a put that came here whole has told by then. Call it again, and poll(), until then. Peers' puts fail
  // from the first call on.
  virtual bool stop() = 0;
  // Makes a channel new that was stopped, or is settled: it has a new address, and waits for connect().
  virtual Status reset() = 0;

  // For a new connection, both ends take three steps where PutLimits::shared says so. Elsewhere stop() is all of them.

  // Begins no more puts. Returns true once all have ended or are given up. Call it again, and poll(), until then.
  virtual bool pause() { return stop(); }
  // Returns how many puts that tell have ended at the peer since connect(), once pause() is over. kUnknownTells says
  // that some may come late, or never.
  static constexpr std::uint32_t kUnknownTells = ~0U;
  virtual std::uint32_t tells() const { return 0; }
  // Takes what the peer's tells() said. Returns true once nothing comes of what it has put. Call it again, and poll(),
  // until then.
  virtual bool settle(std::uint32_t /*peer_tells*/) { return true; }
  // Says that the channel is of no more use, since its link has failed or its peer has left. No other channel waits for
  // it then. It takes no more puts, and stop() is asked as ever.
  virtual void give_up() {}
};

// An adapter is one port of the network, for one communicator.
class Adapter {
 public:
  virtual ~Adapter() = default;
  virtual std::string describe() const = 0;  // "mlx5_0 port 1"
  virtual PutLimits limits() const = 0;
  // Registers memory for puts from it and, where `remote` is true, for peers' puts into it. Returns a number that is
  // not 0.
  virtual Result<std::uint64_t> register_memory(std::span<std::byte> memory, bool remote) = 0;
  virtual RemoteMemory name(std::uint64_t registration) const = 0;
  // Registers memory of a device, which puts name from `address` on. Peers put there unless nobody flushes. The
  // descriptor may be closed afterwards. Returns Unavailable where the adapter takes no such memory.
  virtual Result<RegisteredMemory> register_device_memory(const DmaBuf& memory, std::byte* address, Flusher flusher) {
    static_cast<void>(memory), static_cast<void>(address), static_cast<void>(flusher);
    return Error{ErrorCode::Unavailable, "this transport registers no memory of devices"};
  }
  // Makes what this adapter has written to the device whose memory this is visible to the device, where it was
  // registered with Flusher::Adapter. It waits for that, 5 s at most. An error says that the device may not see it.
  virtual Status flush(const RemoteMemory& memory) {
    static_cast<void>(memory);
    return Error{ErrorCode::System, "this transport cannot flush memory of devices"};
  }
  // Ends a registration. No put that uses it is outstanding.
  virtual void deregister_memory(std::uint64_t registration) = 0;
  // Makes a channel whose peer may have `tells` puts that tell outstanding. All channels of an adapter have as many.
  virtual Result<std::unique_ptr<Channel>> make_channel(std::uint32_t tells) = 0;
  // Writes the events that have come to `events` and returns how many there were.
  virtual Result<std::size_t> poll(std::span<PutEvent> events) = 0;
  // Becomes readable when an event has come after arm(). It is there once there is a channel.
  virtual int descriptor() const = 0;
  // Prepares descriptor() for a sleep. Returns false where an event may have come already: poll first, then arm again.
  virtual bool arm() = 0;
  // Returns the next thing that the adapter says of itself, in words: "mlx5_0 port 1: the port went down".
  virtual std::optional<std::string> trouble() = 0;
  // Returns false where a new connection would fail at this end, as far as is known: the port is down.
  virtual bool usable() { return true; }
};

}  // namespace wreath
