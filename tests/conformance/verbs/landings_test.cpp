// From allocated to allocated memory nobody copies what is sent: each message lands where its receiver wants it.
#include <barrier>
#include <functional>
#include <map>
#include <string_view>

#include "tests/conformance/verbs/verbs_ranks.hpp"
#include "tests/support/processes.hpp"

namespace wreath::test {
namespace {

constexpr std::size_t kMebibyte = 1 << 20;
// A message waits for its place, but not for long, since its receiver may be late. This test's threads may be.
constexpr int kMostTries = 40;

struct Buffers {
  std::span<std::int32_t> input;
  std::span<std::int32_t> output;
};

// Each rank has `count` elements, or as many for each rank.
struct Call {
  friend void PrintTo(const Call& call, std::ostream* out) { *out << call.name; }
  std::string name;
  std::function<Status(Communicator&, const Buffers&, std::size_t count)> make;
  // Returns the first element of output block `block`.
  std::function<std::int32_t(Rank me, Rank block, int ranks)> expected;
  bool one_block = false;  // of output
};

Rank behind(Communicator& communicator) {
  return (communicator.rank() + communicator.ranks() - 1) % communicator.ranks();
}

Status send_around(Communicator& communicator, const Buffers& buffers, std::size_t count) {
  Group group;
  WREATH_TRY(communicator.send(buffers.input.data(), count, DataType::Int32,
                               (communicator.rank() + 1) % communicator.ranks()));
  WREATH_TRY(communicator.recv(buffers.output.data(), count, DataType::Int32, behind(communicator)));
  return group.run();
}

std::vector<Call> calls() {
  constexpr auto kType = DataType::Int32;
  return {
      {"sendrecv", send_around, [](Rank me, Rank, int ranks) { return 1000 * ((me + ranks - 1) % ranks); }, true},
      {"all_gather",
       [](Communicator& communicator, const Buffers& buffers, std::size_t count) {
         return communicator.all_gather(buffers.input.data(), buffers.output.data(), count, kType);
       },
       [](Rank, Rank block, int) { return 1000 * block; }},
      {"all_gather_in_place",
       [](Communicator& communicator, const Buffers& buffers, std::size_t count) {
         std::int32_t* const own = buffers.output.data() + static_cast<std::size_t>(communicator.rank()) * count;
         std::copy_n(buffers.input.data(), count, own);
         return communicator.all_gather(own, buffers.output.data(), count, kType);
       },
       [](Rank, Rank block, int) { return 1000 * block; }},
      {"broadcast",
       [](Communicator& communicator, const Buffers& buffers, std::size_t count) {
         return communicator.broadcast(buffers.input.data(), buffers.output.data(), count, kType, 1);
       },
       [](Rank, Rank, int) { return 1000; }, true},
      {"all_to_all",
       [](Communicator& communicator, const Buffers& buffers, std::size_t count) {
         return communicator.all_to_all(buffers.input.data(), buffers.output.data(), count, kType);
       },
       [](Rank me, Rank block, int) { return 1000 * block + me; }},
      {"gather",
       [](Communicator& communicator, const Buffers& buffers, std::size_t count) {
         return communicator.gather(buffers.input.data(), buffers.output.data(), count, kType, 0);
       },
       [](Rank, Rank block, int) { return 1000 * block; }},
      {"scatter",
       [](Communicator& communicator, const Buffers& buffers, std::size_t count) {
         return communicator.scatter(buffers.input.data(), buffers.output.data(), count, kType, 0);
       },
       [](Rank me, Rank, int) { return me; }, true},
  };
}

class VerbsLandings : public VerbsRanks, public testing::WithParamInterface<Call> {
 protected:
  // Makes a call on all ranks, in new memory, and compares what each gets.
  static void call(LocalRanks& ranks, std::size_t count) {
    std::barrier ready(ranks.ranks());
    ranks.run([count, &ready](Communicator& communicator) {
      const Call& call = GetParam();
      const auto n = static_cast<std::size_t>(communicator.ranks());
      Memory in = allocate(count * n * 4).value();
      Memory out = allocate(count * n * 4).value();
      const Buffers buffers{in.as<std::int32_t>(), out.as<std::int32_t>()};
      for (std::size_t i = 0; i < count * n; ++i) {
        buffers.input[i] = 1000 * communicator.rank() + static_cast<std::int32_t>(i / count);
      }
      std::ranges::fill(buffers.output, -1);
      ready.arrive_and_wait();
      const Status status = call.make(communicator, buffers, count);
      ASSERT_TRUE(status) << status.error().message;
      if (call.name == "gather" && communicator.rank() != 0) return;
      for (std::size_t i = 0; i < (call.one_block ? count : count * n); ++i) {
        const std::int32_t expected =
            call.expected(communicator.rank(), static_cast<Rank>(i / count), communicator.ranks());
        ASSERT_EQ(buffers.output[i], expected) << "rank " << communicator.rank() << ", element " << i;
      }
    });
  }
  static std::map<std::string_view, std::uint64_t> counted(LocalRanks& ranks) {
    std::map<std::string_view, std::uint64_t> sums;
    for (Communicator& each : ranks.communicators()) {
      for (const WireCounts& all : each.wire_counts()) {
        for (const WireCounts::Count& count : all.counts) sums[count.name] += count.number;
        sums["bytes"] += all.bytes;
      }
    }
    return sums;
  }
  // Makes the first call of new ranks, until nothing of one was copied. Returns whether there was such a call: ranks
  // that were late once wait more rarely.
  static bool lands_whole(int ranks, std::size_t count) {
    for (int tries = 0; tries < kMostTries && !HasFailure(); ++tries) {
      LocalRanks all(ranks, options());
      auto before = counted(all);
      call(all, count);
      auto after = counted(all);
      const std::uint64_t bytes = after["bytes"] - before["bytes"];
      const std::uint64_t landed = after["landed_bytes"] - before["landed_bytes"];
      // Under a sanitizer threads are too slow for whole calls to land.
      const bool enough = testing_support::kSanitized ? landed > 0 : landed == bytes;
      if (bytes >= count * 4 && enough && after["copied_bytes"] == before["copied_bytes"]) return true;
    }
    return false;
  }
};

TEST_P(VerbsLandings, NobodyCopies) {
  for (const int ranks : {2, 3}) {
    for (const std::size_t bytes : {kMebibyte, 4 * kMebibyte - 64}) {
      EXPECT_TRUE(lands_whole(ranks, bytes / 4)) << bytes << " bytes, " << ranks << " ranks";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Calls, VerbsLandings, testing::ValuesIn(calls()),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace wreath::test
