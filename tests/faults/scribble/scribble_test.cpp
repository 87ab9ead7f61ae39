// A rank of another process scribbles over all the memory that its peer reads of it: slot headers, counters, flags. For
// all values the peer's results are right, or it ends with an error that names the scribbler. It never crashes, and
// never reads memory of its own in place of a message.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>

#include "src/fifo/access.hpp"
#include "src/fifo/segment.hpp"
#include "tests/support/control_segments.hpp"
#include "tests/support/host_device.hpp"
#include "tests/support/processes.hpp"
#include "wreath/device.hpp"
#include "wreath/memory.hpp"

namespace wreath::testing_support::scribble {
namespace {

constexpr std::size_t kFew = 25;  // floats in a message that a header cannot hold
// So many calls follow a draw that ends no communicator.
constexpr int kCalls = kSanitized ? 5 : 25;

// Large messages come to their reader in these ways.
enum Way : std::int64_t { Staged, ThroughTheKernel, ToBlocks, InSharedMemory };
constexpr int kWays = 4;

// These fields are in the scribbler's segment. `Every` means whole headers except their sequences.
enum class Field : std::uint8_t {
  Sequence,
  Epoch,
  Lane,
  Signature,
  Bytes,
  Flags,
  Region,
  Offset,
  Data,
  Every,
  Consumed,
  Aborted,
  Sleeping,
  Core,
  ReadsProcess,
  ReadsRegions,
  SmallFlag,
};
constexpr int kFields = static_cast<int>(Field::SmallFlag) + 1;

struct Draw {
  Field field;
  std::uint64_t value;
  bool flickers;  // the old value comes back at once
};

// Each way takes the same fields as the others, with other values.
Draw draw_of(int number, int way) {
  std::mt19937_64 random(static_cast<std::uint64_t>(number * 16 + way));
  const auto field = static_cast<Field>(number % kFields);
  std::vector<std::uint64_t> values{0, ~std::uint64_t{0}, random(), 1};
  if (field == Field::Region) values = {0, kLocalAddress, kDeviceAddress, kPeerAddress, kMaximumRegions, 9};
  if (field == Field::Flags) values = {kSlotInline, kSlotReference | kSlotInline, ~std::uint64_t{0}, kSlotReference};
  const auto place = static_cast<std::size_t>(number / kFields + way);
  return {field, values[place % values.size()], random() % 4 == 0};
}

// Returns whether peers can see that data is not the sender's. They cannot where only the data's place in its memory
// differs.
bool is_told(Field field) {
  return field != Field::Sequence && field != Field::Offset && field != Field::Data && field != Field::Every;
}

class Scribbler {
 public:
  Scribbler(std::byte* segment, const Draw& draw) : segment_(segment), draw_(draw) {
    thread_ = std::thread([this] {
      while (!stop_) pass();
    });
  }
  ~Scribbler() {
    stop_ = true;
    thread_.join();
  }

 private:
  template <typename T>
  void write(T& place, std::uint64_t value) const {
    auto& word = const_cast<volatile T&>(place);
    const T before = word;
    word = static_cast<T>(value);
    if (draw_.flickers) word = before;
  }
  void scribble(SlotHeader& slot) const {
    switch (draw_.field) {
      case Field::Sequence: return write(slot.sequence, draw_.value);
      case Field::Epoch: return write(slot.epoch, draw_.value);
      case Field::Lane: return write(slot.lane, draw_.value);
      case Field::Signature: return write(slot.signature, draw_.value);
      case Field::Bytes: return write(slot.bytes, draw_.value);
      case Field::Flags: return write(slot.flags, draw_.value);
      case Field::Region: return write(slot.region, draw_.value);
      case Field::Offset: return write(slot.offset, draw_.value);
      default: break;
    }
    for (std::byte& byte : slot.data) write(reinterpret_cast<std::uint8_t&>(byte), draw_.value);
    if (draw_.field == Field::Data) return;
    write(slot.bytes, draw_.value);
    write(slot.flags, draw_.value);
    write(slot.region, draw_.value);
    write(slot.offset, draw_.value);
  }
  void pass() const {
    auto& start = *reinterpret_cast<SegmentPrologue*>(segment_);
    const SegmentLayout layout(start.ranks,
                               {start.lanes, start.slot_count, start.slot_bytes, start.first_sequence, start.epoch});
    auto& reading = *reinterpret_cast<Reading*>(segment_ + layout.reads_at(0));
    switch (draw_.field) {
      case Field::Aborted: return write(start.aborted.value, draw_.value);
      case Field::Sleeping: return write(start.sleeping.value, draw_.value);
      case Field::Core: return write(start.core.value, draw_.value);
      case Field::ReadsProcess: return write(reading.process, draw_.value);
      case Field::ReadsRegions: return write(reading.regions, draw_.value);
      case Field::SmallFlag:
        for (std::size_t line = 0; line < 640; ++line) {
          write(*reinterpret_cast<std::uint64_t*>(segment_ + layout.small_area + line * 64 + 56), draw_.value);
        }
        return;
      default: break;
    }
    for (std::uint16_t lane = 0; lane < start.lanes; ++lane) {
      if (draw_.field == Field::Consumed) {
        write(reinterpret_cast<Counter*>(segment_ + layout.consumed_at(0, lane))->value, draw_.value);
        continue;
      }
      auto* const slots = reinterpret_cast<SlotHeader*>(segment_ + layout.slots_at(0, lane));
      for (std::uint32_t i = 0; i < start.slot_count; ++i) scribble(slots[i]);
    }
  }

  std::byte* segment_;
  Draw draw_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// Holds the buffers of a rank's calls; they are large where the way needs that.
class Buffers {
 public:
  explicit Buffers(std::int64_t way) : few_(kFew) {
    const std::size_t count = way == InSharedMemory ? 512 * 1024 : 64 * 1024;  // peers read the large ones in place
    const std::size_t bytes = count * sizeof(float);
    if (way == ToBlocks) {
      device_ = host_device().allocate(bytes, MemoryUse::Exportable).value();
      many_ = {reinterpret_cast<float*>(device_.data()), count};
    } else if (way == InSharedMemory) {
      shared_.emplace(std::move(allocate(bytes)).value());
      many_ = shared_->as<float>();
    } else {
      ordinary_.resize(count);
      many_ = ordinary_;
    }
  }
  std::span<float> few() { return few_; }
  std::span<float> many() { return many_; }
  void fill(float value) {
    const std::vector<float> all(many_.size(), value);
    test::copy_bytes(many_.data(), all.data(), many_.size_bytes()).value();
    std::fill(few_.begin(), few_.end(), value);
  }
  bool many_are(float value) {
    std::vector<float> seen(many_.size());
    test::copy_bytes(seen.data(), many_.data(), many_.size_bytes()).value();
    return std::all_of(seen.begin(), seen.end(), [&](float each) { return each == value; });
  }
  bool few_are(float value) {
    return std::all_of(few_.begin(), few_.end(), [&](float each) { return each == value; });
  }

 private:
  std::vector<float> few_;
  DeviceMemory device_;
  std::optional<Memory> shared_;
  std::vector<float> ordinary_;
  std::span<float> many_;
};

// Makes one call of each kind. `wrong` becomes true for data that the ranks have not sent.
Status call_all(Communicator& communicator, Buffers& buffers, bool& wrong) {
  const Rank me = communicator.rank();
  buffers.fill(static_cast<float>(me + 1));
  WREATH_TRY(communicator.all_reduce(buffers.many()));
  wrong = wrong || !buffers.many_are(3);
  buffers.fill(static_cast<float>(me + 1));
  WREATH_TRY(communicator.broadcast(buffers.many(), 1));
  wrong = wrong || !buffers.many_are(2);
  const std::span<float> few = buffers.few();
  buffers.fill(static_cast<float>(me + 1));
  WREATH_TRY(me == 0 ? communicator.send(std::span<const float>(few), 1) : communicator.recv(few, 0));
  buffers.fill(static_cast<float>(me + 1));
  WREATH_TRY(me == 0 ? communicator.recv(few, 1) : communicator.send(std::span<const float>(few), 0));
  wrong = wrong || !buffers.few_are(2);
  buffers.fill(static_cast<float>(me + 1));
  WREATH_TRY(communicator.all_reduce(few));
  wrong = wrong || !buffers.few_are(3);
  return {};
}

WREATH_ROLE(scribble) {
  const std::int64_t way = child.number("way");
  Buffers buffers(way);
  for (int number = 0; number < static_cast<int>(child.number("draws")); ++number) {
    auto communicator = child.create();
    if (!communicator) return child.failed(communicator.error());
    bool wrong = false;
    const Draw draw = draw_of(number, static_cast<int>(way));
    Status status = call_all(*communicator, buffers, wrong);
    std::optional<Scribbler> scribbler;
    if (child.rank() == 1) scribbler.emplace(test::own_control_segments().at(0), draw);
    for (int i = 0; status && i < kCalls; ++i) status = call_all(*communicator, buffers, wrong);
    if (child.rank() == 1) continue;  // a scribbler's errors say nothing
    child.report("draw " + std::to_string(number) + (wrong && is_told(draw.field) ? " wrong" : " right"));
    if (status) continue;
    child.report("named " + std::to_string(status.error().failed_rank) + " " + status.error().message);
  }
  child.report("over");
  return 0;
}

TEST(Scribble, OfARankNeitherCrashesItsPeerNorIsReadAsTheirs) {
  const int draws = rounds(kFields, 4 * kFields);
  std::vector<int> ways;
  for (int way = 0; way < kWays; ++way) {
    if (way != ToBlocks || test::has_host_device()) ways.push_back(way);
  }
  std::vector<std::unique_ptr<Job>> jobs;
  for (const int way : ways) {
    const bool pulled = way == ThroughTheKernel || way == ToBlocks;
    jobs.push_back(std::make_unique<Job>("scribble", 2,
                                         Arguments{{"transport", "shm"},
                                                   {"way", std::to_string(way)},
                                                   {"draws", std::to_string(draws)},
                                                   {"devices", way == ToBlocks ? "host" : ""},
                                                   {"stall_ms", "300"},
                                                   {"arrival_ms", "600"}},
                                         Arguments{{"WREATH_SINGLE_COPY_BYTES", pulled ? "1" : "0"}}));
  }
  std::vector<std::thread> sharing;
  for (const auto& job : jobs) sharing.emplace_back([&job, draws] { job->share_id(draws); });
  for (std::thread& thread : sharing) thread.join();
  int errors = 0;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    SCOPED_TRACE("way " + std::to_string(ways[i]));
    Job& job = *jobs[i];
    EXPECT_EQ(job[0].join(30'000 * kSlower), 0) << job.logs();
    int right = 0;
    for (const std::string& line : job[0].lines()) {
      right += line.starts_with("draw ") && line.ends_with(" right") ? 1 : 0;
      if (!line.starts_with("named ")) continue;
      ++errors;
      const bool its_clock = line.find(": timeout: ") != std::string::npos;  // the scribbler's clock may end first
      EXPECT_TRUE(line.starts_with("named 1 ") || its_clock) << line << "\n" << job.logs();
    }
    EXPECT_EQ(right, draws) << job.logs();
  }
  // Each way has so many draws. Most draws end a communicator.
  EXPECT_GT(errors, draws);
}

}  // namespace
}  // namespace wreath::testing_support::scribble
