// From allocated to allocated memory nobody copies what is sent: each message lands where its receiver wants it.
#include <fmt/format.h>

#include <barrier>

#include "tests/conformance/verbs/landing_calls.hpp"
#include "tests/conformance/verbs/verbs_ranks.hpp"
#include "tests/support/processes.hpp"

namespace wreath::test {
namespace {

class VerbsLandings : public VerbsRanks, public testing::WithParamInterface<LandingCall> {
 protected:
  // Makes a call on all ranks, in new memory, and compares what each gets.
  static void call(LocalRanks& ranks, std::size_t count) {
    std::barrier ready(ranks.ranks());
    ranks.run([count, &ready](Communicator& communicator) {
      const LandingCall& call = GetParam();
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
};

TEST_P(VerbsLandings, NobodyCopies) {
  const Environment waiting = as_long_as_it_takes();
  for (const int ranks : {2, 3}) {
    LocalRanks all(ranks, options());
    for (const std::size_t bytes : {kMebibyte, 4 * kMebibyte - 64, kMebibyte}) {
      SCOPED_TRACE(fmt::format("{} bytes, {} ranks", bytes, ranks));
      auto before = counted(all);
      call(all, bytes / 4);
      auto after = counted(all);
      EXPECT_GE(after["bytes"], before["bytes"] + bytes);
      EXPECT_EQ(after["landed_bytes"] - before["landed_bytes"], after["bytes"] - before["bytes"]);
      EXPECT_EQ(after["copied_bytes"], before["copied_bytes"]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Calls, VerbsLandings, testing::ValuesIn(testing_support::thinned(calls_that_land())),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace wreath::test
