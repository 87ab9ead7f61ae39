// An operation's lanes as blocks of a device: a grid of the lanes that are not over is launched, ends when they are or
// when nothing moves for a while, and is launched again when something may. So blocks keep their place only while they
// use it, and whatever the host must do between (memory to register, another grid's turn) finds its moment.
//
// All that blocks read and write of an operation (steps, ends of FIFOs, lanes) is one image, made in pinned memory and
// copied to the device's before each grid, since blocks look at it all the time; what they change is copied back after
// it. Only the few words that the host looks at meanwhile stay in pinned memory. The ends of FIFOs are copies; the
// links' own are as the last grid left them.
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
#include "src/engine/launch.hpp"
#include "src/executor/block/device_fifo.hpp"
#include "src/executor/block/run_lanes.hpp"
#include "src/executor/host.hpp"
#include "src/fifo/access.hpp"
#include "src/membership/links.hpp"

namespace wreath {

// HostProcessor::read_device, of messages that a LaneGrid has sent.
int read_device(std::uint64_t device, std::byte* target, const std::byte* source, std::size_t bytes);

// For the driver alone. One operation after the other.
// Says how a grid ended that was launched. Dropped: its stream has failed, and knows why.
enum class FlightEnd : std::uint8_t { None, Landed, Dropped };

class LaneGrid {
 public:
  // A stream of its own. No message has more than `slot_bytes`. `ring` is called, on any thread, when run() should be:
  // it outlives this.
  // `links` are those of plans.
  static Result<std::unique_ptr<LaneGrid>> create(LibraryDevice& device, const Links& links, std::size_t slot_bytes,
                                                  std::function<void()> ring);
  ~LaneGrid();

  // Lets blocks use the memory that ends of FIFOs lie in. Unavailable where the device cannot. Needed once for an end
  // before a plan with it is started; start() does it for those that are new.
  Status let_in(const SendFifo& send);
  Status let_in(const RecvFifo& recv);

  // From now on no block waits: a grid ends where it would, and is launched again when something has come. For
  // processes that use a device in turns.
  void set_paced() { run_.look_limit = 1; }

  // Begins what `lanes` was started with, all resident. `launch`: of that start; its Input and Output are the device's.
  Status start(LaneScheduler& lanes, const Launch& launch);
  // Launches and collects; never waits. Done: no block runs, and the lanes are over in `lanes`, too. Failed: see
  // lanes.failed_lane(). An error is the device's, or of memory.
  Result<Advance> run();
  // Ends the grid that runs, without an end of its lanes. True once no block runs.
  bool stop();
  // Blocks of the device that run at once.
  int capacity() const { return capacity_; }
  // Loads all kernels, and returns how many blocks of any of them run at once.
  static Result<int> capacity_of(LibraryDevice& device);
  bool in_flight() const { return ended_ != nullptr; }
  // As the last grid left it.
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
  std::size_t slot_bytes_;
  std::function<void()> ring_;
  BlockLedger& ledger_;
  std::unique_ptr<Stream> stream_;
  int capacity_ = 0;
  int threads_ = 0;
  std::map<const std::byte*, HostMemory> let_in_;  // by where it begins; none where blocks use all of the host's
  DeviceMemory image_;                             // pinned
  DeviceMemory places_;                            // of Scratch and Partial
  DeviceMemory in_device_;                         // the image but what the host and blocks share while blocks run
  std::vector<DeviceMemory> bounces_;              // pinned, a slot for each source that needed one
  // Memory that grew stays. To free it would wait for kernels that wait for this rank (low_latency_calls.hpp).
  std::vector<DeviceMemory> outgrown_;
  // Allocations of other devices of this process: whether blocks were let in.
  std::map<std::pair<std::uint64_t, std::uint64_t>, bool> others_;
  std::map<const RecvFifo*, DeviceAllocation> reached_;  // as blocks know it
  bool told_copies_ = false;

  LaneScheduler* lanes_ = nullptr;
  Plan* plan_ = nullptr;
  Launch launch_;
  LaneRun run_{};
  std::size_t turn_ = 0;                           // of lanes that want a block
  std::vector<std::uint16_t> flying_;              // lanes of the grid, by block
  std::shared_ptr<std::atomic<FlightEnd>> ended_;  // null: none is launched
  std::int64_t looked_for_fault_ns_ = 0;           // the last time
  // In the image. First what is shared; then what blocks change, and what they only read.
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
  std::uint32_t moved_ = 0;                // of all blocks, when run() looked last
  bool moved_in_flight_ = true;
  std::uint64_t seen_ = 0;
  std::optional<Rank> waiting_for_;
};

}  // namespace wreath
