// A network in one process, whose adapters put when step() is called. Its whims are what real networks may do: parts in
// any order, torn copies, delays, losses, adapters that are full. Its rules are those of src/put/adapter.hpp, and
// violations() counts the breaches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "src/base/fd.hpp"
#include "src/put/adapter.hpp"

namespace wreath {

// Whims are what a network does to those who use it. A chance is one in so many; 0 is never.
struct Whims {
  PutLimits limits{.inline_bytes = 220, .put_bytes = 1 << 20, .outstanding = 64, .ordered = true};
  std::uint32_t seed = 1;
  bool torn = false;                 // copies come in pieces
  std::uint32_t full_chance = 0;     // a put() takes only a part
  bool full = false;                 // no put() takes anything
  std::uint32_t held_chance = 0;     // a poll() gives nothing though there is something
  std::uint32_t idle_chance = 0;     // a step() does nothing
  std::uint32_t stop_chance = 0;     // a stop() is not enough yet
  std::uint64_t lose_put = 0;        // the channel of the put of this number is lost: 1 is the first
  std::uint32_t lose_chance = 0;     // the channel of a put is lost
  bool retryable = true;             // after such a loss
  bool refuses_connections = false;  // new connections fail after the first ones
};

class TestAdapter;
class TestChannel;

class TestNetwork {
 public:
  explicit TestNetwork(const Whims& whims) : whims_(whims), random_(whims.seed) {}

  std::unique_ptr<Adapter> make_adapter(std::string name);
  // Does something for one channel. Returns false where there was nothing to do.
  bool step();
  // Does something for a channel of the adapter. Returns false where there was nothing to do.
  bool step(const Adapter& adapter);
  // Moves the newest put of the adapter's channels, on a network without order. Returns false where there is none.
  bool step_newest(const Adapter& adapter);
  // Lets a channel of the adapter be lost now.
  void lose(const Adapter& adapter, bool retryable, ErrorCode code = ErrorCode::PeerLost);
  Whims& whims() { return whims_; }
  // Counts uses that the interface forbids, and says which came last.
  int violations() const { return violations_; }
  const std::string& violation() const { return violation_; }
  // Tells this as if the peer of the adapter's first channel had.
  void forge_told(const Adapter& adapter, std::uint32_t told);
  // Returns registered memory that peers may put into, by its address.
  std::span<std::byte> remote_memory(std::uint64_t address) const;
  std::size_t registrations() const { return memories_.size(); }
  // Returns the puts of the adapter that have not arrived.
  std::size_t under_way(const Adapter& adapter) const;
  std::recursive_mutex& mutex() { return mutex_; }

 private:
  friend class TestAdapter;
  friend class TestChannel;
  struct Memory {
    std::span<std::byte> bytes;
    bool remote;
  };
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }
  bool chance(std::uint32_t one_in) { return one_in != 0 && random_() % one_in == 0; }
  void breach(const std::string& what);
  TestChannel* find(std::uint64_t id, std::uint32_t generation) const;

  Whims whims_;
  std::mt19937 random_;
  mutable std::recursive_mutex mutex_;
  std::map<std::uint64_t, Memory> memories_;  // by registration, which is its key
  std::vector<TestChannel*> channels_;
  std::uint64_t next_number_ = 1;
  std::uint64_t executed_ = 0;
  int violations_ = 0;
  std::string violation_;
};

class TestChannel final : public Channel {
 public:
  TestChannel(TestNetwork& network, TestAdapter& adapter, std::uint16_t index, std::uint32_t tells);
  ~TestChannel() override;
  std::uint16_t index() const override { return index_; }
  std::string describe() const override { return "test channel"; }
  std::vector<std::byte> address() const override;
  Status connect(std::span<const std::byte> theirs) override;
  Result<std::size_t> put(std::span<const Put> puts) override;
  bool stop() override;
  Status reset() override;
  bool settle(std::uint32_t peer_tells) override;
  void give_up() override;

 private:
  friend class TestNetwork;
  friend class TestAdapter;
  enum class State { Fresh, Connected, Lost, Stopped };
  struct Pending {
    Put put;
    std::vector<std::byte> inlined;
    std::uint32_t done = 0;
  };
  bool step();
  bool move(std::size_t at);
  void finish(std::size_t at);
  void lose(const std::string& reason, bool retryable, ErrorCode code = ErrorCode::PeerLost);
  void event(PutEvent event);

  TestNetwork& network_;
  TestAdapter& adapter_;
  const std::uint16_t index_;
  const std::uint32_t tells_;
  std::uint64_t id_;
  std::uint32_t generation_ = 1;
  State state_ = State::Fresh;
  bool let_go_ = false;  // stop() has returned true
  std::uint64_t peer_ = 0;
  std::uint32_t peer_generation_ = 0;
  std::deque<Pending> pending_;
};

class TestAdapter final : public Adapter {
 public:
  TestAdapter(TestNetwork& network, std::string name);
  ~TestAdapter() override;
  std::string describe() const override { return name_; }
  PutLimits limits() const override { return network_.whims_.limits; }
  Result<std::uint64_t> register_memory(std::span<std::byte> memory, bool remote) override;
  RemoteMemory name(std::uint64_t registration) const override;
  void deregister_memory(std::uint64_t registration) override;
  Result<std::unique_ptr<Channel>> make_channel(std::uint32_t tells) override;
  Result<std::size_t> poll(std::span<PutEvent> events) override;
  int descriptor() const override { return next_index_ == 0 ? -1 : descriptor_.get(); }
  bool arm() override;
  std::optional<std::string> trouble() override;

  void add_trouble(std::string text) { troubles_.push_back(std::move(text)); }
  bool usable() override {
    ++questions;
    return !down;
  }

  int questions = 0;  // whether it is usable
  int given_up = 0;   // channels
  int arms = 0;
  int polls = 0;
  bool down = false;        // its port: puts are lost, and new connections fail
  bool silent = false;      // its first channels put nothing, and say nothing of that
  bool held = false;        // by channels of other links: no channel settles
  bool renamed = false;     // its address fits no peer's
  std::uint64_t bytes = 0;  // that have left it

 private:
  friend class TestNetwork;
  friend class TestChannel;
  TestNetwork& network_;
  std::string name_;
  Fd descriptor_;
  bool armed_ = false;
  std::uint16_t next_index_ = 0;
  std::deque<PutEvent> events_;
  std::deque<std::string> troubles_;
};

}  // namespace wreath
