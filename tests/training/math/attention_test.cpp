// Attention is compared with a float64 reference, and its gradients with differences of that, in one block and in
// several.
#include "training/compute/attention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/processes.hpp"
#include "tests/training/math/instruction_sets.hpp"
#include "tests/training/math/values.hpp"

namespace wreath::training::attention {
namespace {

// The queries, keys and values of a sequence, in rows of [q][k][v] as the layers have them.
struct Sequence {
  AttentionShape shape;
  std::int64_t length;
  std::vector<float> qkv = random_values(static_cast<std::size_t>(length * 3 * width()), 1);
  std::int64_t width() const { return shape.heads * shape.head_size; }

  // Returns rows of a part: 0 for queries, 1 for keys, 2 for values.
  Rows<const float> rows(int part, std::int64_t first, std::int64_t count) const {
    return {qkv.data() + first * 3 * width() + part * width(), 3 * width(), first, count};
  }
};

double kept(const AttentionDropout& dropout, std::int64_t head, std::int64_t query, std::int64_t key) {
  if (dropout.share == 0) return 1;
  const std::int64_t row = (dropout.sequence * dropout.heads + dropout.first_head + head) * dropout.length + query;
  const bool drops = dropout.stream->uniform(static_cast<std::uint64_t>(row * dropout.length + key)) < dropout.share;
  return drops ? 0 : 1 / (1 - double{dropout.share});
}

std::vector<double> reference(const Sequence& of, const std::vector<double>& qkv) {
  const std::int64_t size = of.shape.head_size;
  std::vector<double> out(static_cast<std::size_t>(of.length * of.width()));
  const auto value = [&](std::int64_t place, int part, std::int64_t i) {
    return qkv[static_cast<std::size_t>((place * 3 + part) * of.width() + i)];
  };
  for (std::int64_t query = 0; query < of.length; ++query) {
    for (std::int64_t head = 0; head < of.shape.heads; ++head) {
      std::vector<double> weights;
      for (std::int64_t key = 0; key <= query; ++key) {
        double score = 0;
        for (std::int64_t i = head * size; i < (head + 1) * size; ++i) score += value(query, 0, i) * value(key, 1, i);
        weights.push_back(score / std::sqrt(static_cast<double>(size)));
      }
      const double highest = *std::max_element(weights.begin(), weights.end());
      double sum = 0;
      for (double& weight : weights) sum += weight = std::exp(weight - highest);
      for (std::int64_t i = head * size; i < (head + 1) * size; ++i) {
        double& to = out[static_cast<std::size_t>(query * of.width() + i)];
        for (std::int64_t key = 0; key <= query; ++key) {
          to += kept(of.shape.dropout, head, query, key) * weights[static_cast<std::size_t>(key)] / sum *
                value(key, 2, i);
        }
      }
    }
  }
  return out;
}

struct Part {
  std::int64_t first;
  std::int64_t count;
};

// The output of the queries of one part.
struct Output {
  std::vector<float> values;
  std::vector<float> log_sum_exp;
};

Output attend(const Sequence& of, const Part& queries, const std::vector<Part>& keys) {
  const auto heads = static_cast<std::size_t>(queries.count * of.shape.heads);
  Output out{std::vector<float>(static_cast<std::size_t>(queries.count * of.width())), std::vector<float>(heads)};
  std::vector<float> highest(heads, -std::numeric_limits<float>::infinity()), sum(heads);
  const RunningSoftmax running{highest, sum, {out.values.data(), of.width(), queries.first, queries.count}};
  for (const Part& block : keys) {
    attention_add_block(of.shape, of.rows(0, queries.first, queries.count), of.rows(1, block.first, block.count),
                        of.rows(2, block.first, block.count), running);
  }
  attention_finish(of.shape, running, out.log_sum_exp);
  return out;
}

// Returns the gradients of all of qkv. The keys come in blocks of the parts `keys`.
std::vector<float> gradients(const Sequence& of, const std::vector<float>& out_gradient,
                             const std::vector<Part>& keys) {
  const Output out = attend(of, {0, of.length}, {{0, of.length}});
  const Rows<const float> outputs{out.values.data(), of.width(), 0, of.length};
  const Rows<const float> slopes{out_gradient.data(), of.width(), 0, of.length};
  std::vector<float> delta(static_cast<std::size_t>(of.length * of.shape.heads));
  attention_delta(of.shape, outputs, slopes, delta);
  std::vector<float> gradient(of.qkv.size(), 0.5f);
  const auto part = [&](int which, const Part& rows) {
    return Rows<float>{gradient.data() + rows.first * 3 * of.width() + which * of.width(), 3 * of.width(), rows.first,
                       rows.count};
  };
  for (const Part& block : keys) {
    attention_backward_block(of.shape, {of.rows(0, 0, of.length), slopes, out.log_sum_exp, delta},
                             of.rows(1, block.first, block.count), of.rows(2, block.first, block.count),
                             part(0, {0, of.length}), part(1, block), part(2, block));
  }
  return gradient;
}

const RandomStream kDropped(7, "probabilities", 3);
const Sequence kSequences[] = {{{1, 1}, 1},
                               {{2, 3}, 5},
                               {{3, 20}, 60},
                               {{1, 32}, 150},
                               {{2, 8}, 300},
                               {{2, 3, {0.5f, &kDropped, 5, 1, 9, 2}}, 5},
                               {{2, 8, {0.2f, &kDropped, 2, 0, 150, 0}}, 150}};

TEST(Attention, ForwardIsTheReference) {
  with_every_instruction_set([] {
    for (const Sequence& of : kSequences) {
      const Output out = attend(of, {0, of.length}, {{0, of.length}});
      const auto expected = reference(of, widened(of.qkv));
      for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(out.values[i], expected[i], 5e-7) << i;
    }
  });
}

TEST(Attention, GradientsAreDifferencesOfTheReference) {
  with_every_instruction_set([] {
    for (const Sequence& of : kSequences) {
      const auto out_gradient = random_values(static_cast<std::size_t>(of.length * of.width()), 2);
      const auto gradient = gradients(of, out_gradient, {{0, of.length}});
      auto qkv = widened(of.qkv);
      const auto loss = [&] { return weighted_sum(reference(of, qkv), out_gradient); };
      for (std::size_t i = 0; i < qkv.size(); i += 1 + qkv.size() * testing_support::kSlower / 25) {
        EXPECT_NEAR(gradient[i], 0.5 + derivative(qkv[i], loss), 2e-6) << i << " of " << of.length;
      }
    }
  });
}

TEST(Attention, DropsTheShareThatItIsToldAndOthersInAnotherHeadOrSequence) {
  AttentionDropout dropout{0.2f, &kDropped, 4, 0, 100, 0};
  const auto dropped = [&](std::int64_t head, std::int64_t sequence) {
    dropout.sequence = sequence;
    std::vector<int> mask;
    for (std::int64_t query = 0; query < 100; ++query) {
      for (std::int64_t key = 0; key <= query; ++key) mask.push_back(kept(dropout, head, query, key) == 0 ? 1 : 0);
    }
    return mask;
  };
  const std::vector<int> mask = dropped(1, 0);
  EXPECT_NEAR(static_cast<double>(std::count(mask.begin(), mask.end(), 1)) / static_cast<double>(mask.size()), 0.2,
              0.02);
  EXPECT_NE(mask, dropped(2, 0));
  EXPECT_NE(mask, dropped(1, 1));
}

// Blocks of keys come as in a ring of ranks: any number of them, in any order.
TEST(Attention, KeysMayComeInBlocksInAnyOrder) {
  const Sequence of{{2, 16, {0.1f, &kDropped, 2, 0, 200, 1}}, 200};
  const auto out_gradient = random_values(static_cast<std::size_t>(of.length * of.width()), 3);
  const auto whole = gradients(of, out_gradient, {{0, 200}});
  const auto out = attend(of, {0, 200}, {{0, 200}});
  std::vector<Part> blocks = {{0, 67}, {67, 53}, {120, 80}};
  const std::vector<Part> halves = {{110, 90}, {0, 110}};
  const auto compare = [&](const std::vector<Part>& order) {
    const auto parts = attend(of, {0, 200}, order);
    const auto sums = gradients(of, out_gradient, order);
    for (std::size_t i = 0; i < out.values.size(); ++i) ASSERT_NEAR(parts.values[i], out.values[i], 1e-6) << i;
    for (std::size_t i = 0; i < out.log_sum_exp.size(); ++i) {
      ASSERT_NEAR(parts.log_sum_exp[i], out.log_sum_exp[i], 1e-6) << i;
    }
    for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_NEAR(sums[i], whole[i], 1e-6) << i;
  };
  compare(halves);
  const auto earlier = [](const Part& a, const Part& b) { return a.first < b.first; };
  do compare(blocks);
  while (std::next_permutation(blocks.begin(), blocks.end(), earlier));
}

// A row's bits depend only on its own query and on earlier keys.
TEST(Attention, RowsDoNotDependOnOtherQueriesNorOnLaterKeys) {
  with_every_instruction_set([] {
    Sequence of{{2, 12}, 180};
    const Output whole = attend(of, {0, 180}, {{0, 180}});
    for (const Part& part : {Part{0, 1}, Part{47, 2}, Part{100, 60}}) {
      Sequence changed = of;
      const std::int64_t end = part.first + part.count;
      std::fill(changed.qkv.begin() + end * 3 * of.width(), changed.qkv.end(), 9.0f);
      const Output alone = attend(changed, part, {{0, 180}});
      EXPECT_TRUE(std::equal(alone.values.begin(), alone.values.end(), whole.values.begin() + part.first * of.width()));
    }
  });
}

TEST(Attention, ABlockOfWhichNoneIsSeenChangesNothing) {
  const Sequence of{{1, 4}, 100};
  const Output out = attend(of, {0, 50}, {{0, 50}});
  const Output more = attend(of, {0, 50}, {{60, 40}, {0, 50}, {50, 50}});
  EXPECT_EQ(out.values, more.values);
  EXPECT_EQ(out.log_sum_exp, more.log_sum_exp);
}

// The scores differ by more than float32's exponents hold.
TEST(Attention, LargeScoresNeitherOverflowNorVanish) {
  Sequence of{{1, 4}, 70};
  for (float& value : of.qkv) value *= 30.0f;
  const Output out = attend(of, {0, 70}, {{40, 30}, {0, 40}});
  const auto expected = reference(of, widened(of.qkv));
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(out.values[i], expected[i], 0.01) << i;
}

TEST(Attention, AKeyThatIsNoNumberShows) {
  Sequence of{{1, 2}, 3};
  of.qkv[2] = std::numeric_limits<float>::quiet_NaN();  // key 0
  const Output out = attend(of, {0, 3}, {{0, 3}});
  for (const float value : out.values) EXPECT_TRUE(std::isnan(value));
}

}  // namespace
}  // namespace wreath::training::attention
