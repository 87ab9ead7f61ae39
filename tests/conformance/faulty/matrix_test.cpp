// Tests links that delay, close and truncate under every collective. A call gives right data or an error that names the
// cause; it never hangs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>

#include "tests/support/collective_matrix.hpp"
#include "tests/support/processes.hpp"

namespace wreath::test::faulty {
namespace {

constexpr std::size_t kCount = 3001;
constexpr int kCalls = 4;

struct Fault {
  std::string name;
  std::string rates;
  bool harmless;  // data arrive nevertheless
};

struct Point {
  int ranks;  // two have the path of small messages, three have tiles
  std::string transport;
  Collective collective;
  Fault fault;
};

std::vector<Point> points() {
  const std::vector<Fault> faults{
      {"delay", "delay=0.5,delay_ms=3", true}, {"close", "close=0.1", false}, {"truncate", "truncate=0.1", false}};
  std::vector<Point> all;
  for (const int ranks : {2, 3}) {
    for (const std::string& transport : usable_transports()) {
      for (const Collective collective : all_collectives()) {
        for (const Fault& fault : faults) all.push_back({ranks, transport, collective, fault});
      }
    }
  }
  return all;
}

CommunicatorOptions options_of(const Point& point, int seed) {
  CommunicatorOptions options;
  options.transports = {point.transport};
  options.debug.faults = fmt::format("{},seed={}", point.fault.rates, seed);
  if (point.ranks > 2) options.overrides.tile_bytes = 4096;
  options.timeouts.stall_ms = 2'000 * testing_support::kSlower;
  options.timeouts.arrival_ms = 4'000 * testing_support::kSlower;
  return options;
}

// Checks an error that the faults of a link may cause. Every error names a rank that is in the communicator.
void expect_named(const Error& error, int ranks) {
  const bool known =
      error.code == ErrorCode::PeerLost || error.code == ErrorCode::Mismatch || error.code == ErrorCode::Timeout;
  EXPECT_TRUE(known) << error.message;
  EXPECT_NE(error.message.find("rank "), std::string::npos) << error.message;
  EXPECT_TRUE(error.failed_rank >= 0 && error.failed_rank < ranks) << error.message;
}

// Sends every rank's elements to the next rank.
Status shift(Communicator& communicator, std::string& wrong) {
  const Rank me = communicator.rank();
  const std::vector<std::int32_t> mine(kCount, me);
  std::vector<std::int32_t> theirs(kCount, -1);
  const int ranks = communicator.ranks();
  const Rank from = (me + ranks - 1) % ranks;
  Group group;
  WREATH_TRY(communicator.send(std::span<const std::int32_t>(mine), (me + 1) % ranks));
  WREATH_TRY(communicator.recv(std::span<std::int32_t>(theirs), from));
  WREATH_TRY(group.run());
  if (theirs != std::vector<std::int32_t>(kCount, from)) wrong = "elements of another rank";
  return {};
}

// Makes one call of `collective`. When it succeeds, `wrong` describes wrong data; it is empty for right data.
Status call(const Way& way, Communicator& communicator, const CollectiveCase& work, const CollectiveData& data,
            std::string& wrong) {
  if (work.collective == Collective::Barrier || work.collective == Collective::Exchange) {
    record_case(way, work, {}, false);
    return work.collective == Collective::Barrier ? communicator.barrier() : shift(communicator, wrong);
  }
  const CollectiveRun run(work, data, communicator.rank(), {});
  WREATH_TRY(run_case(communicator, way, run));
  wrong = run.wrong();
  return {};
}

class FaultyLinks : public testing::TestWithParam<Point> {};

TEST_P(FaultyLinks, GiveRightDataOrANamedError) {
  const Point& point = GetParam();
  const CollectiveCase work{point.collective, DataType::Int32, ReduceOp::Sum, point.ranks, 1, kCount, {}, false};
  const bool has_data = point.collective != Collective::Barrier && point.collective != Collective::Exchange;
  static DataStore store;
  const CollectiveData* data = has_data ? &store.get(work, Order::Canonical) : nullptr;
  static const CollectiveData& unused = store.get({}, Order::Canonical);
  for (int seed = 1; seed <= testing_support::rounds(1, 5); ++seed) {
    LocalRanks ranks(point.ranks, options_of(point, seed));
    ranks.run([&](Communicator& communicator) {
      for (int i = 0; i < kCalls; ++i) {
        std::string wrong;
        const Status status = call({"", point.transport}, communicator, work, has_data ? *data : unused, wrong);
        if (!status) {
          EXPECT_FALSE(point.fault.harmless) << status.error().message;
          return expect_named(status.error(), point.ranks);
        }
        EXPECT_EQ(wrong, "");
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Over, FaultyLinks, testing::ValuesIn(points()), [](const auto& row) {
  return fmt::format("{}_{}_{}_{}", row.param.transport, name(row.param.collective), row.param.fault.name,
                     row.param.ranks);
});

}  // namespace
}  // namespace wreath::test::faulty
