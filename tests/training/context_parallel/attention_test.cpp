// Attention runs over divided sequences, by ring and by exchange of heads. Its values agree with one rank's and with
// float64, and its bytes with the closed forms.
#include "training/context_parallel/attention.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/training/context_parallel/reference.hpp"
#include "tests/training/tensor_parallel/ranks.hpp"
#include "training/tensor_parallel/layers.hpp"

namespace wreath::training::test::context_parallel {
namespace {

enum class Kind { Ring, Ulysses };

struct Problem {
  Kind kind = Kind::Ring;
  int ranks = 1;
  AttentionBatch batch{.shape = {.heads = 5, .head_size = 4}, .sequences = 2, .length = 13};
  // False plants an error: ranks give places that they do not hold.
  bool zigzag = true;
};

// The results of whole sequences.
struct Outcome {
  std::vector<float> output;
  std::vector<float> log_sum_exp;
  std::vector<float> qkv_gradient;
  struct Counted {
    Payload forward;
    Payload backward;
    std::size_t forward_workspace = 0;
    std::size_t backward_workspace = 0;
  };
  std::vector<Counted> counted;  // by rank
};

std::int64_t width_of(const Problem& problem) { return problem.batch.shape.heads * problem.batch.shape.head_size; }

std::vector<Range> held_ranges(const Problem& problem, int rank) {
  if (problem.zigzag) return sequence_ranges(problem.batch.length, problem.ranks, rank);
  return {part_of(problem.batch.length, problem.ranks, rank)};
}

std::int64_t places_of(const Problem& problem, int rank) {
  std::int64_t places = 0;
  for (const Range& range : sequence_ranges(problem.batch.length, problem.ranks, rank)) places += range.count;
  return places;
}

// Calls visit(place among those of all sequences, row on this rank) for each place that the rank holds.
template <typename Visit>
void for_each_place(const Problem& problem, int rank, const Visit& visit) {
  std::int64_t row = 0;
  for (std::int64_t sequence = 0; sequence < problem.batch.sequences; ++sequence) {
    for (const Range& range : held_ranges(problem, rank)) {
      for (std::int64_t i = 0; i < range.count; ++i) visit(sequence * problem.batch.length + range.begin + i, row++);
    }
  }
}

std::vector<float> held(const Problem& problem, int rank, const std::vector<float>& whole, std::int64_t width) {
  std::vector<float> part;
  for_each_place(problem, rank, [&](std::int64_t place, std::int64_t) {
    part.insert(part.end(), whole.begin() + place * width, whole.begin() + (place + 1) * width);
  });
  return part;
}

void put(const Problem& problem, int rank, const std::vector<float>& part, std::int64_t width,
         std::vector<float>& whole) {
  whole.resize(static_cast<std::size_t>(problem.batch.sequences * problem.batch.length * width));
  for_each_place(problem, rank, [&](std::int64_t place, std::int64_t row) {
    std::copy_n(part.begin() + row * width, width, whole.begin() + place * width);
  });
}

std::vector<float> whole_values(const Problem& problem, std::string_view name, std::int64_t width) {
  return normals(name, problem.batch.sequences * problem.batch.length * width);
}

void run_rank(const Problem& problem, TestRank rank, std::mutex& mutex, Outcome& outcome) {
  const int index = rank.group.rank();
  const std::int64_t width = width_of(problem);
  const auto attention = problem.kind == Kind::Ring ? make_ring_attention(rank.group, rank.memory)
                                                    : make_ulysses_attention(rank.group, rank.memory);
  const std::vector<float> qkv = held(problem, index, whole_values(problem, "qkv", 3 * width), 3 * width);
  const std::vector<float> output_gradient = held(problem, index, whole_values(problem, "gradient", width), width);
  std::vector<float> output(output_gradient.size());
  std::vector<float> log_sum_exp(output.size() / static_cast<std::size_t>(problem.batch.shape.head_size));
  std::vector<float> qkv_gradient(qkv.size(), 9);  // overwritten, not added to

  Outcome::Counted counted;
  attention->forward(problem.batch, qkv, output, log_sum_exp);
  counted.forward = take(rank.traffic);
  counted.forward_workspace = rank.memory.peak_bytes(MemoryTag::Workspace);
  rank.memory.reset_peaks();
  attention->backward(problem.batch, {qkv, output, log_sum_exp}, output_gradient, qkv_gradient);
  counted.backward = take(rank.traffic);
  counted.backward_workspace = rank.memory.peak_bytes(MemoryTag::Workspace);

  const std::lock_guard lock(mutex);
  put(problem, index, output, width, outcome.output);
  put(problem, index, log_sum_exp, problem.batch.shape.heads, outcome.log_sum_exp);
  put(problem, index, qkv_gradient, 3 * width, outcome.qkv_gradient);
  outcome.counted[static_cast<std::size_t>(index)] = counted;
}

Outcome run(const Problem& problem) {
  std::mutex mutex;
  Outcome outcome;
  outcome.counted.resize(static_cast<std::size_t>(problem.ranks));
  on_ranks(problem.ranks, "cp", [&](TestRank rank) { run_rank(problem, rank, mutex, outcome); });
  return outcome;
}

Problem of_one_rank(Problem problem) {
  problem.ranks = 1;
  problem.zigzag = true;
  return problem;
}

const RandomStream kDropped(5, "probabilities", 1);

// Returns problems whose lengths divide evenly, do not divide, or leave ranks and chunks empty. Each exists with
// dropout of the probabilities and without.
std::vector<Problem> problems(Kind kind) {
  std::vector<Problem> all;
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (const std::int64_t length : {24, 13, 3, 1}) {
      Problem problem{.kind = kind, .ranks = ranks};
      problem.batch.length = length;
      all.push_back(problem);
      problem.batch.shape.dropout = {0.3f, &kDropped, 11, 4, length, 6};
      all.push_back(problem);
    }
  }
  return all;
}

std::string describe(const Problem& problem) {
  return std::string(problem.kind == Kind::Ring ? "ring" : "ulysses") + ", ranks " + std::to_string(problem.ranks) +
         ", length " + std::to_string(problem.batch.length) +
         (problem.batch.shape.dropout.share > 0 ? ", dropout" : "");
}

double worst_difference(const Outcome& a, const Outcome& b) {
  return std::max({relative_difference(a.output, b.output), relative_difference(a.log_sum_exp, b.log_sum_exp),
                   relative_difference(a.qkv_gradient, b.qkv_gradient)});
}

class AttentionOverRanks : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(, AttentionOverRanks, testing::Values(Kind::Ring, Kind::Ulysses),
                         [](const auto& kind) { return kind.param == Kind::Ring ? "Ring" : "Ulysses"; });

TEST_P(AttentionOverRanks, GivesOnManyRanksWhatItGivesOnOne) {
  for (const Problem& problem : problems(GetParam())) {
    SCOPED_TRACE(describe(problem));
    EXPECT_LT(worst_difference(run(problem), run(of_one_rank(problem))), kFloat32Bound);
  }
}

TEST_P(AttentionOverRanks, ComputesWhatFloat64DoesWithGradientsByFiniteDifferences) {
  std::map<std::pair<std::int64_t, bool>, Outcome> references;  // they do not depend on the number of ranks
  for (const Problem& problem : problems(GetParam())) {
    SCOPED_TRACE(describe(problem));
    Outcome& expected = references[{problem.batch.length, problem.batch.shape.dropout.share > 0}];
    if (expected.output.empty()) {
      AttentionReference reference(problem.batch, whole_values(problem, "qkv", 3 * width_of(problem)));
      expected.output = reference.output();
      expected.log_sum_exp = reference.log_sum_exp();
      expected.qkv_gradient = reference.qkv_gradient(whole_values(problem, "gradient", width_of(problem)));
    }
    EXPECT_LT(worst_difference(run(problem), expected), kFloat32Bound);
  }
}

// The ranks divide the places wrongly. The bound is narrow enough to notice that.
TEST_P(AttentionOverRanks, MisplacedRowsExceedTheBound) {
  Problem problem{.kind = GetParam(), .ranks = 2, .zigzag = false};
  problem.batch.length = 12;
  EXPECT_GT(worst_difference(run(problem), run(of_one_rank(problem))), 1000 * kFloat32Bound);
}

TEST_P(AttentionOverRanks, RefusesBuffersOfOtherSizes) {
  CommunicationAccounting traffic;
  MemoryAccounting memory;
  Group alone("cp", traffic);
  const auto attention =
      GetParam() == Kind::Ring ? make_ring_attention(alone, memory) : make_ulysses_attention(alone, memory);
  const std::string name = GetParam() == Kind::Ring ? "ring attention" : "Ulysses attention";
  const AttentionBatch batch{.shape = {.heads = 2, .head_size = 3}, .sequences = 1, .length = 4};
  std::vector<float> qkv(72);
  std::vector<float> output(24);
  std::vector<float> log_sum_exp(7);
  const Error error = error_of([&] { attention->forward(batch, qkv, output, log_sum_exp); });
  EXPECT_EQ(error.code, ErrorCode::InvalidArgument);
  EXPECT_EQ(error.message, name + ": log_sum_exp has 7 elements, but must have 8");
  log_sum_exp.resize(8);
  std::vector<float> qkv_gradient(71);
  EXPECT_EQ(error_of([&] {
              attention->backward(batch, {qkv, output, log_sum_exp}, output, qkv_gradient);
            }).message,
            name + ": qkv_gradient has 71 elements, but must have 72");
}

// One rank fails: the calls of the others return an error and give their memory back, which on_ranks checks.
TEST_P(AttentionOverRanks, EndsWithAnErrorWhereARankFails) {
  for (const bool in_backward : {false, true}) {
    on_ranks(3, "cp", [&](TestRank rank) {
      const auto attention = GetParam() == Kind::Ring ? make_ring_attention(rank.group, rank.memory)
                                                      : make_ulysses_attention(rank.group, rank.memory);
      const AttentionBatch batch{.shape = {.heads = 3, .head_size = 4}, .sequences = 1, .length = 12};
      const std::vector<float> qkv = normals("qkv", 4 * 36);
      std::vector<float> output(4 * 12);
      std::vector<float> log_sum_exp(4 * 3);
      std::vector<float> qkv_gradient(4 * 36);
      const Error error = error_of([&] {
        if (rank.group.rank() != 0 || in_backward) attention->forward(batch, qkv, output, log_sum_exp);
        if (rank.group.rank() == 0) rank.group.communicator().abort().value();
        attention->backward(batch, {qkv, output, log_sum_exp}, output, qkv_gradient);
      });
      EXPECT_EQ(error.code, ErrorCode::Aborted) << error.message;
    });
  }
}

// Every rank attends whole sequences with its heads, as one rank does.
TEST(Ulysses, HasTheBitsOfOneRank) {
  for (const Problem& problem : problems(Kind::Ulysses)) {
    SCOPED_TRACE(describe(problem));
    const Outcome many = run(problem);
    const Outcome one = run(of_one_rank(problem));
    EXPECT_TRUE(same_bits(many.output, one.output));
    EXPECT_TRUE(same_bits(many.log_sum_exp, one.log_sum_exp));
    EXPECT_TRUE(same_bits(many.qkv_gradient, one.qkv_gradient));
  }
}

TEST(Ulysses, RefusesMoreRanksThanHeads) {
  on_ranks(3, "cp", [](TestRank rank) {
    const auto attention = make_ulysses_attention(rank.group, rank.memory);
    const AttentionBatch batch{.shape = {.heads = 2, .head_size = 1}, .sequences = 1, .length = 6};
    std::vector<float> qkv(12);
    std::vector<float> output(4);
    const Error error = error_of([&] { attention->forward(batch, qkv, output, output); });
    EXPECT_EQ(error.code, ErrorCode::InvalidArgument);
    EXPECT_EQ(error.message, "Ulysses attention: 2 heads cannot be dealt out to 3 ranks");
    EXPECT_TRUE(rank.traffic.all().empty());
  });
}

TEST(Ulysses, CommunicatesTheBytesOfTheClosedForms) {
  for (const Problem& problem : problems(Kind::Ulysses)) {
    SCOPED_TRACE(describe(problem));
    const Outcome outcome = run(problem);
    const std::int64_t heads = problem.batch.shape.heads;
    const std::int64_t size = problem.batch.shape.head_size;
    for (int rank = 0; rank < problem.ranks; ++rank) {
      const Outcome::Counted& counted = outcome.counted[static_cast<std::size_t>(rank)];
      const std::int64_t by_places = problem.batch.sequences * places_of(problem, rank) * heads;
      const std::int64_t by_heads =
          problem.batch.sequences * problem.batch.length * part_of(heads, problem.ranks, rank).count;
      const auto two_calls = [&](std::int64_t floats) {
        const auto bytes = static_cast<std::uint64_t>(floats) * sizeof(float);
        return problem.ranks == 1 ? Payload{} : Payload{{"all_to_all_v", {2, bytes}}};
      };
      // The calls carry queries, keys and values, and then output and log-sum-exp.
      EXPECT_EQ(counted.forward, two_calls(by_places * 3 * size + by_heads * (size + 1)));
      // The calls carry queries, keys, values, output gradient, log-sum-exp and delta, and then three gradients.
      EXPECT_EQ(counted.backward, two_calls(by_places * (4 * size + 2) + by_heads * 3 * size));
    }
  }
}

TEST(RingAttention, SendsTheBytesOfTheClosedForms) {
  for (const Problem& problem : problems(Kind::Ring)) {
    SCOPED_TRACE(describe(problem));
    const Outcome outcome = run(problem);
    const std::int64_t length = problem.batch.length;
    for (int rank = 0; rank < problem.ranks; ++rank) {
      const auto places = [&](int of) { return places_of(problem, (of + problem.ranks) % problem.ranks); };
      // Returns the number of messages of K and V and their bytes, in `rounds` rounds without the message of rank
      // `without`. Ranks without places send none.
      const auto traffic = [&](int rounds, int without) -> std::pair<std::uint64_t, std::uint64_t> {
        int holders = 0;
        for (int of = 0; of < problem.ranks; ++of) holders += places(of) > 0 ? 1 : 0;
        const std::int64_t rows = rounds * length - places(without);
        const int calls = rounds * holders - (places(without) > 0 ? 1 : 0);
        return {static_cast<std::uint64_t>(calls),
                static_cast<std::uint64_t>(2 * problem.batch.sequences * rows * width_of(problem)) * sizeof(float)};
      };
      // A rank sends all keys and values except those of the next rank, and gets all except its own. In the backward
      // pass it also exchanges the gradients of all.
      const auto expected = [&](int rounds) {
        Payload payload;
        if (problem.ranks == 1) return payload;
        if (traffic(rounds, rank + 1).first > 0) payload["send"] = traffic(rounds, rank + 1);
        if (traffic(rounds, rank).first > 0) payload["recv"] = traffic(rounds, rank);
        return payload;
      };
      EXPECT_EQ(outcome.counted[static_cast<std::size_t>(rank)].forward, expected(1)) << "rank " << rank;
      EXPECT_EQ(outcome.counted[static_cast<std::size_t>(rank)].backward, expected(2)) << "rank " << rank;
    }
  }
}

// Ranks hold equal parts: the bytes of each rank are those of the table that textbooks give.
TEST(RingAttention, OfEqualPartsSendsRanksLessOneForwardAndTwiceRanksLessOneBackward) {
  for (int ranks = 2; ranks <= 4; ++ranks) {
    Problem problem{.kind = Kind::Ring, .ranks = ranks};
    problem.batch.length = 24;
    const auto block = static_cast<std::uint64_t>(2 * problem.batch.sequences * 24 / ranks * width_of(problem)) * 4;
    const auto times = static_cast<std::uint64_t>(ranks);
    for (const Outcome::Counted& counted : run(problem).counted) {
      EXPECT_EQ(counted.forward.at("send"), std::pair(times - 1, (times - 1) * block));
      EXPECT_EQ(counted.backward.at("send"), std::pair(2 * times - 1, (2 * times - 1) * block));
    }
  }
}

TEST(RingAttention, CountsItsWorkspace) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    Problem problem{.kind = Kind::Ring, .ranks = ranks};
    problem.batch.length = 24;
    const auto rows = static_cast<std::size_t>(problem.batch.sequences * 24 / ranks);
    const std::size_t a_head = rows * 5 * sizeof(float);  // a float for each row and head
    const std::size_t message = ranks == 1 ? 0 : 2 * rows * 20 * sizeof(float);
    for (const Outcome::Counted& counted : run(problem).counted) {
      EXPECT_EQ(counted.forward_workspace, 2 * a_head + 2 * message);
      EXPECT_EQ(counted.backward_workspace, a_head + 5 * message);
    }
  }
}

TEST(SequenceRanges, HoldEveryPlaceOnceInAscendingOrder) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (std::int64_t length = 0; length < 25; ++length) {
      std::vector<int> holders(static_cast<std::size_t>(length));
      for (int rank = 0; rank < ranks; ++rank) {
        std::int64_t next = 0;
        for (const Range& range : sequence_ranges(length, ranks, rank)) {
          EXPECT_GE(range.begin, next);
          next = range.begin + range.count;
          for (std::int64_t i = 0; i < range.count; ++i) ++holders[static_cast<std::size_t>(range.begin + i)];
        }
      }
      EXPECT_THAT(holders, testing::Each(1)) << ranks << " ranks, length " << length;
    }
  }
}

TEST(SequenceRanges, GiveAllRanksAsManyKeysToSee) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    const std::int64_t length = 2 * ranks * 3;
    for (int rank = 0; rank < ranks; ++rank) {
      std::int64_t seen = 0;
      for (const Range& range : sequence_ranges(length, ranks, rank)) {
        for (std::int64_t i = 0; i < range.count; ++i) seen += range.begin + i + 1;
      }
      EXPECT_EQ(seen, length * (length + 1) / 2 / ranks) << ranks << " ranks, rank " << rank;
    }
  }
}

}  // namespace
}  // namespace wreath::training::test::context_parallel
