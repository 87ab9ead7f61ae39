// A rank is killed in the middle of a loop of calls. The tests look at the errors of the others, their time, and the
// things that are left.
#include <numeric>

#include "tests/support/host_device.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/resources.hpp"
#include "tests/support/transports.hpp"
#include "wreath/device.hpp"
#include "wreath/recording.hpp"

namespace wreath::testing_support::death {
namespace {

constexpr int kRanks = 4;

// Reduces `bytes` bytes until the communicator fails.
WREATH_ROLE(loop) {
  auto communicator = child.create();
  if (!communicator) return child.failed(communicator.error());
  const auto bytes = static_cast<std::size_t>(child.number("bytes"));
  std::vector<float> ordinary(bytes / sizeof(float));
  DeviceMemory device;
  std::span<float> buffer(ordinary);
  if (child.number("device") != 0) {
    device = host_device().allocate(bytes, MemoryUse::Exportable).value();
    buffer = {reinterpret_cast<float*>(device.data()), ordinary.size()};
  }
  for (std::int64_t round = 0;; ++round) {
    if (const Status status = communicator->all_reduce(buffer); !status) {
      const int code = child.failed(status.error());
      child.report("transport " + communicator->transport_to((child.rank() + 1) % child.ranks()));
      return code;
    }
    if (round == 3) child.report("running");
  }
}

struct Shape {
  std::string transport;
  std::int64_t bytes;
  std::string single_copy_bytes = "0";
  bool device = false;
};

// Kills `victim` and checks the errors of the others.
void kill_one(const Shape& shape, int victim, int delay_us) {
  const std::set<std::string> before = left_on_host();
  Job job("loop", kRanks,
          {{"transport", shape.transport},
           {"bytes", std::to_string(shape.bytes)},
           {"device", shape.device ? "1" : "0"},
           {"devices", shape.device ? "host" : ""}},
          {{"WREATH_SINGLE_COPY_BYTES", shape.device ? "auto" : shape.single_copy_bytes}});
  ASSERT_TRUE(job.share_id());
  ASSERT_TRUE(job.all_report("running", 30'000 * kSlower)) << job.logs();
  std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
  job[victim].signal(SIGKILL);
  const Deadline deadline = Deadline::after_ms(1'000 * kSlower);
  std::vector<Recording> recordings;
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == victim) continue;
    EXPECT_TRUE(job[rank].wait_for("error ", deadline.left_ms())) << "rank " << rank << " said nothing within 1 s";
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto ended = job[rank].join(10'000 * kSlower);
    if (rank == victim) continue;
    ASSERT_TRUE(ended.has_value()) << "rank " << rank << " did not end\n" << job.logs();
    EXPECT_EQ(*ended, 3) << job.logs();
    const auto failure = job[rank].failure();
    ASSERT_TRUE(failure.has_value()) << job.logs();
    EXPECT_EQ(failure->code, ErrorCode::PeerLost) << job.logs();
    EXPECT_EQ(failure->failed_rank, victim) << job.logs();
    EXPECT_NE(failure->message.find("rank " + std::to_string(victim) + " ("), std::string::npos) << failure->message;
    auto recording = read_recording(job.folder() / ("wreath-" + std::to_string(rank) + ".json"));
    ASSERT_TRUE(recording) << recording.error().message;
    recordings.push_back(std::move(*recording));
  }
  const std::vector<Diagnosis> told = diagnose(recordings);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].finding, Finding::PeerLost) << job.logs();
  EXPECT_EQ(told[0].culprits, std::vector<Rank>{victim});
  EXPECT_TRUE(nothing_left_since(before));
}

void kill_many(const Shape& shape) {
  if (shape.device && !test::has_host_device()) GTEST_SKIP() << test::kNeedsDevices;
  if (const std::string why = test::why_skipped(shape.transport); !why.empty())
    GTEST_SKIP() << why << test::kNeedsAdapters;
  const Resources before = resources_of();
  const int count = rounds(3, 50);
  for (int i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("round " + std::to_string(i));
    kill_one(shape, i % kRanks, i * 977 % 20'000);
  }
  const Resources after = resources_of();
  EXPECT_TRUE(after.same_counts(before)) << describe(before) << " -> " << describe(after);
}

TEST(Death, OverShmIsNamedByAllSurvivorsWithinASecond) { kill_many({"shm", 8 << 20}); }
TEST(Death, WhilePeersReadItsMemoryIsNamedByAllSurvivorsWithinASecond) { kill_many({"shm", 8 << 20, "1"}); }
TEST(Death, OverTcpIsNamedByAllSurvivorsWithinASecond) { kill_many({"tcp", 8 << 20}); }
TEST(Death, InCallsOnADevicesMemoryIsNamedByAllSurvivorsWithinASecond) { kill_many({"shm", 8 << 20, "0", true}); }
TEST(Death, InCallsOnADevicesMemoryOverTcpIsNamedByAllSurvivorsWithinASecond) {
  kill_many({"tcp", 1 << 20, "0", true});
}
TEST(Death, WhileItsMemoryIsReadForADeviceIsNamedByAllSurvivorsWithinASecond) {
  kill_many({"shm", 8 << 20, "1", true});
}
TEST(Death, WhilePeersMapItsDevicesMemoryIsNamedByAllSurvivorsWithinASecond) {
  kill_many({"shm,cuda_ipc", 8 << 20, "0", true});
}
TEST(Death, InSmallMessagesIsNamedByAllSurvivorsWithinASecond) { kill_many({"shm", 64}); }
TEST(Death, OverVerbsIsNamedByAllSurvivorsWithinASecond) { kill_many({"verbs", 256 << 10}); }
TEST(Death, OfSmallMessagesOverVerbsIsNamedByAllSurvivorsWithinASecond) { kill_many({"verbs", 64}); }
TEST(Death, OverOfiIsNamedByAllSurvivorsWithinASecond) { kill_many({"ofi", 256 << 10}); }
TEST(Death, OfSmallMessagesOverOfiIsNamedByAllSurvivorsWithinASecond) { kill_many({"ofi", 64}); }
TEST(Death, OfSmallMessagesOverTcpIsNamedByAllSurvivorsWithinASecond) { kill_many({"tcp", 64}); }

}  // namespace
}  // namespace wreath::testing_support::death
