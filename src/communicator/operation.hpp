// One call in flight on this rank.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/progress.hpp"
#include "src/base/region.hpp"
#include "src/device/library_device.hpp"
#include "src/executor/host.hpp"
#include "src/membership/question.hpp"
#include "src/tuner/tuner.hpp"
#include "wreath/call.hpp"
#include "wreath/recording.hpp"
#include "wreath/result.hpp"

namespace wreath {

class Engine;
class FlightRecorder;
class GroupWork;

// What the lanes of an operation start with: LaneScheduler::start's arguments.
struct Launch {
  Plan* plan = nullptr;
  OperationState state{};
  Arithmetic arithmetic{};  // none: bytes are moved as they are
  std::size_t resident = LaneScheduler::kAllResident;
  std::uint64_t bytes = 0;  // of the call: bytes_of(); of an own plan, all that is sent
  bool sends_only = false;  // an own plan that receives nothing
  // Of Input and Output: entries of the tables of their parts, and bytes from the buffer's start to the last part's
  // end.
  std::array<std::uint32_t, 2> table_parts{};
  std::array<std::uint64_t, 2> spans{};
};

// Where the buffers of an operation are.
struct CallMemory {
  LibraryDevice* device = nullptr;  // whose it is
  bool on_device = false;
  bool on_host = false;
  bool by_blocks = false;  // the device's blocks run the lanes; else the host does, on copies of what is a device's

  // Of no buffer at null.
  void add(const void* data);
};

class StagedBuffers;

// A plan that is made for one operation alone: the sends and receives of a group. Such an operation takes its turn
// among the calls but has no number: peers match its messages by their own. Its FIFOs are of kExchangeLane.
class OwnPlan {
 public:
  virtual ~OwnPlan() = default;
  // The program's thread, once, in the order in which operations take their turns: gives the messages their numbers.
  virtual void enter() = 0;
  // Then: writes them down. Returns the flight recorder's key.
  virtual std::uint64_t record(FlightRecorder& recorder) const = 0;
  // Driver, once, when its turn has come. What it refers to lives until the operation is over.
  // `memory`: as memory() said. What the host is to work on instead of a device's memory is added to `staged`, and
  // brought.
  virtual Result<Launch> launch(const CallMemory& memory, StagedBuffers& staged) = 0;
  virtual CallMemory memory() const = 0;
  // The number of its first message of the question's peer and subject; 0: none.
  virtual std::uint64_t first_number(const Question& question) const = 0;
  // "send #3 to rank 1 float32 x 100": what messages call it.
  virtual std::string describe() const = 0;
  // Driver, while `lanes` run it: what peers are to be asked when nothing moves.
  virtual std::vector<Question> questions(const LaneScheduler& lanes) const = 0;
};

class Operation {
 public:
  Operation() = default;
  explicit Operation(std::shared_ptr<Engine> owner) : engine(std::move(owner)) {}

  // Set once at the end, result first.
  bool over() const { return over_.load(std::memory_order_acquire) || (passed != nullptr && passed->done()); }
  void finish(std::optional<Error> error) {
    error_ = std::move(error);
    memory_in_use_.clear();
    over_.store(true, std::memory_order_release);
  }
  // Memory of wreath::allocate at `data` stays until the call is over, also where the program frees it.
  void use_memory(const void* data) {
    if (std::shared_ptr<Region> region = find_containing(data, 1)) memory_in_use_.emplace_back(std::move(region));
  }
  // Requires over().
  Status status() const { return error_ ? Status(*error_) : Status(); }
  // Begins anew, with counts and displacements of its own.
  void reset(const Call& next) {
    call = next;
    if (next.varying()) keep_blocks();
    started = false;
    moved = true;
    late = warned = false;
    entered_ns = 0;
    error_.reset();
    over_.store(false, std::memory_order_relaxed);
  }

  std::shared_ptr<Engine> engine;                      // of a Work: lives as long as its handle
  const std::uint32_t generation = fork_generation();  // another one: this is the child of a fork
  Call call;                                           // displacements are there wherever counts are
  std::unique_ptr<OwnPlan> own;                        // instead of `call`
  std::shared_ptr<GroupWork> group;                    // of the Works of a group's calls, which are its; no engine
  std::shared_ptr<Event> passed;                       // of a call that no driver runs: when it is over
  std::uint64_t number = 0;                            // 0: of an own plan
  std::uint64_t record = 0;                            // the flight recorder's key of it
  std::uint32_t signature = 0;
  std::atomic<bool> ready{true};  // false: its stream has not come to it yet
  bool started = false;
  bool moved = true;    // since the watch looked
  bool late = false;    // a peer is known not to have entered
  bool warned = false;  // ... and the program was told
  Choice choice;
  CallMemory memory;            // since it started
  std::int64_t entered_ns = 0;  // 0: the watch has not looked yet
  std::int64_t moved_ns = 0;

 private:
  void keep_blocks();

  std::vector<RegionUse> memory_in_use_;
  std::vector<std::size_t> blocks_;  // counts and displacements of the input, then of the output
  std::atomic<bool> over_{true};
  std::optional<Error> error_;
};

// Returns the name that messages use: "all_reduce #17".
std::string text_of(const Operation& operation);

}  // namespace wreath
