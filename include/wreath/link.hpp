// A link to one peer has a FIFO in both directions for each lane (fifo.hpp), and a pump where a wire carries them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "wreath/fifo.hpp"
#include "wreath/result.hpp"
#include "wreath/types.hpp"

namespace wreath {

// Every FIFO of a communicator has this shape. It is equal on all ranks, but for `ring_bytes` and `ping_pong`.
struct FifoShape {
  std::uint16_t lanes;
  std::uint32_t slot_count;      // of the slots of a lane that have memory for data: a power of two
  std::uint32_t slot_bytes;      // a power of two
  std::uint32_t first_sequence;  // tests start just before the wrap
  std::uint16_t epoch;
  bool checked = false;                      // messages over a wire carry a checksum
  std::size_t ring_bytes = kLeastRingBytes;  // SendFifo::ring_bytes where peers map the slots
  bool ping_pong = false;                    // this rank fills PingPongSlots
  // Slots of the last lane, which exchanges use, may be larger where peers map them: a power of two, or 0.
  std::uint32_t exchange_slot_bytes = 0;
  // There may be more headers than slot_count where peers map them: a power of two, or 0.
  std::uint32_t mapped_headers = 0;

  // Returns the headers of a lane where peers map them.
  std::uint32_t headers() const { return mapped_headers > slot_count ? mapped_headers : slot_count; }
  // Returns the bytes of a slot where peers map it.
  std::uint32_t mapped_slot_bytes(std::uint16_t lane) const {
    return lane + 1 == lanes && exchange_slot_bytes > slot_bytes ? exchange_slot_bytes : slot_bytes;
  }
};

// The largest message of the small protocols, and the largest one of two ranks with a wide ring (tuner/ring.hpp).
inline constexpr std::size_t kSmallMessageBytes = 16 * 1024;
inline constexpr std::size_t kPairMessageBytes = 64 * 1024;
// The ring of blocks that ends the area of each of two ranks. It becomes present when it is first used.
inline constexpr std::size_t kPairRingBytes = 33 * (kPairMessageBytes + 64);
// The memory for the small protocols that each of two ranks lets the other one write.
inline constexpr std::size_t kSmallPingPongBytes = 39 * std::size_t{4096};
// Returns the bytes of a rank's area for the small protocols.
constexpr std::size_t small_area_bytes(int ranks) {
  return 33 * (kSmallMessageBytes + 2048) + (ranks == 2 ? kPairRingBytes : 0);
}
// The bounds of words (Wire::take_word): the bytes of one, and how many an end may say before the other end has taken
// the first of them.
inline constexpr std::size_t kMaximumWordBytes = std::size_t{8} * 1024;
inline constexpr std::size_t kMaximumWaitingWords = 64;

// One rank tells a peer in these bytes and descriptors how it can be reached. They are sent over the authenticated
// control connection. An offer owns its descriptors.
struct Offer {
  std::vector<std::byte> bytes;
  std::vector<int> descriptors;
  Offer() = default;
  Offer(Offer&& other) noexcept;
  Offer& operator=(Offer&& other) noexcept;
  ~Offer();
};

class Wire;
class MappedLink;    // src/fifo/mapped_link.hpp
class DmaBufDevice;  // src/base/dma_buf.hpp

// An allocation of a device, for wires whose adapters read and write memory of devices by themselves.
struct DeviceRange {
  DmaBufDevice* device = nullptr;
  std::uint64_t allocation = 0;      // its number, which no other allocation of the process has
  const std::byte* begin = nullptr;  // its first byte, as the program knows it
  std::byte* in_kernels = nullptr;   // the same byte, as slots and places name it
  std::size_t bytes = 0;
};

// Every link has this interface. One thread at a time drives a link: the holder of the communicator's token.
class Link {
 public:
  virtual ~Link() = default;
  virtual SendFifo& send_fifo(std::uint16_t lane) = 0;
  virtual RecvFifo& recv_fifo(std::uint16_t lane) = 0;
  // Makes sure that staging memory exists for `lane`; may allocate. It is called before this rank's first message of a
  // lane. The peer's first one may come sooner.
  virtual Status prepare(std::uint16_t lane) = 0;
  // Says whether messages published to the peer would be lost if this end closed now. Any thread may ask while no
  // driver is at work.
  virtual bool closing_loses_data() const = 0;
  // Returns the pump that carries the messages; null where both ends map the FIFOs.
  virtual Wire* wire() { return nullptr; }
  // Returns the memory of the peer that this process maps and that slots may name; null for none.
  virtual MappedLink* mapped() { return nullptr; }
};

// A wire carries messages out of the memory domain. Its FIFOs are in memory of this process.
class Wire : public Link {
 public:
  Wire* wire() final { return this; }
  // Moves all data that can be moved without waiting and returns the count of bytes. An error is final: the wire is
  // gone. `expecting` says that a lane waits for a message of this peer; without it the wire may try less often to
  // receive. Where wires have words, it is called between calls, too, as needs_progress() says.
  virtual Result<std::size_t> progress(bool expecting) = 0;
  // Returns a descriptor that becomes readable when progress() may receive; -1 when there is none.
  virtual int descriptor() const = 0;
  // Says whether progress() has something to send that the wire would not take yet; false once progress() has failed.
  virtual bool send_blocked() const = 0;
  // Counts the bytes, headers included, of published messages whose memory the wire may still read: it has not taken
  // them, the peer is short of slots, or an adapter reads them where they are. A call ends, and its memory is the
  // caller's, when this is 0. progress() must go on being called until then, or the peer waits in vain. Credit that the
  // peer was not told of does not count: a peer that is done may be gone.
  virtual std::size_t in_flight() const = 0;

  // The functions below are for wires whose adapter reads and writes memory by itself.

  // Prepares descriptor() for a sleep, before the last progress() ahead of it. Returns false where there is something
  // to receive already: the driver does not sleep, calls progress() and arms again before the next sleep.
  virtual bool arm() { return true; }
  // Ends the wire after a failure. Returns true once no adapter of this rank reads or writes callers' memory for it and
  // no peer can write any; call it again until then. A peer that maps memory may still read it. It never waits, and
  // progress() is not called any more. No call of this rank ends between the failure and that answer.
  virtual bool stop() { return true; }
  // Names what still holds memory while stop() returns false: "mlx5_0 port 1".
  virtual std::string held_by() const { return {}; }
  // Lets adapters read and write an allocation of a device by themselves, until it is released. Slots and places may
  // name it then. Returns Unavailable, with the reason, where they cannot: messages are staged in memory of the host.
  virtual Status let_in(const DeviceRange& memory) {
    static_cast<void>(memory);
    return Error{ErrorCode::Unavailable, "this transport does not reach memory of devices"};
  }
  // Takes note that the peer has left the communicator in order: all that it sent was taken by its adapter. Messages
  // that are here may still be read.
  virtual void on_peer_left() {}
  // Says whether the ends of such links say words to each other. The answer never changes, and is the same at both
  // ends.
  virtual bool has_words() const { return true; }
  // Returns the next word for the other end of the link, which the control connection carries; none while there is
  // nothing to say. A word has up to kMaximumWordBytes bytes, and no descriptors. The driver asks in each round, and
  // the progress thread asks when ranks have linked and between calls, after each word that comes.
  virtual std::optional<Offer> take_word() { return std::nullopt; }
  // Takes a word from the other end, in the order in which they were said. The bytes are a stranger's: Mismatch names
  // what is wrong with them, and fails the communicator. Between calls progress() follows it.
  virtual Status on_word(Offer word) {
    static_cast<void>(word);
    return {};
  }
  // Says whether what the wire took, or owes the peer, reaches it only if progress() goes on being called. Between
  // calls the progress thread calls it again and again while this or send_blocked() is true, until the peer has left;
  // else four times a second. A wire without words is neither asked nor called there.
  virtual bool needs_progress() const { return false; }
  // Describes the way that messages take, for people: "eth0", "mlx5_0 port 1 + mlx5_1 port 1".
  virtual std::string path() const { return {}; }
};

}  // namespace wreath
