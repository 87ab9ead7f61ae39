// LowLatencyCalls makes all_reduces that need no driver. Each is one kernel in the call's own stream, by the protocol
// LL (src/executor/block/low_latency_area.hpp). The host adds the kernel and does nothing else, so that a graph of such
// calls runs without the host. In exchange these calls have no number, no record and no trace.
//
// A rank's calls run one after the other, in whatever streams they are. Each call waits for the event behind the last
// one. In a graph it waits for the last call of the same capture. A launch of the graph waits for the call before it.
//
// A kernel waits until its peers come, for at most the arrival timeout. Some functions wait for a whole device: the one
// that frees its memory, and perhaps the one that allocates pinned memory. So they also wait for peers that are threads
// of this process on the same device. Therefore all memory that calls need is allocated before the first call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/device/block_ledger.hpp"
#include "src/device/library_device.hpp"
#include "src/device/library_stream.hpp"
#include "src/executor/block/low_latency.hpp"
#include "src/fifo/segment_memory.hpp"
#include "wreath/call.hpp"
#include "wreath/transport.hpp"

namespace wreath {

class LowLatencyCalls {
 public:
  struct Setup {
    Rank rank;
    int ranks;
    // The bytes of a call's vector in the form in which it travels.
    std::size_t most_bytes;
    // A kernel waits so long for a peer.
    std::int64_t arrival_ms;
    // The name is one_shot or two_shot. An empty name means a choice by size.
    std::string algorithm;
  };

  // Makes the calls of a device, and reserves room for their blocks until the end. Returns Unavailable where the device
  // has none.
  static Result<std::unique_ptr<LowLatencyCalls>> create(LibraryDevice& device, Setup setup);
  // Ends the calls that run. A call that its stream has not reached within a second keeps its memory.
  ~LowLatencyCalls();
  LowLatencyCalls(const LowLatencyCalls&) = delete;
  LowLatencyCalls& operator=(const LowLatencyCalls&) = delete;

  // Returns the offer by which a peer reaches this rank's area. The caller uses it before the first call.
  Result<Offer> offer(bool other_process);
  // Takes a peer's offer, so that this rank reaches its area. The caller uses it before the first call.
  Status accept(Rank peer, Offer theirs);
  // Prepares the calls, after all peers were accepted.
  Status prepare();

  // Says whether such a call is made this way. The answer is the same on all ranks that make the same call.
  bool takes(const Call& call) const;
  // Says how calls of so many bytes are made; empty: not this way.
  std::string plan_text(std::size_t bytes) const;

  using MakeGuard = std::function<std::shared_ptr<GraphGuard>()>;
  // Adds the call to its stream, or to this object's stream where the call has none. The returned event passes when the
  // call is over. Null means that the stream captures. The graph's launches then ask `guard`, which calls
  // before_graph() and after_graph(). One thread at a time may call it.
  Result<std::shared_ptr<Event>> launch(const Call& call, std::uint32_t signature, const MakeGuard& guard);

  // Any thread may call the functions below.
  Status before_graph(Stream& stream);
  Status after_graph(Stream& stream);
  // Says whether a call may still be running.
  bool in_flight();
  // Says how a block ended that is not done.
  std::optional<LowLatencyEnd> failure() const;
  // The error of a stream that had such calls ahead; kernels have been stopped then.
  std::optional<Error> stream_failure() const;
  // Makes kernels that wait give up now, and later kernels, too.
  void stop();

 private:
  class Events;
  class Streams;
  // Host and kernels share this in pinned memory.
  struct Shared {
    std::uint32_t stop;
    std::uint32_t ends[kLowLatencyBlocks];
  };
  // Kernels use this while they run.
  struct Memory {
    std::vector<std::shared_ptr<Region>> areas;  // by rank
    DeviceMemory table;                          // of the areas' addresses
    DeviceMemory shared;
    // The copies of an input and an output are in pinned memory.
    DeviceMemory copies;
    std::unique_ptr<Stream> stream;  // is destroyed first
  };
  // A Place says where kernels reach a buffer.
  struct Place {
    std::byte* data;
    // The place is a copy.
    bool copied = false;
    // The host makes that copy.
    bool by_host = false;
  };
  struct Move {
    std::byte* target;
    const std::byte* source;
    std::size_t bytes;
    bool by_host;
  };

  // Captured is the state of a graph, or of a capture that becomes one.
  struct Captured {
    // The guard lives as long as the graph.
    std::weak_ptr<GraphGuard> guard;
    std::shared_ptr<Event> last;  // behind the last call
  };

  LowLatencyCalls(LibraryDevice& device, Setup setup);
  Status make_memory();
  bool two_shot(std::size_t bytes) const;
  Status order(Stream& stream, std::uint64_t capture);
  Status pass(Stream& stream, std::uint64_t capture);
  void hold_frees();
  void expect_failures(Stream& stream, std::shared_ptr<Event> passed);
  Status add(Stream& stream, const Call& call, std::uint32_t signature);
  Status move(Stream& stream, const Move& copy) const;
  Result<Place> place_of(const Call& call, const std::byte* data, std::size_t at);
  Shared& shared() const { return *reinterpret_cast<Shared*>(memory_->shared.data()); }

  LibraryDevice& device_;
  Setup setup_;
  int threads_ = 0;  // of a block
  int blocks_ = 0;   // promised to this object
  std::unique_ptr<SegmentMemory> segments_;
  std::unique_ptr<Memory> memory_;
  std::shared_ptr<Events> events_;
  std::shared_ptr<Streams> streams_;

  std::mutex mutex_;
  // The event is behind the last call outside of graphs, or behind the last launch of a graph.
  std::shared_ptr<Event> last_;
  // The object delays frees while a call may be in flight.
  std::shared_ptr<const void> held_;
  // The flag is true between before_graph() and after_graph().
  bool launches_graph_ = false;
  std::map<std::uint64_t, Captured> captured_;
};

}  // namespace wreath
