// Calls over two adapters of each rank: both carry data, and the calls go on when one is lost.
#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "tests/conformance/verbs/verbs_ranks.hpp"
#include "tests/support/processes.hpp"

namespace wreath::test {
namespace {

using testing::HasSubstr;
using testing_support::eventually;
using testing_support::kSlower;

constexpr std::size_t kCount = 1 << 18;

class VerbsRails : public VerbsRanks {
 protected:
  static LocalRanks make_ranks(int ranks) { return {ranks, VerbsRanks::options()}; }
  // Makes so many calls whose results are compared.
  static void reduce(LocalRanks& ranks, int calls) {
    ranks.run([calls](Communicator& communicator) {
      const std::int32_t n = communicator.ranks();
      Memory memory = allocate(kCount * 4).value();
      const std::span<std::int32_t> values = memory.as<std::int32_t>();
      for (int call = 0; call < calls; ++call) {
        std::iota(values.begin(), values.end(), communicator.rank() + call);
        const Status status = communicator.all_reduce(values);
        ASSERT_TRUE(status) << status.error().message;
        for (std::size_t i = 0; i < kCount; ++i) {
          ASSERT_EQ(values[i], n * (static_cast<std::int32_t>(i) + call) + n * (n - 1) / 2) << "element " << i;
        }
      }
    });
  }
  // Returns the way to the other of two ranks.
  static std::string path(LocalRanks& ranks, int rank) {
    return ranks.communicators()[static_cast<std::size_t>(rank)].transport_to(1 - rank);
  }

  Environment environment_{{{"WREATH_RAILS", "2"}, {"WREATH_IB_TIMEOUT", "8"}}};
};

TEST_F(VerbsRails, OfThreeRanksCarryEveryCall) {
  LocalRanks ranks = make_ranks(3);
  EXPECT_THAT(path(ranks, 0), HasSubstr("verbs over fake_0 port 1 + fake_1 port 1"));
  reduce(ranks, 5);
}

TEST_F(VerbsRails, GoOnWithoutTheOneWhosePortIsDownAndTakeItBack) {
  LocalRanks ranks = make_ranks(2);
  reduce(ranks, 2);
  std::jthread cut([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    fake.set_port(1, 1, false);
  });
  reduce(ranks, 20);
  cut.join();
  reduce(ranks, 1);
  for (const int rank : {0, 1}) {
    EXPECT_THAT(path(ranks, rank), HasSubstr("verbs over fake_0 port 1, lost: fake_1 port 1"));
  }
  fake.set_port(1, 1, true);
  const auto works = [&](int rank) { return path(ranks, rank).find("lost") == std::string::npos; };
  EXPECT_TRUE(eventually(20'000 * kSlower,
                         [&] {
                           reduce(ranks, 1);
                           return works(0) && works(1);
                         }))
      << path(ranks, 0) << "; " << path(ranks, 1);
}

TEST_F(VerbsRails, AreAsManyAsThereAreAdapters) {
  FakeNetwork one;
  one.adapters = 1;
  make(one);
  LocalRanks ranks = make_ranks(2);
  EXPECT_THAT(path(ranks, 0), testing::Not(HasSubstr(" + ")));
  reduce(ranks, 1);
}

}  // namespace
}  // namespace wreath::test
