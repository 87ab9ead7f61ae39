// A LaneGrid runs an operation's lanes as blocks of a device. It launches a grid of the lanes that are not over. The
// grid ends when these lanes are over, or when nothing moves for a while. It is launched again when something may move.
// So blocks keep their places only while they use them. The host gets time for its own work between two grids, such as
// memory to register or another grid's turn.
//
// One image holds all that blocks read and write of an operation: steps, ends of FIFOs, lanes. It is made in pinned
// memory. It is copied to the device's memory before each grid, because blocks look at it all the time. The parts that
// blocks change are copied back after the grid. Only the few words that the host looks at meanwhile stay in pinned
// memory. The ends of FIFOs in the image are copies; the links' own ends are as the last grid left them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/region.hpp"
#include "src/device/block_ledger.hpp"
#include "src/device/library_device.hpp"
#include "src/device/runs/adapter_access.hpp"
#include "src/engine/launch.hpp"
#include "src/executor/block/device_fifo.hpp"
#include "src/executor/block/run_lanes.hpp"
#include "src/executor/host.hpp"
#include "src/fifo/access.hpp"
#include "src/membership/links.hpp"

namespace wreath {

// Implements HostProcessor::read_device for messages that a LaneGrid has sent. Returns 0, or EIO where the copy fails.
int read_device(std::uint64_t device, std::byte* target, const std::byte* source, std::size_t bytes);

// Says how a launched grid ended. Dropped means that its stream has failed; the stream knows the reason.
enum class FlightEnd : std::uint8_t { None, Landed, Dropped };

// Only the driver uses it, for one operation after the other.
class LaneGrid {
 public:
  // Makes a grid with a stream of its own. `links` are the links that plans use. No message has more than `slot_bytes`
  // bytes. `ring` is called on any thread when run() should be called. Objects that `ring` refers to outlive the grid.
  static Result<std::unique_ptr<LaneGrid>> create(LibraryDevice& device, const Links& links, std::size_t slot_bytes,
                                                  std::function<void()> ring);
  ~LaneGrid();

  // Lets blocks use the memory that an end of a FIFO is in. Fails with Unavailable where the device cannot. Each end
  // needs this once, before a plan with that end is started; start() does it for new ends.
  Status let_in(const SendFifo& send);
  Status let_in(const RecvFifo& recv);

  // Makes blocks stop instead of waiting, from now on. A grid ends where it would wait, and is launched again when
  // something has come. This is for processes that use a device in turns.
  void set_paced() { run_.look_limit = 1; }

  // Begins the operation that `lanes` was started with; all its lanes are resident. `launch` belongs to that start, and
  // its Input and Output are memory of the device. `memory` is for AdapterAccess.
  Status start(LaneScheduler& lanes, const Launch& launch, std::vector<DeviceRange> memory);
  // Launches grids and takes their results; never waits. Returns Done when no block runs and all lanes are over in
  // `lanes`, too. Returns Failed when a lane has failed: see lanes.failed_lane(). An error comes from the device, or
  // says that memory was refused.
  Result<Advance> run();
  // Stops the grid that runs, though its lanes are not over. Returns true once no block runs.
  bool stop();
  // Returns how many blocks of the device run at once.
  int capacity() const { return capacity_; }
  // Loads all kernels, and returns how many blocks of any of them run at once.
  static Result<int> capacity_of(LibraryDevice& device);
  bool in_flight() const { return ended_ != nullptr; }
  // Returns the rank that the last grid still waited for when it ended.
  std::optional<Rank> waiting_for() const { return waiting_for_; }

 private:
  template <typename Image>
  void write(Image& image);
  // Returns the address at which blocks find a place of the image in their own memory.
  template <typename T>
  T* in_kernels(T* at) const {
    if (at == nullptr) return nullptr;
    const auto offset = reinterpret_cast<const std::byte*>(at) - image_.data();
    return reinterpret_cast<T*>(device_.address_in_kernels(in_device_.data()) + offset);
  }
  const Kernel& kernel() const;
  Status bring(std::size_t from, std::size_t to);
  Status fetch(std::size_t from, std::size_t to);
  Status make_image();
  DeviceSendFifo send_end(std::size_t i) const;
  DeviceRecvFifo recv_end(std::size_t i);
  Status make_places();
  Status refresh_regions();
  Status let_in(const void* data);
  bool moved();
  Status look_for_fault();
  std::uint64_t seen() const;
  Result<Advance> take_off();
  Status land();
  Status pull();
  bool lets_in(const SlotHeader& slot, const Located& located);
  static int read(std::byte* target, const RecvFifo& source, const SlotHeader& slot, const Located& located);
  Status pull_message(std::size_t i, const RecvFifo& source, const SlotHeader& slot, const Located& located);

  LaneGrid(LibraryDevice& device, const Links& links, std::size_t slot_bytes, std::function<void()> ring);

  // Memory of the host that blocks use. The region outlives its registration.
  struct HostMemory {
    std::shared_ptr<Region> region;
    std::shared_ptr<const void> entry;
  };

  LibraryDevice& device_;
  const Links& links_;
  AdapterAccess adapters_;
  std::size_t slot_bytes_;
  std::function<void()> ring_;
  BlockLedger& ledger_;
  std::unique_ptr<Stream> stream_;
  int capacity_ = 0;
  int threads_ = 0;
  // By the address where it begins. It is empty where blocks can use all memory of the host.
  std::map<const std::byte*, HostMemory> let_in_;
  DeviceMemory image_;   // pinned
  DeviceMemory places_;  // for Scratch and Partial
  // Holds the image except the words that the host and blocks share while blocks run.
  DeviceMemory in_device_;
  // Each source that needed one has a slot here, in pinned memory.
  std::vector<DeviceMemory> bounces_;
  // Memory that grew stays. To free it would wait for kernels that wait for this rank (low_latency_calls.hpp).
  std::vector<DeviceMemory> outgrown_;
  // Says for each allocation of another device of this process whether blocks may use it.
  std::map<std::pair<std::uint64_t, std::uint64_t>, bool> others_;
  // The allocation of another device that blocks were allowed to use last, by the link's end.
  std::map<const RecvFifo*, DeviceAllocation> reached_;
  bool told_copies_ = false;

  LaneScheduler* lanes_ = nullptr;
  Plan* plan_ = nullptr;
  Launch launch_;
  LaneRun run_{};
  // Counts the blocks that lanes got, so that all waiting lanes have their turn.
  std::size_t turn_ = 0;
  std::vector<std::uint16_t> flying_;              // lanes of the grid, by block
  std::shared_ptr<std::atomic<FlightEnd>> ended_;  // null: none is launched
  std::int64_t looked_for_fault_ns_ = 0;           // time of the last look
  // Offsets in the image. The shared words come first, then the data that blocks change, then the data that they only
  // read.
  struct Parts {
    std::size_t own = 0;
    std::size_t constant = 0;
    std::size_t end = 0;
  };
  Parts parts_;
  LaneState* lane_states_ = nullptr;  // by block
  DeviceSendFifo* sends_ = nullptr;
  DeviceRecvFifo* recvs_ = nullptr;
  SendFifo** targets_ = nullptr;
  RecvFifo** sources_ = nullptr;
  PulledMessage* pulled_ = nullptr;
  RegionView* views_ = nullptr;  // kMaximumRegions for each of tables_
  Counter* stop_ = nullptr;

  std::vector<const RegionView*> tables_;  // the links' own
  // The sum of all blocks' counters when run() looked last.
  std::uint32_t moved_ = 0;
  bool moved_in_flight_ = true;
  std::uint64_t seen_ = 0;
  std::optional<Rank> waiting_for_;
};

}  // namespace wreath
