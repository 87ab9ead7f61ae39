// Tests which calls may skip their checks because they repeat the last one.
#include "src/engine/repeated_call.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "src/communicator/check_call.hpp"
#include "src/engine/call_history.hpp"

namespace wreath::repeated_call {
namespace {

constexpr Place kPlace{4, 1};

class Repeated : public testing::TestWithParam<Collective> {
 protected:
  Call call_of(Collective collective) {
    Call call;
    call.collective = collective;
    call.count = 10;
    call.input = memory_.data();
    call.output = memory_.data() + 1000;
    return call;
  }
  RepeatedCall after(const Call& call) {
    RepeatedCall repeated;
    repeated.remember(call, kPlace, {}, {});
    return repeated;
  }
  std::array<std::byte, 4000> memory_{};
};

TEST_P(Repeated, OnOtherBuffersButNotWithOtherArguments) {
  const Call call = call_of(GetParam());
  EXPECT_FALSE(RepeatedCall().is(call));
  const RepeatedCall repeated = after(call);
  Call next = call;
  next.input += 12;
  next.output += 2000;
  EXPECT_TRUE(repeated.is(next));
  for (const auto change : {+[](Call& other) { other.count = 11; }, +[](Call& other) { other.dtype = DataType::Int32; },
                            +[](Call& other) { other.reduction = ReduceOp::Max; }, +[](Call& other) { other.root = 2; },
                            +[](Call& other) { other.stream = reinterpret_cast<Stream*>(&other); }}) {
    Call other = call;
    change(other);
    EXPECT_FALSE(repeated.is(other)) << name(GetParam());
  }
}

TEST_P(Repeated, NotOnBuffersThatMeet) {
  const Call call = call_of(GetParam());
  const RepeatedCall repeated = after(call);
  const std::ptrdiff_t input_bytes =
      40 * (moves_blocks(GetParam()) && !holds_one_block(GetParam(), Buffer::Input) ? 4 : 1);
  const std::ptrdiff_t output_bytes =
      40 * (moves_blocks(GetParam()) && !holds_one_block(GetParam(), Buffer::Output) ? 4 : 1);
  const auto is_at = [&](std::ptrdiff_t distance) {
    Call other = call;
    other.output = memory_.data() + 2000;
    other.input = other.output - distance;
    return repeated.is(other);
  };
  EXPECT_TRUE(is_at(input_bytes));
  EXPECT_FALSE(is_at(input_bytes - 1));
  EXPECT_FALSE(is_at(1));
  EXPECT_FALSE(is_at(-1));
  EXPECT_FALSE(is_at(1 - output_bytes));
  EXPECT_TRUE(is_at(-output_bytes));
  EXPECT_EQ(is_at(0), !moves_blocks(GetParam()));
}

TEST_P(Repeated, AddsToTheHistoryWhatItsFirstCallAdded) {
  const Call call = call_of(GetParam());
  CallHistory first(7);
  CallHistory again(7);
  EXPECT_EQ(first.add(call, call.count), again.add(after(call).words()));
  EXPECT_EQ(first.signature(), again.signature());
  Call other = call;
  other.count = 11;
  first.add(other, other.count);
  again.add(after(call).words());
  EXPECT_NE(first.signature(), again.signature());
}

INSTANTIATE_TEST_SUITE_P(Collectives, Repeated,
                         testing::Values(Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather,
                                         Collective::AllToAll),
                         [](const auto& instance) { return std::string(name(instance.param)); });

// The check of such calls says which calls in place are right.
class RepeatedAtItsRoot : public Repeated {};

TEST_P(RepeatedAtItsRoot, AtEveryDistanceThatTheCheckPasses) {
  for (Rank me = 0; me < kPlace.ranks; ++me) {
    const Place place{kPlace.ranks, me};
    Call call = call_of(GetParam());
    call.root = me;
    RepeatedCall repeated;
    repeated.remember(call, place, {}, {});
    for (std::ptrdiff_t distance = -400; distance <= 400; distance += 4) {
      call.output = memory_.data() + 2000;
      call.input = call.output - distance;
      EXPECT_EQ(repeated.is(call), bool(check_call(call, false, place))) << "rank " << me << ", distance " << distance;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Collectives, RepeatedAtItsRoot,
                         testing::Values(Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather,
                                         Collective::Broadcast, Collective::Reduce, Collective::AllToAll,
                                         Collective::Gather, Collective::Scatter),
                         [](const auto& instance) { return std::string(name(instance.param)); });

TEST_F(Repeated, BesideTheRootOnlyWhatIsUsedCounts) {
  Call broadcast = call_of(Collective::Broadcast);
  broadcast.input = nullptr;
  EXPECT_TRUE(after(broadcast).is(broadcast));
  broadcast.output = nullptr;
  EXPECT_FALSE(after(broadcast).is(broadcast));
  Call gather = call_of(Collective::Gather);
  gather.output = nullptr;
  EXPECT_TRUE(after(gather).is(gather));
  gather.root = kPlace.me;
  EXPECT_FALSE(after(gather).is(gather));
  Call null_input = call_of(Collective::AllReduce);
  null_input.input = nullptr;
  EXPECT_FALSE(after(call_of(Collective::AllReduce)).is(null_input));
}

class Remembered : public testing::Test {
 protected:
  Call call_of(std::size_t count, Rank root = 0) {
    Call call;
    call.collective = Collective::Broadcast;
    call.count = count;
    call.root = root;
    call.input = memory_.data();
    call.output = memory_.data();
    return call;
  }
  void remember(const Call& call) { calls_.remember(call, kPlace, {}, record_of(call)); }
  static CallRecord record_of(const Call& call) {
    CallRecord record;
    record.count = call.count;
    record.root = call.root;
    return record;
  }
  // Says whether the call is found, as itself.
  bool finds(const Call& call) {
    const RepeatedCall* const found = calls_.find(call);
    return found != nullptr && found->record().count == call.count && found->record().root == call.root;
  }
  std::array<std::byte, 4000> memory_{};
  RepeatedCalls calls_;
};

TEST_F(Remembered, AreFoundInAnyOrder) {
  for (std::size_t count = 1; count <= 4; ++count) {
    for (Rank root = 0; root < kPlace.ranks; ++root) remember(call_of(count, root));
  }
  for (std::size_t turn = 0; turn < 100; ++turn) {
    const std::size_t which = turn * 7 % 16;
    EXPECT_TRUE(finds(call_of(1 + which % 4, static_cast<Rank>(which / 4)))) << which;
  }
  EXPECT_EQ(calls_.find(call_of(5)), nullptr);
}

TEST_F(Remembered, ForgetTheOldestWhereThereAreMany) {
  constexpr std::size_t kMany = 2000;
  for (std::size_t count = 1; count <= kMany; ++count) remember(call_of(count));
  std::size_t found = 0;
  for (std::size_t count = 1; count <= kMany; ++count) found += finds(call_of(count)) ? 1U : 0U;
  EXPECT_EQ(found, 128U);
  EXPECT_TRUE(finds(call_of(kMany)));
  EXPECT_FALSE(finds(call_of(1)));
}

TEST_F(Remembered, TakeOnePlaceHoweverOftenTheyAreRemembered) {
  std::vector<std::size_t> found;
  for (std::size_t count = 1; count <= 100; ++count) remember(call_of(count));
  for (std::size_t count = 1; count <= 100; ++count) {
    if (finds(call_of(count))) found.push_back(count);
  }
  ASSERT_GT(found.size(), 50U);
  for (const std::size_t count : found) {
    for (int again = 0; again < 4; ++again) remember(call_of(count));
  }
  for (const std::size_t count : found) EXPECT_TRUE(finds(call_of(count))) << count;
}

}  // namespace
}  // namespace wreath::repeated_call
