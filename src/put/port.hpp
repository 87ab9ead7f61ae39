// A port is an adapter with what the links of a communicator share of it: its events, its registrations, its counts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/fifo/local_fifo.hpp"
#include "src/put/adapter.hpp"
#include "src/put/registrations.hpp"
#include "wreath/result.hpp"
#include "wreath/wire_counts.hpp"

namespace wreath {

// Counts how messages went, and what that cost.
struct PutCounts {
  // Messages, by their way.
  std::uint64_t inlined = 0;       // beside the header, in a put that needs no registration
  std::uint64_t staged_small = 0;  // beside the header, in a registered slot
  std::uint64_t staged = 0;        // where the executor staged them
  std::uint64_t copied = 0;        // from memory that is not registered to where they could have been staged
  std::uint64_t by_reference = 0;  // where the caller has them

  std::uint64_t bytes = 0;         // of all these messages
  std::uint64_t copied_bytes = 0;  // of those that were copied, also beside a header

  std::uint64_t tails = 0;     // rests of messages that are longer than the largest put
  std::uint64_t repeated = 0;  // messages that were put again over new channels
  std::uint64_t credits = 0;
  std::uint64_t puts = 0;
  std::uint64_t doorbells = 0;
  std::uint64_t completions = 0;    // events of the adapter
  std::uint64_t registrations = 0;  // of slots and staging memory; regions are counted where they are registered

  std::uint64_t messages() const { return inlined + staged_small + staged + copied + by_reference; }
};

// A link takes the events of its channels.
class PutEventTaker {
 public:
  virtual ~PutEventTaker() = default;
  virtual void take(const PutEvent& event) = 0;
};

class PutPort {
 public:
  explicit PutPort(std::unique_ptr<Adapter> adapter);

  Adapter& adapter() const { return *adapter_; }
  const PutLimits& limits() const { return limits_; }
  PutCounts& counts() { return counts_; }
  const Registrations& registrations() const { return registrations_; }
  // Returns the counts that people ask for.
  WireCounts wire_counts() const;

  // Makes a channel whose events `taker` gets, until remove().
  Result<std::unique_ptr<Channel>> make_channel(std::uint32_t tells, PutEventTaker& taker);
  void remove(const Channel& channel);
  // Gives all events that have come to their links, those of the caller and of others.
  Status poll();
  // Prepares the adapter's descriptor for a sleep, as Wire::arm() says.
  bool arm();
  // Writes what the adapter says of itself to the log.
  void listen();
  // Returns the last thing that the adapter said of itself; empty for none.
  const std::string& trouble() const { return trouble_; }

  // Registers memory of this folder.
  Result<std::uint64_t> register_memory(std::span<std::byte> memory, bool remote);
  // Says that messages lie in this memory until remove_staging(). It is registered when the first one does.
  void add_staging(std::span<std::byte> memory);
  void remove_staging(const std::byte* begin);
  // Returns the registration of the memory of a message; nothing where it is not registered.
  Result<std::optional<std::uint64_t>> find(const std::byte* data, std::size_t bytes);

 private:
  struct Staging {
    std::span<std::byte> memory;
    std::uint64_t registration = 0;
  };

  std::unique_ptr<Adapter> adapter_;
  PutLimits limits_;
  Registrations registrations_;
  std::vector<PutEventTaker*> takers_;           // by the channel's index; null for none
  std::map<const std::byte*, Staging> staging_;  // by the address where it begins
  std::array<PutEvent, 32> events_;
  PutCounts counts_;
  std::string trouble_;
};

// Memory that is registered with a port's adapter, once that is needed.
class SlotMemory {
 public:
  explicit SlotMemory(PutPort& port) : port_(port) {}
  SlotMemory(const SlotMemory&) = delete;
  SlotMemory& operator=(const SlotMemory&) = delete;
  ~SlotMemory();

  // Allocates the memory; does nothing when it is there already.
  Status allocate(std::size_t bytes);
  // Registers it, with `remote` for peers' puts; does nothing when it is registered already.
  Status make_registered(bool remote);
  std::byte* data() const { return memory_.data(); }
  bool is_registered() const { return registration_ != 0; }
  std::uint64_t registration() const { return registration_; }
  RemoteMemory name() const { return port_.adapter().name(registration_); }

 private:
  PutPort& port_;
  LocalMemory memory_;
  std::size_t bytes_ = 0;
  std::uint64_t registration_ = 0;
};

}  // namespace wreath
