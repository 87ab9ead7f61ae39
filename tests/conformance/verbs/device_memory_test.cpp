// From and to memory of a device, adapters move what is sent by themselves: no CPU copies it. Sums and memory that
// adapters do not reach get right results, too.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <barrier>
#include <numeric>

#include "tests/conformance/verbs/landing_calls.hpp"
#include "tests/conformance/verbs/verbs_ranks.hpp"
#include "tests/support/processes.hpp"
#include "wreath/device.hpp"

namespace wreath::test {
namespace {

std::span<std::int32_t> elements(const DeviceMemory& memory) {
  return {reinterpret_cast<std::int32_t*>(memory.data()), memory.size() / 4};
}

void set(const DeviceMemory& memory, const std::vector<std::int32_t>& values) {
  host_device().copy(memory.data(), values.data(), values.size() * 4).value();
}

std::vector<std::int32_t> get(const DeviceMemory& memory, std::size_t count) {
  std::vector<std::int32_t> values(count);
  host_device().copy(values.data(), memory.data(), count * 4).value();
  return values;
}

// No rank frees memory while kernels of others wait for it, so all ranks have theirs until the call is over.
struct Memories {
  Memories(int ranks, std::size_t bytes, MemoryUse use) {
    for (int i = 0; i < ranks; ++i) {
      in.push_back(host_device().allocate(bytes, use).value());
      out.push_back(host_device().allocate(bytes, use).value());
    }
  }
  std::vector<DeviceMemory> in;
  std::vector<DeviceMemory> out;
};

class VerbsDevice : public VerbsRanks, public testing::WithParamInterface<LandingCall> {
 protected:
  // Makes a call on all ranks, and compares what each gets.
  static void call(LocalRanks& ranks, const Memories& memories, std::size_t count) {
    std::barrier ready(ranks.ranks());
    ranks.run([&](Communicator& communicator) {
      const LandingCall& call = GetParam();
      const auto n = static_cast<std::size_t>(communicator.ranks());
      const auto me = static_cast<std::size_t>(communicator.rank());
      std::vector<std::int32_t> values(count * n);
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = 1000 * communicator.rank() + static_cast<std::int32_t>(i / count);
      }
      set(memories.in[me], values);
      set(memories.out[me], std::vector<std::int32_t>(count * n, -1));
      ready.arrive_and_wait();
      const Status status = call.make(communicator, {elements(memories.in[me]), elements(memories.out[me])}, count);
      ASSERT_TRUE(status) << status.error().message;
      if (call.name == "gather" && me != 0) return;
      const std::vector<std::int32_t> got = get(memories.out[me], call.one_block ? count : count * n);
      for (std::size_t i = 0; i < got.size(); ++i) {
        const std::int32_t expected = call.expected(communicator.rank(), static_cast<Rank>(i / count), ranks_of(n));
        ASSERT_EQ(got[i], expected) << "rank " << me << ", element " << i;
      }
    });
  }
  static int ranks_of(std::size_t n) { return static_cast<int>(n); }
  // Returns the bytes that CPUs copied, and those that landed, in a call of new ranks.
  static std::map<std::string_view, std::uint64_t> spent(int ranks, std::size_t count, MemoryUse use) {
    const Memories memories(ranks, count * 4 * static_cast<std::size_t>(ranks), use);
    LocalRanks all(ranks, options());
    auto before = counted(all);
    call(all, memories, count);
    auto after = counted(all);
    for (auto& [name, number] : after) number -= before[name];
    return after;
  }
};

TEST_P(VerbsDevice, IsReachedByAdapters) {
  const Environment waiting = as_long_as_it_takes();
  for (const int ranks : {2, 3}) {
    for (const std::size_t bytes : {kMebibyte, 4 * kMebibyte - 64}) {
      SCOPED_TRACE(fmt::format("{} bytes, {} ranks", bytes, ranks));
      auto counts = spent(ranks, bytes / 4, MemoryUse::Exportable);
      EXPECT_GE(counts["bytes"], bytes);
      EXPECT_EQ(counts["landed_bytes"], counts["bytes"]);
      EXPECT_EQ(counts["copied_bytes"], 0u) << "the adapter reads all where it is";
    }
  }
}

// Senders wait for no place, so blocks are often ahead of the host, which posts places: they have consumed messages of
// which it has not posted the places yet. The places of later messages are still their own.
TEST_P(VerbsDevice, IsRightWhereBlocksAreAheadOfTheHost) {
  const Environment at_once({std::pair("WREATH_LANDING_WAIT_MS", "0"), std::pair("WREATH_TILE_BYTES", "32768")});
  for (int round = 0; round < 4; ++round) {
    const auto counts = spent(2, kMebibyte, MemoryUse::Exportable);
    EXPECT_GE(counts.at("bytes"), 4 * kMebibyte);
  }
}

TEST_P(VerbsDevice, IsStagedWhereItIsNotExportable) {
  auto counts = spent(2, kMebibyte / 4, MemoryUse::Plain);
  EXPECT_GE(counts["bytes"], kMebibyte);
  EXPECT_EQ(counts["landed_bytes"], 0u);
}

std::vector<LandingCall> calls_of_devices() {
  std::vector<LandingCall> calls = calls_that_land();
  // That one fills its memory by the host.
  std::erase_if(calls, [](const LandingCall& call) { return call.name == "all_gather_in_place"; });
  return calls;
}
INSTANTIATE_TEST_SUITE_P(Calls, VerbsDevice, testing::ValuesIn(testing_support::thinned(calls_of_devices())),
                         [](const auto& row) { return row.param.name; });

class VerbsDeviceSums : public VerbsRanks {};

TEST_F(VerbsDeviceSums, AreRight) {
  for (const int n : {2, 3}) {
    const Memories memories(n, kMebibyte, MemoryUse::Exportable);
    LocalRanks ranks(n, options());
    ranks.run([&](Communicator& communicator) {
      const auto me = static_cast<std::size_t>(communicator.rank());
      std::vector<std::int32_t> values(kMebibyte / 4);
      std::iota(values.begin(), values.end(), communicator.rank());
      for (int repeat = 0; repeat < 3; ++repeat) {
        set(memories.in[me], values);
        const Status summed = communicator.all_reduce(
            elements(memories.in[me]).data(), elements(memories.out[me]).data(), values.size(), DataType::Int32);
        ASSERT_TRUE(summed) << summed.error().message;
        const std::vector<std::int32_t> got = get(memories.out[me], values.size());
        for (std::size_t i = 0; i < got.size(); ++i) {
          const int expected = n * static_cast<int>(i) + n * (n - 1) / 2;
          ASSERT_EQ(got[i], expected) << "element " << i;
        }
      }
    });
  }
}

}  // namespace
}  // namespace wreath::test
