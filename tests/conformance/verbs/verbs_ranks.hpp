// Gives tests ranks that are linked by the verbs transport over the stand-in for libibverbs.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <semaphore>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/fake_verbs.hpp"
#include "tests/support/local_ranks.hpp"
#include "tests/support/surroundings.hpp"
#include "wreath/memory.hpp"

namespace wreath::test {

class VerbsRanks : public testing::Test {
 protected:
  void SetUp() override { make({}); }
  // Makes the adapters anew. No communicator is alive.
  void make(const FakeNetwork& network) {
    fake = FakeVerbs::find();
    ASSERT_TRUE(fake) << "LD_LIBRARY_PATH does not lead to the fake library";
    ASSERT_TRUE(fake.configure(&network)) << "something is alive";
  }
  static CommunicatorOptions options() {
    CommunicatorOptions options;
    options.transports = {"verbs"};
    return options;
  }
  // Makes messages wait for their places until the receiver is in its call, however busy the machine is.
  static Environment as_long_as_it_takes() { return Environment({std::pair("WREATH_LANDING_WAIT_MS", "60000")}); }
  FakeVerbs fake{};
};

// Returns what was counted between two looks.
inline FakeCounters between(const FakeCounters& before, const FakeCounters& after) {
  FakeCounters spent;
  spent.writes = after.writes - before.writes;
  spent.immediates = after.immediates - before.immediates;
  spent.inlined = after.inlined - before.inlined;
  spent.bytes = after.bytes - before.bytes;
  spent.doorbells = after.doorbells - before.doorbells;
  spent.registrations = after.registrations - before.registrations;
  return spent;
}

// Returns the sums of what the ranks' links have counted, by name, and all of their bytes ("bytes").
inline std::map<std::string_view, std::uint64_t> counted(LocalRanks& ranks) {
  std::map<std::string_view, std::uint64_t> sums;
  for (Communicator& each : ranks.communicators()) {
    const std::vector<WireCounts> all = each.wire_counts();
    EXPECT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].transport, "verbs");
    for (const WireCounts::Count& count : all[0].counts) sums[count.name] += count.number;
    sums["bytes"] += all[0].bytes;
  }
  return sums;
}

// Sends `messages` messages from rank 0, which lie one behind the other in `from`, and compares what rank 1 gets. Rank
// 0 sends a message when rank 1 has the one before. So windows are never full, whatever the pace of the threads: more
// credit is told of those that are.
inline void send_all(LocalRanks& ranks, std::span<const std::byte> from, std::size_t messages) {
  const std::size_t bytes = from.size() / messages;
  std::counting_semaphore<> turns(1);
  ranks.run([&](Communicator& communicator) {
    std::vector<std::byte> to(communicator.rank() == 1 ? bytes : 0);
    for (std::size_t i = 0; i < messages; ++i) {
      const std::span<const std::byte> message = from.subspan(i * bytes, bytes);
      if (communicator.rank() == 0) {
        turns.acquire();
        const Status sent = communicator.send(message.data(), bytes, DataType::Uint8, 1);
        ASSERT_TRUE(sent) << sent.error().message;
      } else {
        const Status received = communicator.recv(to.data(), bytes, DataType::Uint8, 0);
        turns.release(received ? 1 : static_cast<std::ptrdiff_t>(messages));
        ASSERT_TRUE(received) << received.error().message;
        EXPECT_TRUE(std::ranges::equal(to, message)) << "message " << i;
      }
    }
  });
}

// Writes bytes that differ from place to place, and from call to call.
inline void fill(std::span<std::byte> memory) {
  static std::uint32_t next = 1;
  for (std::byte& each : memory) {
    next = next * 1'664'525 + 1'013'904'223;
    each = static_cast<std::byte>(next >> 24U);
  }
}

}  // namespace wreath::test
