// Tests that ranks that sleep are woken by their completion channels. The sleeps are far longer than the test.
#include <random>

#include "tests/conformance/verbs/verbs_ranks.hpp"
#include "tests/support/processes.hpp"

namespace wreath::test {
namespace {

using testing_support::kSlower;

class VerbsSleep : public VerbsRanks {
 protected:
  static LocalRanks sleepy_ranks() {
    CommunicatorOptions options = VerbsRanks::options();
    options.debug.longest_sleep_ms = testing_support::rounds(15'000, 60'000);
    options.timeouts.stall_ms = options.timeouts.arrival_ms = 600'000;
    return {2, options};
  }
  Environment environment_{{{"WREATH_SPIN_US", "0"}}};  // ranks sleep at once
};

TEST_F(VerbsSleep, EndsByTheChannelAtOnce) {
  const auto sleeps = static_cast<std::uint64_t>(testing_support::rounds(2'000 / kSlower, 10'000));
  LocalRanks ranks = sleepy_ranks();
  for (int part = 0; fake.counters().events < sleeps && !HasFailure(); ++part) {
    ASSERT_LT(part, 1000) << "ranks do not sleep";
    ranks.run([&](Communicator& communicator) {
      std::mt19937 random(static_cast<unsigned>(2 * part + communicator.rank()));
      for (std::int32_t i = 0; i < 200; ++i) {
        if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
        const auto begin = std::chrono::steady_clock::now();
        std::vector<std::int32_t> values(i % 20 == 0 ? 20'000 : 1, i);
        const Status status = communicator.all_reduce(std::span(values));
        ASSERT_TRUE(status) << status.error().message;
        ASSERT_EQ(values.back(), 2 * i);
        ASSERT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << "a wake-up was lost";
      }
    });
  }
}

}  // namespace
}  // namespace wreath::test
