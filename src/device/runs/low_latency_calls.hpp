// All_reduces that need no driver: each is one kernel, in the call's own stream, by the protocol LL
// (src/executor/block/low_latency_area.hpp). The host adds it and does nothing else, so that a graph of such calls runs
// without the host. In exchange they stand beside the other calls: no number, no record, no trace.
//
// A rank's calls run one after the other, whatever streams they are in: each waits for the event behind the last one,
// in a graph for the last one of the same capture, and a launch of the graph for the call before it.
//
// A kernel waits for peers as long as they take. What waits for a whole device (freeing its memory does, allocating
// pinned memory may) therefore waits for peers that are threads of this process on the same device: all that calls need
// is allocated before the first.
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
    std::size_t most_bytes;   // of a call's vector, as it travels
    std::int64_t arrival_ms;  // how long a kernel waits for a peer
    std::string algorithm;    // one_shot or two_shot; empty: by size
  };

  // Takes a place for its blocks that lasts. Unavailable where the device has none.
  static Result<std::unique_ptr<LowLatencyCalls>> create(LibraryDevice& device, Setup setup);
  // Ends what runs. What a stream has not come to within a second keeps its memory.
  ~LowLatencyCalls();
  LowLatencyCalls(const LowLatencyCalls&) = delete;
  LowLatencyCalls& operator=(const LowLatencyCalls&) = delete;

  // Before the first call: how `peer` reaches this rank's area, and how this rank reaches a peer's.
  Result<Offer> offer(bool other_process);
  Status accept(Rank peer, Offer theirs);
  // All peers were accepted.
  Status prepare();

  // Whether such a call is made this way: the same on all ranks that make the same call.
  bool takes(const Call& call) const;
  // Says how calls of so many bytes are made; empty: not this way.
  std::string plan_text(std::size_t bytes) const;

  using MakeGuard = std::function<std::shared_ptr<GraphGuard>()>;
  // Adds the call to its stream, or, without one, to an own one. The event is passed when the call is over; null: the
  // stream captures, and `guard`, which calls before_graph() and after_graph(), is asked by the graph's launches. One
  // thread at a time.
  Result<std::shared_ptr<Event>> launch(const Call& call, std::uint32_t signature, const MakeGuard& guard);

  // Any thread from here on.
  Status before_graph(Stream& stream);
  Status after_graph(Stream& stream);
  // Whether a call may not be over yet.
  bool in_flight();
  // Says how a block ended that is not done.
  std::optional<LowLatencyEnd> failure() const;
  // The error of a stream that had such calls ahead; kernels have been stopped then.
  std::optional<Error> stream_failure() const;
  // Kernels that wait give up, those that come will.
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
    DeviceMemory table;                          // of their addresses
    DeviceMemory shared;
    DeviceMemory copies;             // pinned, of an input and an output
    std::unique_ptr<Stream> stream;  // ends first
  };
  // A buffer as kernels reach it.
  struct Place {
    std::byte* data;
    bool copied = false;   // it is a copy,
    bool by_host = false;  // which the host makes
  };
  struct Move {
    std::byte* target;
    const std::byte* source;
    std::size_t bytes;
    bool by_host;
  };

  // A graph, or what will be one.
  struct Captured {
    std::weak_ptr<GraphGuard> guard;  // lives as long as it
    std::shared_ptr<Event> last;      // behind its last call
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
  int blocks_ = 0;   // that are promised
  std::unique_ptr<SegmentMemory> segments_;
  std::unique_ptr<Memory> memory_;
  std::shared_ptr<Events> events_;
  std::shared_ptr<Streams> streams_;

  std::mutex mutex_;
  std::shared_ptr<Event> last_;       // behind the last call that is in no graph, or the last launch of a graph
  std::shared_ptr<const void> held_;  // frees, while a call may be in flight
  bool launches_graph_ = false;       // between before_graph() and after_graph()
  std::map<std::uint64_t, Captured> captured_;
};

}  // namespace wreath
