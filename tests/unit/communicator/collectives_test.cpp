// Tests every collective through the public calls, in each of its forms: which data arrives at which place.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/local_ranks.hpp"
#include "wreath/algorithm.hpp"

namespace wreath::test {
namespace {

using Values = std::vector<std::int32_t>;

// Returns element i of the data that rank `from` has for rank (or block) `to`.
std::int32_t value(int from, int to, std::size_t i) {
  return static_cast<std::int32_t>(from * 1'000'003 + to * 10'007 + static_cast<int>(i));
}

Values values(int from, int to, std::size_t count) {
  Values all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = value(from, to, i);
  return all;
}

void append(Values& all, const Values& more) { all.insert(all.end(), more.begin(), more.end()); }

// Returns the sum of block `to` over the vectors of all ranks.
Values sum(int ranks, int to, std::size_t count) {
  Values total(count);
  for (int rank = 0; rank < ranks; ++rank) {
    const Values one = values(rank, to, count);
    std::transform(total.begin(), total.end(), one.begin(), total.begin(), std::plus<>());
  }
  return total;
}

// Returns blocks 0 .. ranks-1 of `of(block)`, one after the other.
template <typename Of>
Values joined(int ranks, Of of) {
  Values all;
  for (int block = 0; block < ranks; ++block) append(all, of(block));
  return all;
}

struct Way {
  std::string transport;
  std::string algorithm;
  int ranks;
};

class Collectives : public testing::TestWithParam<Way> {
 protected:
  LocalRanks make(std::size_t tile_bytes = 1024) const {
    CommunicatorOptions options;
    options.transports = {GetParam().transport};
    options.overrides.algorithm = GetParam().algorithm;
    options.overrides.tile_bytes = tile_bytes;
    options.timeouts.stall_ms = 10'000;
    return {GetParam().ranks, options};
  }
  int n() const { return GetParam().ranks; }
};

constexpr std::size_t kCounts[] = {0, 1, 5, 333, 4099};

TEST_P(Collectives, MoveVectors) {
  LocalRanks all = make();
  all.run([&](Communicator& it) {
    for (const std::size_t count : kCounts) {
      const Values input = values(it.rank(), 0, count);
      Values output(count);
      ASSERT_TRUE(it.all_reduce(std::span<const std::int32_t>(input), std::span(output)));
      EXPECT_EQ(output, sum(n(), 0, count));
      for (Rank root = 0; root < n(); ++root) {
        Values vector = it.rank() == root ? input : Values(count);
        ASSERT_TRUE(it.broadcast(std::span(vector), root));
        EXPECT_EQ(vector, values(root, 0, count));
        Values total(it.rank() == root ? count : 0);
        ASSERT_TRUE(it.reduce(std::span<const std::int32_t>(input), std::span(total), root));
        if (it.rank() == root) {
          EXPECT_EQ(total, sum(n(), 0, count));
        }
        ASSERT_TRUE(it.barrier());
      }
    }
  });
}

TEST_P(Collectives, MoveBlocks) {
  LocalRanks all = make();
  all.run([&](Communicator& it) {
    const Rank me = it.rank();
    for (const std::size_t count : kCounts) {
      const Values blocks = joined(n(), [&](int to) { return values(me, to, count); });
      const Values own = values(me, me, count);
      const Values everyone = joined(n(), [&](int from) { return values(from, from, count); });
      Values one(count);
      Values many(blocks.size());
      ASSERT_TRUE(it.reduce_scatter(std::span<const std::int32_t>(blocks), std::span(one)));
      EXPECT_EQ(one, sum(n(), me, count));
      ASSERT_TRUE(it.all_gather(std::span<const std::int32_t>(own), std::span(many)));
      EXPECT_EQ(many, everyone);
      ASSERT_TRUE(it.all_to_all(std::span<const std::int32_t>(blocks), std::span(many)));
      EXPECT_EQ(many, joined(n(), [&](int from) { return values(from, me, count); }));
      for (Rank root = 0; root < n(); ++root) {
        const bool is_root = me == root;
        Values gathered(is_root ? blocks.size() : 0);
        ASSERT_TRUE(it.gather(std::span<const std::int32_t>(own), std::span(gathered), root));
        if (is_root) {
          EXPECT_EQ(gathered, everyone);
        }
        const Values dealt = is_root ? blocks : Values();
        ASSERT_TRUE(it.scatter(std::span<const std::int32_t>(dealt), std::span(one), root));
        EXPECT_EQ(one, values(root, me, count));
      }
    }
  });
}

TEST_P(Collectives, WorkInPlace) {
  LocalRanks all = make();
  all.run([&](Communicator& it) {
    const Rank me = it.rank();
    const auto at = static_cast<std::size_t>(me);
    for (const std::size_t count : kCounts) {
      const Values blocks = joined(n(), [&](int to) { return values(me, to, count); });
      Values buffer = blocks;
      std::int32_t* const own = buffer.data() + at * count;
      ASSERT_TRUE(it.reduce_scatter(buffer.data(), own, count, DataType::Int32));
      EXPECT_EQ(Values(own, own + count), sum(n(), me, count));
      buffer = blocks;
      ASSERT_TRUE(it.all_gather(own, buffer.data(), count, DataType::Int32));
      const Values everyone = joined(n(), [&](int from) { return values(from, from, count); });
      EXPECT_EQ(buffer, everyone);
      for (Rank root = 0; root < n(); ++root) {
        buffer = blocks;
        ASSERT_TRUE(it.gather(own, me == root ? buffer.data() : nullptr, count, DataType::Int32, root));
        if (me == root) {
          EXPECT_EQ(buffer, everyone);
        }
        buffer = blocks;
        ASSERT_TRUE(it.scatter(me == root ? buffer.data() : nullptr, own, count, DataType::Int32, root));
        EXPECT_EQ(Values(own, own + count), values(root, me, count));
        buffer.resize(count);
        const Values fresh = values(me, 0, count);
        // The buffer must not move, since `own` points into it.
        std::copy(fresh.begin(), fresh.end(), buffer.begin());
        ASSERT_TRUE(it.reduce(buffer.data(), me == root ? buffer.data() : nullptr, count, DataType::Int32, root));
        if (me == root) {
          EXPECT_EQ(buffer, sum(n(), 0, count));
        }
      }
      buffer.resize(count);
      const Values fresh = values(me, 0, count);
      // The buffer must not move, since `own` points into it.
      std::copy(fresh.begin(), fresh.end(), buffer.begin());
      ASSERT_TRUE(it.all_reduce(std::span(buffer)));
      EXPECT_EQ(buffer, sum(n(), 0, count));
    }
  });
}

// Returns how many elements rank `from` has for rank `to`: some pairs have none.
std::size_t varying(int from, int to) {
  const int some = (from * 7 + to * 3) % 5;
  return some == 0 ? 0 : static_cast<std::size_t>(some * 211);
}

// Places block b at offsets[b], in reverse order and with gaps.
struct Spread {
  explicit Spread(const std::vector<std::size_t>& of) : counts(of), offsets(of.size()) {
    for (std::size_t b = of.size(); b-- > 0;) {
      offsets[b] = end;
      end += of[b] + 3;
    }
  }
  Blocks blocks() const { return {counts, offsets}; }
  void put(Values& buffer, int block, const Values& what) const {
    std::copy(what.begin(), what.end(),
              buffer.begin() + static_cast<std::ptrdiff_t>(offsets[static_cast<std::size_t>(block)]));
  }

  std::vector<std::size_t> counts;
  std::vector<std::size_t> offsets;
  std::size_t end = 0;
};

TEST_P(Collectives, MoveBlocksThatVary) {
  LocalRanks all = make();
  all.run([&](Communicator& it) {
    const Rank me = it.rank();
    std::vector<std::size_t> by_rank;
    std::vector<std::size_t> to;
    std::vector<std::size_t> from;
    for (int rank = 0; rank < n(); ++rank) {
      by_rank.push_back(varying(rank, rank));
      to.push_back(varying(me, rank));
      from.push_back(varying(rank, me));
    }
    const std::size_t own = by_rank[static_cast<std::size_t>(me)];
    const Spread spread(by_rank);
    const Spread sent(to);
    const Spread received(from);
    Values wanted(spread.end, -1);
    Values mine(spread.end, -1);
    for (int rank = 0; rank < n(); ++rank) {
      spread.put(wanted, rank, values(rank, rank, by_rank[static_cast<std::size_t>(rank)]));
      spread.put(mine, rank, values(me, rank, by_rank[static_cast<std::size_t>(rank)]));
    }
    const Values block = values(me, me, own);
    Values gathered(spread.end, -1);
    ASSERT_TRUE(it.all_gather_v(block.data(), gathered.data(), spread.blocks(), DataType::Int32));
    EXPECT_EQ(gathered, wanted);
    Values one(own);
    ASSERT_TRUE(it.reduce_scatter_v(mine.data(), spread.blocks(), one.data(), DataType::Int32));
    EXPECT_EQ(one, sum(n(), me, own));
    for (Rank root = 0; root < n(); ++root) {
      gathered.assign(spread.end, -1);
      ASSERT_TRUE(it.gather_v(block.data(), gathered.data(), spread.blocks(), DataType::Int32, root));
      EXPECT_EQ(gathered, me == root ? wanted : Values(spread.end, -1));
      ASSERT_TRUE(it.scatter_v(mine.data(), spread.blocks(), one.data(), DataType::Int32, root));
      EXPECT_EQ(one, values(root, me, own));
    }
    Values out(sent.end, -1);
    Values in(received.end, -1);
    Values expected(received.end, -1);
    for (int rank = 0; rank < n(); ++rank) {
      sent.put(out, rank, values(me, rank, varying(me, rank)));
      received.put(expected, rank, values(rank, me, varying(rank, me)));
    }
    ASSERT_TRUE(it.all_to_all_v(out.data(), sent.blocks(), in.data(), received.blocks(), DataType::Int32));
    EXPECT_EQ(in, expected);
  });
}

// The program may free counts and displacements as soon as the call has been made.
TEST_P(Collectives, RunBehindOneAnother) {
  LocalRanks all = make();
  all.run([&](Communicator& it) {
    const Rank me = it.rank();
    constexpr std::size_t kCount = 1000;
    const Values block = values(me, me, kCount);
    Values gathered(kCount * static_cast<std::size_t>(n()));
    Values total(kCount);
    Values vector = me == 0 ? block : Values(kCount);
    std::vector<Work> works;
    {
      const std::vector<std::size_t> counts(static_cast<std::size_t>(n()), kCount);
      works.push_back(it.all_gather_v_async(block.data(), gathered.data(), {counts}, DataType::Int32).value());
    }
    works.push_back(it.barrier_async().value());
    works.push_back(it.broadcast_async(vector.data(), vector.data(), kCount, DataType::Int32, 0).value());
    Call call;
    call.dtype = DataType::Int32;
    call.input = reinterpret_cast<const std::byte*>(block.data());
    call.output = reinterpret_cast<std::byte*>(total.data());
    call.count = kCount;
    works.push_back(it.start(call).value());
    for (Work& work : works) ASSERT_TRUE(work.wait());
    EXPECT_EQ(gathered, joined(n(), [&](int from) { return values(from, from, kCount); }));
    EXPECT_EQ(vector, values(0, 0, kCount));
    Values wanted(kCount);
    for (int rank = 0; rank < n(); ++rank) {
      for (std::size_t i = 0; i < kCount; ++i) wanted[i] += value(rank, rank, i);
    }
    EXPECT_EQ(total, wanted);
  });
}

// Each rank's input is multiplied by its own factor, also in a world of one rank. An average divides.
TEST_P(Collectives, MultiplyAndDivide) {
  LocalRanks all = make();
  all.run([&](Communicator& it) {
    const double factor = 0.5 * (it.rank() + 1);
    for (const std::size_t count : kCounts) {
      std::vector<float> input(count, 3);
      std::vector<float> output(count);
      ASSERT_TRUE(
          it.all_reduce(std::span<const float>(input), std::span(output), Reduction::premultiplied_sum(factor)));
      EXPECT_EQ(output, std::vector<float>(count, static_cast<float>(0.75 * n() * (n() + 1))));
      ASSERT_TRUE(it.all_reduce(std::span<const float>(input), std::span(output), ReduceOp::Avg));
      EXPECT_EQ(output, std::vector<float>(count, 3));
    }
  });
}

std::vector<Way> ways() {
  std::vector<Way> all;
  for (const std::string transport : {"inproc", "tcp"}) {
    for (const int ranks : {1, 2, 3, 4, 5}) all.push_back({transport, "", ranks});
  }
  std::vector<std::string_view> names;
  for (const Algorithm& row : algorithms()) {
    if (std::find(names.begin(), names.end(), row.name) != names.end()) continue;
    names.push_back(row.name);
    for (const int ranks : {2, 3, 4, 7}) {
      if (row.supports({row.collective, ranks, 0})) all.push_back({"inproc", std::string(row.name), ranks});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(By, Collectives, testing::ValuesIn(ways()), [](const auto& way) {
  const Way& it = way.param;
  return it.transport + "_" + (it.algorithm.empty() ? "chosen" : it.algorithm) + "_" + std::to_string(it.ranks);
});

}  // namespace
}  // namespace wreath::test
