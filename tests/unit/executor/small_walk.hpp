// Walks ranks through small calls in a random order, and checks each result by the meaning of its collective alone.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "wreath/call.hpp"

namespace wreath {

struct Case {
  Collective collective;
  Rank root;
  std::size_t count;  // of the vector, or of a block
};

inline bool gives_blocks(Collective collective) {
  return collective == Collective::ReduceScatter || collective == Collective::AllToAll ||
         collective == Collective::Scatter;
}
inline bool gets_blocks(Collective collective) {
  return collective == Collective::AllGather || collective == Collective::AllToAll || collective == Collective::Gather;
}

inline Call call_of(const Case& test, const std::vector<float>& input, std::vector<float>& output) {
  return {.collective = test.collective,
          .root = test.root,
          .input = reinterpret_cast<const std::byte*>(input.data()),
          .output = reinterpret_cast<std::byte*>(output.data()),
          .count = test.count};
}

// Returns what rank `rank` puts at `index` in call `call`. The values are small integers, so that sums are exact.
inline float value_of(std::size_t call, int rank, std::size_t index) {
  return static_cast<float>((call * 7 + static_cast<std::size_t>(rank) * 31 + index * 3) % 101);
}

inline std::vector<float> input_of(const Case& test, std::size_t call, int rank, int ranks) {
  std::vector<float> input(test.count * (gives_blocks(test.collective) ? static_cast<std::size_t>(ranks) : 1));
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = value_of(call, rank, i);
  return input;
}

inline bool has_result(const Case& test, int rank) {
  const bool to_root = test.collective == Collective::Reduce || test.collective == Collective::Gather;
  return !to_root || rank == test.root;
}

// Returns the expected value, by the meaning of the collective alone.
inline float expected(const Case& test, std::size_t call, int rank, int ranks, std::size_t i) {
  const std::size_t own = static_cast<std::size_t>(rank) * test.count;
  const auto sum = [&](std::size_t index) {
    float total = 0;
    for (int r = 0; r < ranks; ++r) total += value_of(call, r, index);
    return total;
  };
  switch (test.collective) {
    case Collective::AllReduce:
    case Collective::Reduce: return sum(i);
    case Collective::ReduceScatter: return sum(own + i);
    case Collective::Broadcast: return value_of(call, test.root, i);
    case Collective::Scatter: return value_of(call, test.root, own + i);
    case Collective::AllToAll: return value_of(call, static_cast<int>(i / test.count), own + i % test.count);
    default: return value_of(call, static_cast<int>(i / test.count), i % test.count);  // all_gather, gather
  }
}

// Advances ranks in a random order through `cases`, each as far ahead of the others as the protocol permits. `exchanges`
// of a World has an exchange of each rank, with start(call, signature) and run().
template <typename World>
class Walk {
 public:
  Walk(std::vector<Case> cases, World world)
      : cases_(std::move(cases)), world_(std::move(world)), ranks_(world_.exchanges.size()) {}

  void run(std::uint32_t seed) {
    std::mt19937 random(seed);
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) begin(rank);
    for (int turn = 0; !over(); ++turn) {
      ASSERT_LT(turn, 3'000'000) << "a message was lost";
      const std::size_t rank = random() % ranks_.size();
      if (ranks_[rank].at == cases_.size() || world_.exchanges[rank].run() != Advance::Done) continue;
      check(rank);
      if (testing::Test::HasFatalFailure()) return;
      ++ranks_[rank].at;
      begin(rank);
    }
  }
  std::size_t furthest_apart() const { return apart_; }

 private:
  struct OneRank {
    std::size_t at = 0;
    std::vector<float> input;
    std::vector<float> output;
  };

  int count() const { return static_cast<int>(ranks_.size()); }
  bool over() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [&](const OneRank& rank) { return rank.at == cases_.size(); });
  }
  void begin(std::size_t index) {
    OneRank& rank = ranks_[index];
    for (const OneRank& other : ranks_)
      apart_ = std::max(apart_, std::max(rank.at, other.at) - std::min(rank.at, other.at));
    if (rank.at == cases_.size()) return;
    const Case& test = cases_[rank.at];
    rank.input = input_of(test, rank.at, static_cast<int>(index), count());
    rank.output.assign(test.count * (gets_blocks(test.collective) ? ranks_.size() : 1), -1.0F);
    world_.exchanges[index].start(call_of(test, rank.input, rank.output), static_cast<std::uint32_t>(rank.at));
  }
  void check(std::size_t index) {
    const OneRank& rank = ranks_[index];
    const Case& test = cases_[rank.at];
    const int me = static_cast<int>(index);
    for (std::size_t i = 0; i < rank.output.size(); ++i) {
      const float right = has_result(test, me) ? expected(test, rank.at, me, count(), i) : -1.0F;
      ASSERT_EQ(rank.output[i], right) << name(test.collective) << " #" << rank.at << " of " << test.count
                                       << " elements, root " << test.root << ", rank " << me << ", element " << i;
    }
  }

  std::vector<Case> cases_;
  World world_;
  std::vector<OneRank> ranks_;
  std::size_t apart_ = 0;
};

inline constexpr Collective kAll[] = {Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather,
                               Collective::Broadcast, Collective::Reduce,        Collective::AllToAll,
                               Collective::Gather,    Collective::Scatter};

// Returns as many calls of one collective as there are buffers and more, and then calls of others. The sizes include
// all at the ends of lines.
inline std::vector<Case> mixed_cases(int ranks, std::size_t most_bytes, std::mt19937& random) {
  std::vector<Case> cases;
  constexpr std::size_t kCounts[] = {1, 2, 13, 14, 15, 27, 28, 29, 64, 85, 86, 255, 256, 257, 700, 1365, 5000, 8192};
  while (cases.size() < 1500) {
    const Collective collective = kAll[random() % std::size(kAll)];
    const std::size_t repeats = 1 + random() % 20;
    for (std::size_t i = 0; i < repeats; ++i) {
      const std::size_t most = most_bytes / sizeof(float) / static_cast<std::size_t>(ranks);
      const std::size_t count = std::min(kCounts[random() % std::size(kCounts)], most);
      cases.push_back({collective, static_cast<Rank>(random() % static_cast<unsigned>(ranks)), count});
    }
  }
  return cases;
}

}  // namespace wreath
