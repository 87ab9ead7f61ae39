// Counts what each way of a message costs: beside its header, copied, where the caller has it, in several writes; over
// one and over four queue pairs.
#include <sys/mman.h>

#include <chrono>
#include <thread>

#include "tests/conformance/verbs/verbs_ranks.hpp"
#include "tests/support/processes.hpp"

namespace wreath::test {
namespace {

using testing_support::rounds;

constexpr std::size_t kMiB = 1 << 20;

class VerbsWays : public VerbsRanks, public testing::WithParamInterface<int> {
 protected:
  static LocalRanks ranks_with(std::size_t tile_bytes = 0) {
    CommunicatorOptions options = VerbsRanks::options();
    options.overrides.tile_bytes = tile_bytes;
    options.overrides.lanes = 1;
    return {2, options};
  }
  // Returns what a second round of the same messages costs.
  FakeCounters cost_of(LocalRanks& ranks, std::span<std::byte> memory, std::size_t messages) {
    fill(memory);
    send_all(ranks, memory, messages);
    const FakeCounters before = fake.counters();
    fill(memory);
    send_all(ranks, memory, messages);
    return between(before, fake.counters());
  }
  Environment queue_pairs_{{{"WREATH_IB_QUEUE_PAIRS", std::to_string(GetParam())}}};
};

TEST_P(VerbsWays, SmallMessagesGoBesideTheirHeaders) {
  constexpr std::size_t kMessages = 200;
  LocalRanks ranks = ranks_with();
  for (const std::size_t bytes : {std::size_t{64}, std::size_t{2048}}) {
    std::vector<std::byte> memory(kMessages * bytes);
    const FakeCounters cost = cost_of(ranks, memory, kMessages);
    EXPECT_EQ(cost.registrations, 0U);
    EXPECT_EQ(cost.inlined, bytes == 64 ? kMessages : 0) << "others are copied";
    EXPECT_LE(cost.writes, kMessages * 5 / 4) << "credits are rare";
    EXPECT_GE(cost.bytes, kMessages * (bytes + 64));
  }
}

// Expects four writes and doorbells of the sender, and one write of the receiver that gives credit, in each MiB.
void expect_few_writes(const FakeCounters& cost, std::size_t mebibytes) {
  const std::size_t messages = 2 * mebibytes;
  const std::uint64_t credits = cost.immediates - messages;
  EXPECT_EQ(cost.registrations, 0U);
  EXPECT_LE(cost.writes - credits, 4 * mebibytes);
  EXPECT_LE(credits, mebibytes + 1);
  EXPECT_LE(cost.doorbells, 4 * mebibytes);
}

TEST_P(VerbsWays, LargeMessagesAreStagedByFourWritesAMebibyte) {
  LocalRanks ranks = ranks_with(kMiB / 2);
  std::vector<std::byte> memory(8 * kMiB);
  expect_few_writes(cost_of(ranks, memory, 8), 8);
}

TEST_P(VerbsWays, AllocatedMemoryIsReadWhereItIsAndRegisteredOnce) {
  LocalRanks ranks = ranks_with(kMiB / 2);
  std::vector<std::byte> ordinary(kMiB);
  cost_of(ranks, ordinary, 1);  // registers slots and staging
  const std::uint64_t before = fake.counters().registered;
  {
    Memory memory = allocate(8 * kMiB).value();
    expect_few_writes(cost_of(ranks, memory.as<std::byte>(), 8), 8);
    EXPECT_EQ(fake.counters().registered, before + 1);
  }
  EXPECT_EQ(fake.counters().registered, before) << "released memory is not registered";
}

TEST_P(VerbsWays, AreCountedAsTheAdapterCounts) {
  LocalRanks ranks = ranks_with(kMiB / 2);
  const FakeCounters before = fake.counters();
  auto counted_before = counted(ranks);
  std::vector<std::byte> memory(8 * kMiB);
  fill(memory);
  send_all(ranks, memory, 8);
  auto sums = counted(ranks);
  FakeCounters cost = between(before, fake.counters());
  for (int i = 0; i < 2'000 && sums["puts"] != cost.writes; ++i) {  // the adapter may not have done the last one
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    sums = counted(ranks);
    cost = between(before, fake.counters());
  }
  EXPECT_EQ(sums["bytes"], memory.size());
  EXPECT_EQ(sums["messages"], 16U);
  EXPECT_EQ(sums["copied_bytes"], memory.size()) << "no step stages what is sent from ordinary memory";
  EXPECT_EQ(sums["puts"], cost.writes);
  EXPECT_EQ(sums["doorbells"], cost.doorbells);
  EXPECT_EQ(sums["registrations"] - counted_before["registrations"], cost.registrations);
  EXPECT_GT(cost.registrations, 0U);
  EXPECT_GE(sums["completions"], cost.immediates);
}

TEST_P(VerbsWays, MessagesLongerThanTheLargestWriteAreCut) {
  FakeNetwork network;
  network.max_message = 96 * 1024;
  make(network);
  LocalRanks ranks = ranks_with(kMiB / 2);
  std::vector<std::byte> memory(2 * kMiB);
  const FakeCounters cost = cost_of(ranks, memory, 2);
  EXPECT_GE(cost.writes, 4U * 7) << "six writes for data, one for the header";
  EXPECT_EQ(cost.registrations, 0U);
}

// A cached registration would name the pages that were there before.
TEST_P(VerbsWays, PagesThatAreMappedAnewAtTheSameAddressAreSent) {
  FakeBehaviour pinning;
  pinning.pin_pages = true;
  fake.behave(&pinning);
  LocalRanks ranks = ranks_with(kMiB / 2);
  void* place = nullptr;
  for (int round = 0; round < rounds(6, 2'500); ++round) {
    const int more = place == nullptr ? 0 : MAP_FIXED;
    place = ::mmap(place, 2 * kMiB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | more, -1, 0);
    ASSERT_NE(place, MAP_FAILED);
    const std::span memory(static_cast<std::byte*>(place), 2 * kMiB);
    fill(memory);
    send_all(ranks, memory, 2);
  }
  ::munmap(place, 2 * kMiB);
}

// The same holds for memory that peers map: what takes a freed region's place is registered anew.
TEST_P(VerbsWays, RegionsThatTakeAFreedOnesPlaceAreSent) {
  FakeBehaviour pinning;
  pinning.pin_pages = true;
  fake.behave(&pinning);
  LocalRanks ranks = ranks_with(kMiB / 2);
  for (int round = 0; round < rounds(6, 2'500); ++round) {
    Memory memory = allocate(2 * kMiB).value();
    fill(memory.as<std::byte>());
    send_all(ranks, memory.as<std::byte>(), 2);
  }
}

TEST_P(VerbsWays, NoCounterOfRetriesIsSeven) {
  std::vector<std::byte> memory(kMiB);
  LocalRanks ranks = ranks_with();
  send_all(ranks, memory, 1);
  std::vector<FakeModify> all(1000);
  all.resize(std::min(all.size(), fake.modifies(all.data(), all.size())));
  const auto sets = [](const FakeModify& each) { return each.retry_cnt >= 0; };
  EXPECT_EQ(std::count_if(all.begin(), all.end(), sets), 2 * GetParam());
  for (const FakeModify& each : all) {
    EXPECT_LT(each.retry_cnt, 7);
    EXPECT_LT(each.rnr_retry, 7);
    EXPECT_TRUE(!sets(each) || each.timeout > 0) << "0 never ends";
  }
}

INSTANTIATE_TEST_SUITE_P(QueuePairs, VerbsWays, testing::Values(1, 4));

}  // namespace
}  // namespace wreath::test
