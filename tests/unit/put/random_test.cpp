// Links carry random messages over networks with random whims: the data is right, or an error has a name.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/support/processes.hpp"
#include "tests/unit/put/pair.hpp"

namespace wreath::put {
namespace {

// A batch has so many seeds of its own.
constexpr std::uint32_t kSeeds = 500;

std::uint32_t one_of(std::mt19937& random, std::initializer_list<std::uint32_t> values) {
  return values.begin()[random() % values.size()];
}

Whims whims_of(std::mt19937& random, std::uint32_t seed) {
  Whims whims;
  whims.seed = seed;
  whims.limits.ordered = random() % 2 == 0;
  whims.limits.inline_bytes = one_of(random, {0, 63, 64, 220});
  whims.limits.put_bytes = one_of(random, {5000, 8192, 1 << 20});
  whims.limits.outstanding = one_of(random, {10, 16, 64});
  whims.torn = random() % 2 == 0;
  whims.full_chance = one_of(random, {0, 0, 3});
  whims.held_chance = one_of(random, {0, 0, 3, 20});
  whims.idle_chance = one_of(random, {0, 2, 10});
  whims.stop_chance = one_of(random, {0, 2});
  whims.lose_chance = one_of(random, {0, 0, 0, 20, 100});
  if (random() % 4 == 0) whims.lose_put = 1 + random() % 40;
  whims.retryable = random() % 8 != 0;
  whims.limits.told_bits = one_of(random, {kFewestToldBits, 20, 32});
  return whims;
}

std::vector<Stream> random_streams(Pair& pair, std::mt19937& random) {
  std::vector<Stream> streams;
  for (std::uint16_t lane = 0; lane < pair.shape.lanes; ++lane) {
    for (const int from : {0, 1}) {
      streams.emplace_back(pair, from, lane);
      if (random() % 3 != 0) streams.back().want_places(random() % 4 != 0);
      for (auto left = random() % 12; left > 0; --left) {
        const std::size_t bytes = random() % 2 == 0
                                      ? one_of(random, {0, 1, 156, 157, 4095, 4096, 4097, 5001, pair.shape.slot_bytes})
                                      : random() % (pair.shape.slot_bytes + 1);
        streams.back().add(bytes, static_cast<Way>(random() % 3));
      }
    }
  }
  return streams;
}

// Counts the messages that landed.
void run(std::uint32_t seed, std::size_t& landed) {
  std::mt19937 random(seed);
  const Whims whims = whims_of(random, seed);
  const bool large = whims.limits.put_bytes > kSlotBytes && random() % 2 == 0;
  FifoShape shape = shape_of(static_cast<std::uint16_t>(1 + random() % 3), one_of(random, {1, 2, 4}),
                             one_of(random, {0, 0xfffffffd, 0xfffff0}), large ? 4 * kSlotBytes : kSlotBytes);
  shape.checked = random() % 4 == 0;
  PutOptions options;
  options.channels = one_of(random, {1, 1, 2, 4});
  options.waiting = {one_of(random, {0, 1, 20}), random() % 2 == 0 ? 0 : 60'000 * kNsPerMs};
  const int rails = static_cast<int>(one_of(random, {1, 1, 2, 3}));
  Pair pair(shape, whims, options, rails);
  pair.word_delay = one_of(random, {0, 4});
  std::vector<Stream> streams = random_streams(pair, random);
  const bool lazy = random() % 2 == 0;
  std::string wrong;
  const bool done = drive(pair, [&] {
    bool all = true;
    for (Stream& stream : streams) {
      if (random() % 3 != 0) stream.send_all();
      lazy ? stream.take_one() : stream.take_all();
      wrong += stream.wrong();
      all = all && stream.done();
    }
    return !wrong.empty() || (all && pair.ends[0].link->in_flight() == 0 && pair.ends[1].link->in_flight() == 0);
  });
  for (Stream& stream : streams) landed += stream.landed();
  for (int i = 0; done && i < 1000 && pair.network.step(); ++i) {
  }
  for (Stream& stream : streams) {
    if (done) stream.check_places();
    wrong += stream.wrong();
  }
  ASSERT_EQ(wrong, "") << seed;
  ASSERT_EQ(pair.network.violations(), 0) << seed << ": " << pair.network.violation();
  if (done) return;
  ASSERT_FALSE(pair.error.message.empty()) << seed << ": nothing moves";
  const bool may_fail = !whims.retryable && (whims.lose_chance != 0 || whims.lose_put != 0);
  ASSERT_TRUE(may_fail) << seed << ": " << pair.error.message;
  ASSERT_EQ(pair.error.code, ErrorCode::PeerLost) << seed;
  ASSERT_NE(pair.error.message.find("retries ran out"), std::string::npos) << seed << ": " << pair.error.message;
}

class PutRandom : public testing::TestWithParam<std::uint32_t> {};

TEST_P(PutRandom, DataIsRightOrAnErrorIsNamed) {
  const int runs = testing_support::rounds(testing_support::kSanitized ? 20 : 40, kSeeds);
  std::size_t landed = 0;
  for (int i = 0; i < runs; ++i) {
    run(GetParam() * kSeeds + static_cast<std::uint32_t>(i), landed);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(landed, 0U);
}

INSTANTIATE_TEST_SUITE_P(Batches, PutRandom, testing::Range(0u, 20u));

}  // namespace
}  // namespace wreath::put
