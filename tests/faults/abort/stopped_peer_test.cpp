// A peer is stopped in the middle of calls; the others abort and use their buffers for other data. Nothing may write
// into the buffers afterwards. The peer, continued, must not succeed with the new bytes.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <optional>

#include "tests/support/host_device.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/transports.hpp"
#include "wreath/device.hpp"
#include "wreath/memory.hpp"

namespace wreath::testing_support {
namespace {

constexpr int kRanks = 3;
constexpr float kPattern = 1e30f;

// Holds input and output of a rank, in ordinary memory, wreath::allocate's, or the host device's.
class Buffers {
 public:
  Buffers(std::size_t count, const std::string& memory) {
    if (memory == "device") {
      for (DeviceMemory& each : device_) {
        each = host_device().allocate(count * sizeof(float), MemoryUse::Exportable).value();
      }
      input = {reinterpret_cast<float*>(device_[0].data()), count};
      output = {reinterpret_cast<float*>(device_[1].data()), count};
    } else if (memory == "allocated") {
      memory_[0] = allocate(count * sizeof(float)).value();
      memory_[1] = allocate(count * sizeof(float)).value();
      input = memory_[0].as<float>().first(count);
      output = memory_[1].as<float>().first(count);
    } else {
      vectors_[0].resize(count);
      vectors_[1].resize(count);
      input = vectors_[0];
      output = vectors_[1];
    }
  }
  void fill(float in, float out) {
    fill(input, in);
    fill(output, out);
  }
  // Frees ordinary memory; large blocks leave the process at once.
  void free() {
    for (std::vector<float>& vector : vectors_) std::vector<float>().swap(vector);
    input = output = {};
  }
  static bool all(std::span<const float> buffer, float expected) {
    std::vector<float> values(buffer.size());
    EXPECT_TRUE(test::copy_bytes(values.data(), buffer.data(), buffer.size_bytes()));
    return std::all_of(values.begin(), values.end(), [&](float value) { return value == expected; });
  }

  std::span<float> input;
  std::span<float> output;

 private:
  static void fill(std::span<float> buffer, float value) {
    const std::vector<float> values(buffer.size(), value);
    EXPECT_TRUE(test::copy_bytes(buffer.data(), values.data(), buffer.size_bytes()));
  }

  DeviceMemory device_[2];
  Memory memory_[2];
  std::vector<float> vectors_[2];
};

Status reduce(Communicator& communicator, Buffers& buffers) {
  return communicator.all_reduce(std::span<const float>(buffers.input), buffers.output);
}
// Rank 0 gives its input to all. Adapters put it where the ranks want it.
Status broadcast(Communicator& communicator, Buffers& buffers) {
  return communicator.broadcast(buffers.input.data(), buffers.output.data(), buffers.input.size(), DataType::Float32,
                                0);
}

// Makes calls until the communicator fails. Returns how often a call succeeded with other data than `expected`.
int call_until_failure(const std::function<Status()>& call, const Buffers& buffers, std::optional<float> expected,
                       std::atomic<int>& calls) {
  int wrong = 0;
  for (;; ++calls) {
    if (!call()) return wrong;
    if (expected && !Buffers::all(buffers.output, *expected)) ++wrong;
  }
}

constexpr float kSum = kRanks * (kRanks + 1) / 2.0F;

// Returns how many bytes adapters put straight into this rank's outputs.
std::uint64_t landed_bytes(const Communicator& communicator) {
  std::uint64_t bytes = 0;
  for (const WireCounts& wire : communicator.wire_counts()) {
    for (const WireCounts::Count& count : wire.counts) bytes += count.name == "landed_bytes" ? count.number : 0;
  }
  return bytes;
}

void abort_and_keep(Child& child, Communicator& communicator, Buffers& buffers) {
  const std::int64_t start_ns = now_ns();
  const Status aborted = communicator.abort();
  const std::int64_t took_ms = (now_ns() - start_ns) / 1'000'000;
  buffers.fill(kPattern, kPattern);
  if (child.number("freed") != 0) buffers.free();
  child.report("aborted " + std::to_string(took_ms) + (aborted ? "" : " " + aborted.error().message));
  child.command();
  const bool kept = Buffers::all(buffers.input, kPattern) && Buffers::all(buffers.output, kPattern);
  child.report(kept ? "kept" : "changed");
}

WREATH_ROLE(aborting) {
  const auto count = static_cast<std::size_t>(child.number("count"));
  std::uint64_t landed = 0;  // by one communicator, at most
  for (std::int64_t i = 0; i < child.number("rounds"); ++i) {
    auto communicator = child.create();
    if (!communicator) return child.failed(communicator.error());
    Buffers buffers(count, child.text("memory"));
    buffers.fill(static_cast<float>(child.rank() + 1), 0);
    std::atomic<int> calls{0};
    std::atomic<int> wrong{0};
    const bool stopped = child.rank() == i % child.ranks();
    const bool broadcasts = child.number("broadcasts") != 0;
    const auto call = [&] {
      Status done = (broadcasts ? broadcast : reduce)(*communicator, buffers);
      if (done && broadcasts) landed = std::max(landed, landed_bytes(*communicator));
      return done;
    };
    const auto expected = stopped ? std::optional(broadcasts ? 1.0F : kSum) : std::nullopt;
    std::thread caller([&] { wrong = call_until_failure(call, buffers, expected, calls); });
    eventually(20'000, [&] { return calls > 2 || !communicator->error(); });
    if (const Status early = communicator->error(); !early) child.failed(early.error());
    child.report("running");
    if (child.command() == "abort") {
      abort_and_keep(child, *communicator, buffers);
      caller.join();
    } else {
      caller.join();
      child.report("ended " + std::to_string(wrong));
    }
    child.command();
  }
  // Rank 0 sends, and gets nothing. Under a sanitizer ranks are too slow for places.
  const bool lands = child.number("broadcasts") != 0 && child.rank() != 0 && !kSanitized;
  return lands && landed == 0 ? 1 : 0;
}

struct Case {
  friend void PrintTo(const Case& shape, std::ostream* out) { *out << shape.name; }
  std::string name;
  std::string transport;
  std::size_t count;
  std::string memory = "ordinary";
  bool single_copy = false;  // peers read ordinary memory in place
  bool freed = false;        // after the abort
  bool broadcasts = false;   // and does not reduce
};

class StoppedPeer : public ::testing::TestWithParam<Case> {};

void stop_and_abort(Job& job, int stopped, int delay_us) {
  ASSERT_TRUE(job.share_id()) << job.logs();
  ASSERT_TRUE(job.all_report("running", 30'000 * kSlower)) << job.logs();
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_FALSE(job[rank].failure()) << job.logs();
  std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
  job[stopped].signal(SIGSTOP);
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank != stopped) job[rank].command("abort");
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == stopped) continue;
    ASSERT_TRUE(job[rank].wait_for("aborted", 3'000 * kSlower)) << "abort did not return\n" << job.logs();
    const std::string line = job[rank].lines().back();
    EXPECT_EQ(line.find(' ', 8), std::string::npos) << line;
    EXPECT_LE(std::stoi(line.substr(8)), 1'000 * kSlower);
  }
  job[stopped].signal(SIGCONT);
  job[stopped].command("watch");
  ASSERT_TRUE(job[stopped].wait_for("ended", 10'000 * kSlower)) << "the continued rank does not end\n" << job.logs();
  EXPECT_EQ(job[stopped].lines().back(), "ended 0") << "it succeeded with wrong data";
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == stopped) continue;
    job[rank].command("check");
    ASSERT_TRUE(job[rank].line(10'000 * kSlower));
    EXPECT_EQ(job[rank].lines().back(), "kept") << "rank " << rank;
  }
}

TEST_P(StoppedPeer, NeitherWritesNorReadsBuffersAfterAnAbort) {
  const Case& shape = GetParam();
  if (shape.memory == "device" && !test::has_host_device()) GTEST_SKIP() << test::kNeedsDevices;
  if (const std::string why = test::why_skipped(shape.transport); !why.empty())
    GTEST_SKIP() << why << test::kNeedsAdapters;
  const int count = rounds(kSanitized ? 5 : 10, 250);
  Job job("aborting", kRanks,
          {{"transport", shape.transport},
           {"count", std::to_string(shape.count)},
           {"memory", shape.memory},
           {"devices", shape.memory == "device" ? "host" : ""},
           {"freed", shape.freed ? "1" : "0"},
           {"broadcasts", shape.broadcasts ? "1" : "0"},
           {"rounds", std::to_string(count)}},
          {{"WREATH_SINGLE_COPY_BYTES", shape.single_copy          ? "1"
                                        : shape.memory == "device" ? "auto"
                                                                   : "0"}});
  for (int i = 0; i < count && !HasFailure(); ++i) {
    SCOPED_TRACE("round " + std::to_string(i));
    stop_and_abort(job, i % kRanks, i * 1237 % 9'000);
    job.command_all("next");
  }
  for (int rank = 0; rank < kRanks && !HasFailure(); ++rank)
    EXPECT_EQ(job[rank].join(20'000 * kSlower), 0) << job.logs();
}

INSTANTIATE_TEST_SUITE_P(
    Abort, StoppedPeer,
    ::testing::Values(Case{"small_shm", "shm", 16}, Case{"small_tcp", "tcp", 16}, Case{"medium_shm", "shm", 64 << 10},
                      Case{"large_shm", "shm", 2 << 20}, Case{"single_copy_shm", "shm", 2 << 20, "ordinary", true},
                      Case{"single_copy_freed_shm", "shm", 2 << 20, "ordinary", true, true},
                      Case{"large_tcp", "tcp", 2 << 20}, Case{"allocated_shm", "shm", 2 << 20, "allocated"},
                      Case{"allocated_tcp", "tcp", 2 << 20, "allocated"}, Case{"device_shm", "shm", 2 << 20, "device"},
                      Case{"device_mapped", "shm,cuda_ipc", 2 << 20, "device"},
                      Case{"device_tcp", "tcp", 2 << 20, "device"}, Case{"device_small_shm", "shm", 16, "device"},
                      Case{"small_verbs", "verbs", 16}, Case{"medium_verbs", "verbs", 64 << 10},
                      Case{"allocated_verbs", "verbs", 64 << 10, "allocated"}, Case{"small_ofi", "ofi", 16},
                      Case{"medium_ofi", "ofi", 64 << 10}, Case{"allocated_ofi", "ofi", 64 << 10, "allocated"},
                      Case{"landed_verbs", "verbs", 512 << 10, "allocated", false, false, true},
                      Case{"landed_ofi", "ofi", 512 << 10, "allocated", false, false, true}),
    [](const auto& shape) { return shape.param.name; });

// The ranks are threads, whose buffers peers read by address.
TEST(Abort, OfARankThatIsAThreadLeavesItsBuffersAlone) {
  for (int i = 0; i < rounds(20, 300); ++i) {
    CommunicatorOptions options;
    options.transports = {"inproc"};
    auto ranks = Communicator::create_local(kRanks, options).value();
    std::vector<std::thread> callers;
    std::vector<std::unique_ptr<Buffers>> buffers;
    std::vector<std::atomic<int>> calls(kRanks);
    std::atomic<int> wrong{0};
    for (int rank = 0; rank < kRanks; ++rank) {
      buffers.push_back(std::make_unique<Buffers>(1 << 20, "ordinary"));
      buffers.back()->fill(static_cast<float>(rank + 1), 0);
    }
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      const auto call = [&, rank] { return reduce(ranks[rank], *buffers[rank]); };
      callers.emplace_back([&, rank, call] {
        wrong += call_until_failure(call, *buffers[rank], rank != 0 ? std::optional(kSum) : std::nullopt, calls[rank]);
      });
    }
    eventually(20'000, [&] { return calls[0] > 1; });
    std::this_thread::sleep_for(std::chrono::microseconds(i * 737 % 5'000));
    EXPECT_TRUE(ranks[0].abort());
    buffers[0]->fill(kPattern, kPattern);
    for (std::thread& caller : callers) caller.join();
    EXPECT_TRUE(Buffers::all(buffers[0]->input, kPattern) && Buffers::all(buffers[0]->output, kPattern));
    EXPECT_EQ(wrong, 0) << "a rank succeeded with bytes of after the abort, round " << i;
  }
}

}  // namespace
}  // namespace wreath::testing_support
