// Programs are written as they are for NCCL: they use threads that drive ranks, groups, polls, watchdogs and aborts.
#include <gtest/gtest.h>
#include <nccl.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/surroundings.hpp"

namespace {

// The fixture sends recordings of failed communicators to a folder of their own.
class NcclPrograms : public testing::Test {
 protected:
  static void SetUpTestSuite() { recordings() = std::make_unique<wreath::test::RecordingsFolder>(); }
  static void TearDownTestSuite() { recordings().reset(); }

 private:
  static std::unique_ptr<wreath::test::RecordingsFolder>& recordings() {
    static std::unique_ptr<wreath::test::RecordingsFolder> folder;
    return folder;
  }
};

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int kRanks = 4;
// This is longer than any timeout of these programs: waiting so long is a failure.
constexpr auto kPatience = 20s;

ncclUniqueId new_id() {
  ncclUniqueId id{};
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess) << ncclGetLastError(nullptr);
  return id;
}

void on_threads(int threads, const std::function<void(int)>& body) {
  std::vector<std::jthread> running;
  for (int i = 0; i < threads; ++i) running.emplace_back([&, i] { body(i); });
}

// Waits for the end of an asynchronous call and returns its result.
ncclResult_t poll(ncclComm_t comm) {
  ncclResult_t result = ncclInProgress;
  const auto end = Clock::now() + kPatience;
  while (ncclCommGetAsyncError(comm, &result) == ncclSuccess && result == ncclInProgress && Clock::now() < end) {
    std::this_thread::sleep_for(1ms);
  }
  return result;
}

// Waits until the communicator reports an error.
ncclResult_t poll_error(ncclComm_t comm) {
  ncclResult_t result = ncclSuccess;
  const auto end = Clock::now() + kPatience;
  while (ncclCommGetAsyncError(comm, &result) == ncclSuccess && (result == ncclSuccess || result == ncclInProgress) &&
         Clock::now() < end) {
    std::this_thread::sleep_for(1ms);
  }
  return result;
}

ncclResult_t sum_in_place(std::vector<float>& data, ncclComm_t comm) {
  return ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, nullptr);
}

// Makes the communicators of all ranks from this thread.
std::vector<ncclComm_t> init_all(int ranks) {
  const ncclUniqueId id = new_id();
  std::vector<ncclComm_t> comms(static_cast<std::size_t>(ranks));
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(ncclCommInitRank(&comms[static_cast<std::size_t>(rank)], ranks, id, rank), ncclSuccess);
  }
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  return comms;
}

void destroy_all(const std::vector<ncclComm_t>& comms) {
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess) << ncclGetLastError(nullptr);
}

TEST_F(NcclPrograms, RanksOnThreadsSumWithOneIdBetweenThem) {
  const ncclUniqueId id = new_id();
  on_threads(kRanks, [&](int rank) {
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclCommInitRank(&comm, kRanks, id, rank), ncclSuccess) << ncclGetLastError(nullptr);
    int value = -1;
    EXPECT_EQ(ncclCommUserRank(comm, &value), ncclSuccess);
    EXPECT_EQ(value, rank);
    EXPECT_EQ(ncclCommCount(comm, &value), ncclSuccess);
    EXPECT_EQ(value, kRanks);
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{1} << 20}) {
      const std::vector<float> input(count, static_cast<float>(rank + 1));
      std::vector<float> output(count, -1.0f);
      ASSERT_EQ(ncclAllReduce(input.data(), output.data(), count, ncclFloat32, ncclSum, comm, nullptr), ncclSuccess);
      EXPECT_EQ(output, std::vector<float>(count, 10.0f)) << "count " << count;
    }
    EXPECT_EQ(ncclCommFinalize(comm), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

TEST_F(NcclPrograms, OneThreadIsAllRanks) {
  const std::vector<ncclComm_t> comms = init_all(kRanks);
  for (const std::size_t count : {std::size_t{100}, std::size_t{3} << 20}) {
    std::vector<std::vector<float>> data;
    for (int rank = 0; rank < kRanks; ++rank) data.emplace_back(count, static_cast<float>(rank + 1));
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (std::size_t rank = 0; rank < kRanks; ++rank) EXPECT_EQ(sum_in_place(data[rank], comms[rank]), ncclSuccess);
    EXPECT_EQ(data[0][0], 1.0f) << "nothing runs before the group ends";
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
    for (const auto& sums : data) EXPECT_EQ(sums, std::vector<float>(count, 10.0f));
  }
  destroy_all(comms);
}

TEST_F(NcclPrograms, SeveralCallsOfEachRankInOneGroupOfOneThread) {
  const std::vector<ncclComm_t> comms = init_all(2);
  constexpr std::size_t kCalls = 8;
  std::vector<std::vector<float>> data;
  for (std::size_t i = 0; i < 2 * kCalls; ++i)
    data.emplace_back(1000 * (i % kCalls + 1), static_cast<float>(i / kCalls + 1));
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (std::size_t i = 0; i < data.size(); ++i) EXPECT_EQ(sum_in_place(data[i], comms[i / kCalls]), ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  for (const auto& sums : data) EXPECT_EQ(sums, std::vector<float>(sums.size(), 3.0f));
  destroy_all(comms);
}

TEST_F(NcclPrograms, TwoCommunicatorsInOneGroupInAnyOrder) {
  const std::array<ncclUniqueId, 2> ids = {new_id(), new_id()};
  on_threads(kRanks, [&](int rank) {
    std::array<ncclComm_t, 2> comms{};
    for (std::size_t i = 0; i < 2; ++i) ASSERT_EQ(ncclCommInitRank(&comms[i], kRanks, ids[i], rank), ncclSuccess);
    for (int turn = 0; turn < 20; ++turn) {
      std::array<std::vector<float>, 2> data = {std::vector<float>(200'000, 1.0f), std::vector<float>(300, 2.0f)};
      const auto first = static_cast<std::size_t>((rank + turn) % 2);
      ASSERT_EQ(ncclGroupStart(), ncclSuccess);
      EXPECT_EQ(sum_in_place(data[first], comms[first]), ncclSuccess);
      EXPECT_EQ(sum_in_place(data[1 - first], comms[1 - first]), ncclSuccess);
      ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
      EXPECT_EQ(data[0], std::vector<float>(200'000, 4.0f));
      EXPECT_EQ(data[1], std::vector<float>(300, 8.0f));
    }
    for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

TEST_F(NcclPrograms, GroupsNestAndTheOutermostRuns) {
  const std::vector<ncclComm_t> comms = init_all(2);
  std::array<std::vector<float>, 2> data = {std::vector<float>(10, 1.0f), std::vector<float>(10, 2.0f)};
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(sum_in_place(data[rank], comms[rank]), ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    EXPECT_EQ(data[rank][0], static_cast<float>(rank + 1));
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(data[0], std::vector<float>(10, 3.0f));
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  destroy_all(comms);
}

TEST_F(NcclPrograms, NonBlockingRanksOfOneThreadArePolled) {
  const ncclUniqueId id = new_id();
  std::array<ncclComm_t, kRanks> comms{};
  for (int rank = 0; rank < kRanks; ++rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ASSERT_EQ(ncclCommInitRankConfig(&comms[static_cast<std::size_t>(rank)], kRanks, id, rank, &config),
              ncclInProgress);
  }
  for (ncclComm_t comm : comms) ASSERT_EQ(poll(comm), ncclSuccess) << ncclGetLastError(comm);
  std::vector<std::vector<float>> data(kRanks, std::vector<float>(500'000, 1.0f));
  for (std::size_t rank = 0; rank < kRanks; ++rank) EXPECT_EQ(sum_in_place(data[rank], comms[rank]), ncclInProgress);
  for (ncclComm_t comm : comms) ASSERT_EQ(poll(comm), ncclSuccess) << ncclGetLastError(comm);
  for (const auto& sums : data) EXPECT_EQ(sums, std::vector<float>(500'000, 4.0f));
  for (ncclComm_t comm : comms) {
    const ncclResult_t finalized = ncclCommFinalize(comm);
    EXPECT_TRUE(finalized == ncclSuccess || finalized == ncclInProgress);
    EXPECT_EQ(poll(comm), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  }
}

TEST_F(NcclPrograms, CallsBeforeAnInitIsOverAreRefusedAndAnAbortOfItReturnsAtOnce) {
  const ncclUniqueId id = new_id();
  std::array<ncclComm_t, 2> comms{};
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ASSERT_EQ(ncclCommInitRankConfig(comms.data(), 2, id, 0, &config), ncclInProgress);
  std::vector<float> data(10, 1.0f);
  EXPECT_EQ(sum_in_place(data, comms[0]), ncclInvalidUsage);
  ncclResult_t result = ncclSuccess;
  EXPECT_EQ(ncclCommGetAsyncError(comms[0], &result), ncclSuccess);
  EXPECT_EQ(result, ncclInProgress);
  const auto start = Clock::now();
  EXPECT_EQ(ncclCommAbort(comms[0]), ncclSuccess);
  EXPECT_LT(Clock::now() - start, 1s);
  // A peer that comes later learns of the abort at once.
  EXPECT_EQ(ncclCommInitRank(&comms[1], 2, id, 1), ncclRemoteError);
  EXPECT_EQ(comms[1], nullptr);
  EXPECT_LT(Clock::now() - start, kPatience);
}

TEST_F(NcclPrograms, AbortFromAnotherThreadWakesABlockedCall) {
  for (const std::size_t count : {std::size_t{100}, std::size_t{1} << 20}) {
    const std::vector<ncclComm_t> comms = init_all(2);
    std::vector<float> data(count, 1.0f);
    Clock::time_point woken;
    ncclResult_t result = ncclSuccess;
    std::jthread blocked([&] {
      result = sum_in_place(data, comms[0]);  // rank 1 never comes
      woken = Clock::now();
    });
    std::this_thread::sleep_for(200ms);
    const auto start = Clock::now();
    EXPECT_EQ(ncclCommAbort(comms[0]), ncclSuccess);
    blocked.join();
    EXPECT_LT(woken - start, 1s);
    EXPECT_EQ(result, ncclInternalError);
    EXPECT_EQ(data, std::vector<float>(count, 1.0f));
    EXPECT_EQ(poll_error(comms[1]), ncclRemoteError);
    EXPECT_EQ(ncclCommAbort(comms[1]), ncclSuccess);
  }
}

TEST_F(NcclPrograms, AWatchdogSeesThatAPeerAborted) {
  const std::vector<ncclComm_t> comms = init_all(3);
  EXPECT_EQ(ncclCommAbort(comms[2]), ncclSuccess);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const auto start = Clock::now();
    EXPECT_EQ(poll_error(comms[rank]), ncclRemoteError);
    EXPECT_LT(Clock::now() - start, 1s);
    EXPECT_NE(std::string(ncclGetLastError(comms[rank])).find("rank 2"), std::string::npos)
        << ncclGetLastError(comms[rank]);
    std::vector<float> data(10, 1.0f);
    EXPECT_EQ(sum_in_place(data, comms[rank]), ncclRemoteError) << "a failed communicator stays failed";
    EXPECT_EQ(ncclCommAbort(comms[rank]), ncclSuccess);
  }
}

TEST_F(NcclPrograms, APeersAbortEndsAGroupOfSeveralCommunicators) {
  const std::vector<ncclComm_t> healthy = init_all(2);
  const std::vector<ncclComm_t> broken = init_all(2);
  std::array<std::vector<float>, 3> data;
  data.fill(std::vector<float>(1000, 1.0f));
  std::jthread breaker([&] {
    std::this_thread::sleep_for(100ms);
    EXPECT_EQ(ncclCommAbort(broken[1]), ncclSuccess);
  });
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(sum_in_place(data[0], broken[0]), ncclSuccess);
  EXPECT_EQ(sum_in_place(data[1], healthy[0]), ncclSuccess);
  EXPECT_EQ(sum_in_place(data[2], healthy[1]), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclRemoteError);
  EXPECT_EQ(data[1], std::vector<float>(1000, 2.0f)) << "the other communicator is unharmed";
  breaker.join();
  EXPECT_EQ(ncclCommAbort(broken[0]), ncclSuccess);
  destroy_all(healthy);
}

TEST_F(NcclPrograms, RanksAreDestroyedInAnyOrder) {
  for (const std::array<std::size_t, 3>& order : {std::array<std::size_t, 3>{0, 1, 2}, {2, 1, 0}, {1, 2, 0}}) {
    const ncclUniqueId id = new_id();
    std::array<ncclComm_t, 3> comms{};
    // The ranks enter and are destroyed in the same order. The other ranks have left when the last one reads what they
    // sent.
    on_threads(3, [&](int thread) {
      const std::size_t rank = order[static_cast<std::size_t>(thread)];
      ASSERT_EQ(ncclCommInitRank(&comms[rank], 3, id, static_cast<int>(rank)), ncclSuccess);
      std::vector<float> data(300'000, 1.0f);
      std::this_thread::sleep_for(20ms * thread);
      EXPECT_EQ(sum_in_place(data, comms[rank]), ncclSuccess) << ncclGetLastError(nullptr);
      EXPECT_EQ(ncclCommDestroy(comms[rank]), ncclSuccess);
      EXPECT_EQ(data, std::vector<float>(300'000, 3.0f));
    });
  }
}

TEST_F(NcclPrograms, DestroyWaitsForWhatIsInFlight) {
  const ncclUniqueId id = new_id();
  std::array<std::vector<float>, 2> data;
  data.fill(std::vector<float>(1 << 20, 1.0f));
  on_threads(2, [&](int rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclCommInitRankConfig(&comm, 2, id, rank, &config), ncclInProgress);
    ASSERT_EQ(poll(comm), ncclSuccess);
    EXPECT_EQ(sum_in_place(data[static_cast<std::size_t>(rank)], comm), ncclInProgress);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    EXPECT_EQ(data[static_cast<std::size_t>(rank)], std::vector<float>(1 << 20, 2.0f));
  });
}

TEST_F(NcclPrograms, MistakesAreRefusedWithWords) {
  ncclComm_t comm = nullptr;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.magic = 1;
  const ncclUniqueId empty{};
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, empty, 0, &config), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(&comm, 2, empty, 2), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(nullptr, 1, empty, 0), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(&comm, 1, empty, 0), ncclInvalidArgument);
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("unique id"), std::string::npos);
  EXPECT_EQ(comm, nullptr);
  EXPECT_EQ(ncclGetUniqueId(nullptr), ncclInvalidArgument);

  const std::vector<ncclComm_t> comms = init_all(1);
  std::vector<float> data(10, 1.0f);
  EXPECT_EQ(ncclAllReduce(data.data(), data.data(), 10, static_cast<ncclDataType_t>(13), ncclSum, comms[0], nullptr),
            ncclInvalidArgument);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(data.data(), data.data(), 10, ncclFloat32, static_cast<ncclRedOp_t>(7), comms[0], nullptr),
            ncclInvalidArgument);
  EXPECT_EQ(sum_in_place(data, comms[0]), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument) << "the group's first error";
  EXPECT_EQ(sum_in_place(data, comms[0]), ncclSuccess);
  EXPECT_STREQ(ncclGetErrorString(ncclRemoteError),
               "another rank has ended, failed or aborted, or the way to it is broken");
  destroy_all(comms);
}

// The config has the fields of nccl.h 2.17, the shortest config that programs were built with.
TEST_F(NcclPrograms, AShorterConfigOfAnOlderHeaderIsRead) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.size = 48;
  config.version = 21700;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, new_id(), 0, &config), ncclInProgress);
  EXPECT_EQ(poll(comm), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

}  // namespace
