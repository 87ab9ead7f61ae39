// Tests wrong arguments of every collective, and right ones that look odd.
#include "src/communicator/check_call.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace wreath {
namespace {

constexpr Place kPlace{3, 1};
using Counts = std::vector<std::size_t>;

struct Buffers {
  std::vector<std::int32_t> input = std::vector<std::int32_t>(100);
  std::vector<std::int32_t> output = std::vector<std::int32_t>(100);
};

Call call_of(Collective collective, const std::int32_t* input, std::int32_t* output, std::size_t count) {
  Call call;
  call.collective = collective;
  call.dtype = DataType::Int32;
  call.input = reinterpret_cast<const std::byte*>(input);
  call.output = reinterpret_cast<std::byte*>(output);
  call.count = count;
  return call;
}

void refused(const Call& call, const std::string& says, bool varying = false, Place place = kPlace) {
  const Status status = check_call(call, varying, place);
  ASSERT_FALSE(status) << name(call.collective, varying) << " is taken; wanted: " << says;
  EXPECT_EQ(status.error().code, ErrorCode::InvalidArgument);
  EXPECT_NE(status.error().message.find(says), std::string::npos) << status.error().message;
}

void taken(const Call& call, bool varying = false, Place place = kPlace) {
  const Status status = check_call(call, varying, place);
  EXPECT_TRUE(status) << name(call.collective, varying) << ": " << status.error().message;
}

class CheckCall : public testing::TestWithParam<Collective> {
 protected:
  Buffers memory;
  Call call = call_of(GetParam(), memory.input.data(), memory.output.data(), 10);
};

TEST_P(CheckCall, TakesSeparateBuffers) {
  taken(call);
  call.count = 0;
  call.input = nullptr;
  call.output = nullptr;
  taken(call);
}

TEST_P(CheckCall, RefusesNullOnlyWhereItIsUsed) {
  for (const Rank root : {0, 1}) {
    if (root != 0 && !has_root(GetParam())) continue;
    call.root = root;
    Call without = call;
    without.input = nullptr;
    uses_input(GetParam(), root, kPlace.me) ? refused(without, "input = null with count = 10") : taken(without);
    without = call;
    without.output = nullptr;
    uses_output(GetParam(), root, kPlace.me) ? refused(without, "output = null with count = 10") : taken(without);
  }
}

TEST_P(CheckCall, RefusesWordsOutOfRange) {
  Call odd = call;
  odd.dtype = static_cast<DataType>(99);
  refused(odd, "dtype = 99: there are " + std::to_string(kDataTypeCount));
  odd = call;
  odd.reduction.op = static_cast<ReduceOp>(77);
  refused(odd, "op = 77: there are 6");
  for (const Rank root : {-1, 3}) {
    odd = call;
    odd.root = root;
    refused(odd, "root = " + std::to_string(root));
  }
}

TEST_P(CheckCall, RefusesCountsBeyondMemory) {
  for (const std::size_t count : {SIZE_MAX, SIZE_MAX / 4, SIZE_MAX / 8 + 1}) {
    call.count = count;
    refused(call, "count = " + std::to_string(count) + ": ");
  }
}

TEST_P(CheckCall, RefusesPartialOverlap) {
  call.root = kPlace.me;
  call.output = reinterpret_cast<std::byte*>(memory.input.data() + 1);
  refused(call, "overlaps");
}

INSTANTIATE_TEST_SUITE_P(Of, CheckCall,
                         testing::Values(Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather,
                                         Collective::Broadcast, Collective::Reduce, Collective::AllToAll,
                                         Collective::Gather, Collective::Scatter),
                         [](const auto& collective) { return std::string(name(collective.param)); });

TEST(CheckCallInPlace, IsTheSamePartOfBoth) {
  Buffers memory;
  std::int32_t* const data = memory.input.data();
  for (const Collective whole : {Collective::AllReduce, Collective::Broadcast, Collective::Reduce}) {
    Call call = call_of(whole, data, data, 10);
    call.root = kPlace.me;
    taken(call);
  }
  for (const Collective gathers : {Collective::AllGather, Collective::Gather}) {
    Call call = call_of(gathers, data + 10, data, 10);
    call.root = kPlace.me;
    taken(call);
    // The input is block 0, and the block of rank 1 is another.
    call.input = reinterpret_cast<const std::byte*>(data);
    refused(call, "in place is input == output + rank * count");
  }
  for (const Collective deals : {Collective::ReduceScatter, Collective::Scatter}) {
    Call call = call_of(deals, data, data + 10, 10);
    call.root = kPlace.me;
    taken(call);
    call.output = reinterpret_cast<std::byte*>(data + 20);
    refused(call, "in place is output == input + rank * count");
  }
  refused(call_of(Collective::AllToAll, data, data, 10), "no in-place form");
  Call beside = call_of(Collective::Gather, data, data, 10);
  // This rank is not the root, so it has no output.
  taken(beside);
}

TEST(CheckCallBlocks, NeedAnEntryPerRank) {
  Buffers memory;
  const Counts two{1, 2};
  const Counts three{1, 2, 3};
  Call call = call_of(Collective::AllGather, memory.input.data(), memory.output.data(), 0);
  refused(call, "blocks.counts has 0 entries for 3 ranks", true);
  call.output_blocks = {two};
  refused(call, "blocks.counts has 2 entries for 3 ranks", true);
  call.output_blocks = {three, two};
  refused(call, "blocks.displacements has 2 entries for 3 ranks", true);
  call.output_blocks = {three};
  taken(call, true);
  Call both = call_of(Collective::AllToAll, memory.input.data(), memory.output.data(), 0);
  both.input_blocks = {three};
  refused(both, "received.counts has 0 entries", true);
  const Counts other{1, 9, 3};
  both.output_blocks = {other};
  refused(both, "sent.counts[1] = 2, received.counts[1] = 9", true);
  Call vector = call_of(Collective::AllReduce, memory.input.data(), memory.output.data(), 0);
  vector.input_blocks = {three};
  refused(vector, "input_blocks.counts has 3 entries, but all_reduce has no counts by rank", true);
  call.input_blocks = {two};
  refused(call, "input_blocks.counts has 2 entries, but the input of all_gather_v is one block", true);
  call = call_of(Collective::Scatter, memory.input.data(), memory.output.data(), 0);
  call.input_blocks = {three};
  call.output_blocks = {three};
  refused(call, "output_blocks.counts has 3 entries, but the output of scatter_v is one block", true);
}

TEST(CheckCallBlocks, MustNotMeetWhereTheyAreWritten) {
  Buffers memory;
  const Counts counts{4, 0, 4};
  // The empty block lies in the middle of block 0.
  const Counts meeting{3, 5, 0};
  const Counts apart{4, 5, 0};
  Call call = call_of(Collective::AllGather, memory.input.data(), memory.output.data(), 0);
  call.output_blocks = {counts, meeting};
  refused(call, "block 2 (from 0, 4 elements) overlaps block 0 (from 3)", true);
  call.output_blocks = {counts, apart};
  taken(call, true);
  Call deal = call_of(Collective::Scatter, memory.input.data(), memory.output.data(), 0);
  deal.root = kPlace.me;
  // The blocks are only read, so they may overlap.
  deal.input_blocks = {counts, meeting};
  taken(deal, true);
}

TEST(CheckCallBlocks, MustNotBeNull) {
  Buffers memory;
  const Counts none{0, 0, 0};
  const Counts some{0, 7, 0};
  Call call = call_of(Collective::AllGather, nullptr, nullptr, 0);
  call.output_blocks = {none};
  taken(call, true);
  call.output_blocks = {some};
  refused(call, "input = null with count = 7", true);
  call.input = reinterpret_cast<const std::byte*>(memory.input.data());
  refused(call, "output = null with counts[1] = 7", true);
}

TEST(CheckCallBlocks, MustNotWrap) {
  Buffers memory;
  const Counts counts{1, 1, 1};
  const Counts far{0, 1, SIZE_MAX - 1};
  const Counts huge{SIZE_MAX / 8, SIZE_MAX / 8, 1};
  Call call = call_of(Collective::AllGather, memory.input.data(), memory.output.data(), 0);
  call.output_blocks = {counts, far};
  refused(call, "block 2 of 1 elements", true);
  call.output_blocks = {huge};
  refused(call, "more than memory holds", true);
}

TEST(CheckCallBlocks, AreInPlaceAtTheirDisplacement) {
  Buffers memory;
  std::int32_t* const data = memory.input.data();
  const Counts counts{4, 5, 6};
  const Counts at{20, 10, 0};
  Call call = call_of(Collective::AllGather, data + 10, data, 0);
  call.output_blocks = {counts, at};
  taken(call, true);
  call.input = reinterpret_cast<const std::byte*>(data + 11);
  refused(call, "in place is input == output + displacements[rank]", true);
  Call deal = call_of(Collective::ReduceScatter, data, data + 10, 0);
  deal.input_blocks = {counts, at};
  taken(deal, true);
  deal.output = reinterpret_cast<std::byte*>(data + 40);  // behind all blocks
  taken(deal, true);
  deal.output = reinterpret_cast<std::byte*>(data + 15);  // between two blocks
  taken(deal, true);
  deal.output = reinterpret_cast<std::byte*>(data + 18);
  refused(deal, "overlaps", true);
  const Counts apart{20, 8, 0};
  deal.input_blocks = {counts, apart};
  deal.output = reinterpret_cast<std::byte*>(data + 8);
  taken(deal, true);
  // Block 0 begins within the block of rank 1, which the output replaces.
  const Counts destroyed{11, 8, 20};
  deal.input_blocks = {counts, destroyed};
  refused(deal, "overlaps", true);
}

TEST(CheckCallWords, NameNoCollective) {
  Call call = call_of(Collective::Exchange, nullptr, nullptr, 0);
  refused(call, "collective = 9");
  call.collective = static_cast<Collective>(200);
  refused(call, "collective = 200");
}

TEST(NormalizedCall, KeepsWhatItsCollectiveReads) {
  Buffers memory;
  Call call = call_of(Collective::AllGather, memory.input.data(), memory.output.data(), 5);
  call.reduction = ReduceOp::Prod;
  call.root = 2;
  EXPECT_EQ(normalized(call).reduction.op, ReduceOp::Sum);
  EXPECT_EQ(normalized(call).root, 0);
  call.collective = Collective::Reduce;
  EXPECT_EQ(normalized(call).reduction.op, ReduceOp::Prod);
  EXPECT_EQ(normalized(call).root, 2);
  call.collective = Collective::Barrier;
  EXPECT_EQ(normalized(call).count, 1u);
  EXPECT_EQ(normalized(call).input, nullptr);
}

}  // namespace
}  // namespace wreath
