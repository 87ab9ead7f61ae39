// Tests a rank that only writes in a call and so hears nobody there. If it made another call than the others, the first
// message after that call shows it, or the counters of repeated calls. The error names that first call in the words of
// both ranks.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/local_ranks.hpp"
#include "tests/support/surroundings.hpp"
#include "tests/support/transports.hpp"

namespace wreath::test {
namespace {

constexpr int kRanks = 3;
// This rank makes the other call.
constexpr int kOdd = 2;

struct Buffers {
  std::vector<std::int32_t> in;
  std::vector<std::int32_t> out;
};
using Make = std::function<Status(Communicator&, Buffers&, std::size_t)>;

struct NamedCall {
  // Errors name the call by these words, and the call's count follows them.
  std::string words;
  Make make;
};

using Rooted = Status (Communicator::*)(const void*, void*, std::size_t, DataType, Rank);

NamedCall rooted(const std::string& name, Rooted call, Rank root) {
  return {name + " #1 int32", [call, root](Communicator& it, Buffers& data, std::size_t count) {
            return (it.*call)(data.in.data(), data.out.data(), count, DataType::Int32, root);
          }};
}
NamedCall broadcast(Rank root) { return rooted("broadcast", &Communicator::broadcast, root); }
NamedCall scatter(Rank root) { return rooted("scatter", &Communicator::scatter, root); }
NamedCall gather(Rank root) { return rooted("gather", &Communicator::gather, root); }
NamedCall reduce(Rank root) {
  return {"reduce #1 int32", [root](Communicator& it, Buffers& data, std::size_t count) {
            return it.reduce(data.in.data(), data.out.data(), count, DataType::Int32, root);
          }};
}
NamedCall all_reduce() {
  return {"all_reduce #1 int32", [](Communicator& it, Buffers& data, std::size_t count) {
            return it.all_reduce(data.in.data(), data.out.data(), count, DataType::Int32);
          }};
}

struct Difference {
  NamedCall all;
  NamedCall odd;
};

std::vector<Difference> differences() {
  return {{broadcast(0), broadcast(kOdd)}, {scatter(0), scatter(kOdd)},   {reduce(0), reduce(1)},
          {gather(0), gather(1)},          {reduce(0), broadcast(kOdd)},  {broadcast(0), reduce(0)},
          {broadcast(0), scatter(kOdd)},   {gather(kOdd), scatter(kOdd)}, {all_reduce(), broadcast(kOdd)}};
}

// One of these follows the calls that differ: one message between all ranks, the same calls again, or a split.
enum class Then { Sum, Barrier, Again, Split };
constexpr std::array kThen{Then::Sum, Then::Barrier, Then::Again, Then::Split};

Status after(Then then, Communicator& it, Buffers& data, std::size_t count, const NamedCall& call) {
  switch (then) {
    case Then::Sum: return it.all_reduce(data.in.data(), data.out.data(), 10, DataType::Int32);
    case Then::Barrier: return it.barrier();
    case Then::Split: {
      const auto part = it.split(it.rank() % 2, 0);
      return part ? Status() : Status(part.error());
    }
    case Then::Again: break;
  }
  Status status;
  for (int repeat = 0; repeat < 48 && status; ++repeat) status = call.make(it, data, count);
  return status;
}

class Writers : public testing::TestWithParam<std::string> {
 protected:
  void expect_mismatch(const Difference& difference, std::size_t count, Then then) {
    CommunicatorOptions options;
    options.transports = {GetParam()};
    options.timeouts.stall_ms = 20'000;
    LocalRanks ranks(kRanks, options);
    ranks.run([&](Communicator& it) {
      const NamedCall& call = it.rank() == kOdd ? difference.odd : difference.all;
      Buffers data{std::vector<std::int32_t>(kRanks * count), std::vector<std::int32_t>(kRanks * count)};
      Status status = call.make(it, data, count);
      if (status) status = after(then, it, data, count, call);
      ASSERT_FALSE(status) << "rank " << it.rank() << " of " << difference.all.words << ", " << difference.odd.words;
      EXPECT_EQ(status.error().code, ErrorCode::Mismatch) << status.error().message;
      for (const NamedCall& each : {difference.all, difference.odd})
        EXPECT_NE(status.error().message.find(" called " + each.words), std::string::npos) << status.error().message;
    });
  }

  RecordingsFolder recordings_;
};

TEST_P(Writers, AreComparedWithWhoHearsThem) {
  std::size_t turn = 0;
  for (const Difference& difference : differences()) {
    for (const std::size_t count : std::initializer_list<std::size_t>{4, 600, 100'000})
      expect_mismatch(difference, count, kThen[turn++ % kThen.size()]);
    ++turn;
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Over, Writers, testing::ValuesIn(test::usable_transports()),
                         [](const auto& transport) { return transport.param; });

}  // namespace
}  // namespace wreath::test
