// A port is the adapters of a communicator, its rails, with what its links share of them: events, registrations,
// counts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/base/fd.hpp"
#include "src/fifo/local_fifo.hpp"
#include "src/put/adapter.hpp"
#include "src/put/rail_shares.hpp"
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

  std::uint64_t landed = 0;  // messages of peers that came to where their steps want them
  std::uint64_t landed_bytes = 0;
  std::uint64_t places = 0;    // that were named to peers
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
  virtual void take(std::size_t rail, const PutEvent& event) = 0;
};

// The registrations of a memory, one with each adapter of a port. All are 0 where it has none.
struct PortMemory {
  std::array<std::uint64_t, kMostRails> by_rail{};
  bool is_registered() const { return by_rail[0] != 0; }
};

class PutPort {
 public:
  explicit PutPort(std::unique_ptr<Adapter> adapter);
  // Takes one to kMostRails adapters, if they could be opened. System says that there is no way to wait for several.
  static Result<std::shared_ptr<PutPort>> make(Result<std::vector<std::unique_ptr<Adapter>>> adapters);

  std::size_t rails() const { return rails_.size(); }
  Adapter& adapter(std::size_t rail) const { return *rails_[rail]->adapter; }
  const Registrations& registrations(std::size_t rail) const { return rails_[rail]->registrations; }
  const std::string& name(std::size_t rail) const { return rails_[rail]->name; }  // "mlx5_0 port 1"
  // Names the rails, a bit each: "mlx5_0 port 1 + mlx5_1 port 1".
  std::string describe(std::uint32_t rails = ~0U) const;
  // Returns what all adapters can do.
  const PutLimits& limits() const { return limits_; }
  PutCounts& counts() { return counts_; }
  RailShares& shares() { return shares_; }
  // Returns the counts that people ask for.
  WireCounts wire_counts() const;

  // Makes a channel whose events `taker` gets, until remove().
  Result<std::unique_ptr<Channel>> make_channel(std::size_t rail, std::uint32_t tells, PutEventTaker& taker);
  void remove(std::size_t rail, const Channel& channel);
  // Lets descriptor() tell of the adapter, whose own descriptor may be a new one.
  Status watch(std::size_t rail);
  // Gives all events that have come to their links, those of the caller and of others.
  Status poll();
  // Polls for a link in its turn, unless another link has polled since this link's last turn, of which the link keeps
  // the number. So one link polls for all in each of the driver's rounds.
  Status poll_in_turn(std::uint64_t& turn);
  // Returns the number of the last turn in which a link polled.
  std::uint64_t turn() const { return turn_; }
  // Becomes readable when an event of any adapter has come after arm().
  int descriptor() const { return events_of_all_ ? events_of_all_.get() : adapter(0).descriptor(); }
  // Prepares descriptor() for a sleep, as Wire::arm() says. After the first of a port's links nothing is left to do for
  // the others until the next poll.
  bool arm();
  // Writes what the adapters say of themselves to the log.
  void listen();
  // Returns the last thing that an adapter said of itself; empty for none.
  const std::string& trouble() const { return trouble_; }

  // Registers memory of this folder with all adapters.
  Result<PortMemory> register_memory(std::span<std::byte> memory, bool remote);
  void deregister_memory(const PortMemory& memory);
  // Returns what peers call the memory.
  RailMemories remote(const PortMemory& memory) const;
  // Says that messages lie in this memory until remove_staging(). It is registered when the first one does.
  void add_staging(std::span<std::byte> memory);
  void remove_staging(const std::byte* begin);
  // Returns what peers call memory of the caller into which they may put; nothing where an adapter does not let them.
  std::optional<RailMemories> find_remote(const std::byte* data, std::size_t bytes);
  // Registers an allocation of a device with all adapters, as Registrations::let_in() says.
  Status let_in(const DeviceRange& memory);
  // Makes what peers have put at `data` over `rails`, a bit each, visible to the device whose memory that is. Does
  // nothing for the host's.
  Status flush(const std::byte* data, std::uint32_t rails);
  // Returns the registrations of the memory of a message; nothing where an adapter has none.
  Result<std::optional<PortMemory>> find(const std::byte* data, std::size_t bytes);

 private:
  struct Rail {
    explicit Rail(std::unique_ptr<Adapter> its_adapter)
        : adapter(std::move(its_adapter)), name(adapter->describe()), registrations(*adapter) {}
    std::unique_ptr<Adapter> adapter;
    std::string name;
    Registrations registrations;
    std::vector<PutEventTaker*> takers;  // by the channel's index; null for none
  };
  struct Staging {
    std::span<std::byte> memory;
    PortMemory registered;
  };
  explicit PutPort(std::vector<std::unique_ptr<Adapter>> adapters);
  Status poll(std::size_t rail);

  std::vector<std::unique_ptr<Rail>> rails_;
  PutLimits limits_;
  RailShares shares_;
  Fd events_of_all_;                             // where there are several adapters
  std::map<const std::byte*, Staging> staging_;  // by the address where it begins
  std::array<PutEvent, 32> events_;
  PutCounts counts_;
  std::uint64_t turn_ = 0;
  std::optional<bool> armed_;  // what arm() has returned since the last poll
  std::string trouble_;
};

// Memory that is registered with a port's adapters, once that is needed.
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
  bool is_registered() const { return registered_.is_registered(); }
  const PortMemory& registered() const { return registered_; }
  RailMemories remote() const { return port_.remote(registered_); }

 private:
  PutPort& port_;
  LocalMemory memory_;
  std::size_t bytes_ = 0;
  PortMemory registered_;
};

}  // namespace wreath
