// Attention on the host device is compared with the CPU's. The sizes divide by nothing, there are several sequences,
// keys come in blocks, and probabilities are dropped.
#include <gtest/gtest.h>

#include "tests/training/device/on_device.hpp"
#include "training/context_parallel/blocks.hpp"

namespace wreath::training::test::attention {
namespace {

struct Case {
  std::int64_t sequences, length, heads, head_size;
  float dropped;
};

class AttentionOnDevice : public testing::TestWithParam<Case> {};

// Returns the output, the log-sum-exp and the gradient of Q, K and V, one after the other.
Values attend(const Case& of, MemoryAccounting& memory) {
  CommunicationAccounting accounting;
  Group alone("cp", accounting);
  const RandomStream stream(3, "probabilities");
  AttentionShape shape{of.heads, of.head_size};
  shape.dropout = {of.dropped, &stream, of.heads + 1, 1, of.length, 5};
  const AttentionBatch batch{shape, of.sequences, of.length};
  const auto size = [&](std::int64_t of_row) { return static_cast<std::size_t>(of.sequences * of.length * of_row); };
  const std::int64_t width = of.heads * of.head_size;
  const auto buffer = [&](std::size_t count, unsigned seed) {
    Buffer<float> values(memory, MemoryTag::Workspace, count);
    if (seed > 0) copy<float>(random_values(count, seed), values.span());
    return values;
  };
  const Buffer<float> qkv = buffer(size(3 * width), 1), slopes = buffer(size(width), 2);
  const Buffer<float> output = buffer(size(width), 0), sums = buffer(size(of.heads), 0);
  const Buffer<float> gradient = buffer(size(3 * width), 0);
  const auto attention = make_ring_attention(alone, memory);
  attention->forward(batch, qkv.span(), output.span(), sums.span());
  attention->backward(batch, {qkv.span(), output.span(), sums.span()}, slopes.span(), gradient.span());
  Values all;
  for (const Buffer<float>* part : {&output, &sums, &gradient}) {
    Values values(part->size());
    copy<float>(part->span(), values);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST_P(AttentionOnDevice, IsTheCpus) {
  MemoryAccounting here;
  const Values expected = attend(GetParam(), here);
  for (const ComputeOptions& grid : {ComputeOptions{3, 1}, ComputeOptions{2, 33}}) {
    Place place(grid);
    expect_near(attend(GetParam(), place.memory), expected, 2e-5f);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionOnDevice,
                         testing::Values(Case{1, 1, 1, 1, 0}, Case{2, 37, 3, 5, 0}, Case{1, 16, 2, 16, 0},
                                         Case{3, 50, 2, 8, 0.2f}, Case{1, 70, 1, 128, 0}));

// Some rows see none of a block's keys and some see all, as in ring attention.
TEST(AttentionBlocksOnDevice, AreTheCpus) {
  constexpr std::int64_t kHeads = 2, kSize = 6, kQueries = 21, kKeys = 19;
  const AttentionShape shape{kHeads, kSize};
  const auto rows = [&](float* data, std::int64_t first, std::int64_t count) {
    return Rows<const float>{data, kHeads * kSize, first, count};
  };
  for (const std::int64_t first_key : {0, 25, 40, 60}) {  // the queries are 30 to 50
    Values q = random_values(kQueries * kHeads * kSize, 1), k = random_values(kKeys * kHeads * kSize, 2);
    Values v = random_values(kKeys * kHeads * kSize, 3), weighted = random_values(q.size(), 4);
    Values highest = random_values(kQueries * kHeads, 5), sum(kQueries * kHeads, 1.5f);
    Place place(ComputeOptions{2, 7});
    const There q_there(place, q), k_there(place, k), v_there(place, v), weighted_there(place, weighted);
    const There highest_there(place, highest), sum_there(place, sum);
    attention_add_block(
        shape, rows(q_there.data(), 30, kQueries), rows(k_there.data(), first_key, kKeys),
        rows(v_there.data(), first_key, kKeys),
        {highest_there.span(), sum_there.span(), {weighted_there.data(), kHeads * kSize, 30, kQueries}});
    attention_add_block(shape, rows(q.data(), 30, kQueries), rows(k.data(), first_key, kKeys),
                        rows(v.data(), first_key, kKeys),
                        {highest, sum, {weighted.data(), kHeads * kSize, 30, kQueries}});
    expect_near(weighted_there.read(), weighted, 1e-5f);
    expect_near(highest_there.read(), highest, 1e-6f);
    expect_near(sum_there.read(), sum, 1e-5f);
  }
}

TEST(AttentionBlocksOnDevice, HeadsThatAreTooLargeAreRefused) {
  Place place;
  try {
    attend({1, 4, 1, 130, 0}, place.memory);
    FAIL() << "no error";
  } catch (const Exception& failure) {
    EXPECT_NE(failure.error().message.find("heads of 130 values, at most 128"), std::string::npos);
  }
}

}  // namespace
}  // namespace wreath::training::test::attention
