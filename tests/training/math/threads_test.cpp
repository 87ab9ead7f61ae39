// Loops are divided among threads: every part is done once, and any number of threads gives the same bits.
#include "training/compute/threads.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <set>
#include <stdexcept>
#include <thread>

#include "tests/training/math/values.hpp"
#include "training/compute/attention.hpp"
#include "training/compute/layers.hpp"
#include "training/compute/matrix_product.hpp"
#include "wreath/result.hpp"

namespace wreath::training {
namespace {

class Threads : public testing::Test {
 protected:
  ~Threads() override { set_math_threads(1); }
};

TEST_F(Threads, DoEveryPartOnceInMultiplesOfTheGrain) {
  for (const int threads : {1, 2, 3, 5}) {
    set_math_threads(threads);
    for (const std::int64_t count : {0, 1, 7, 8, 9, 100, 1000}) {
      std::vector<std::atomic<int>> times(static_cast<std::size_t>(count));
      std::atomic<int> parts = 0;
      parallel_for(count, 8, [&](std::int64_t begin, std::int64_t end) {
        EXPECT_EQ(begin % 8, 0);
        ++parts;
        for (std::int64_t i = begin; i < end; ++i) ++times[static_cast<std::size_t>(i)];
      });
      for (const auto& time : times) ASSERT_EQ(time, 1);
      EXPECT_LE(parts, threads);
      if (count == 1000) {
        EXPECT_EQ(parts, threads);
      }
    }
  }
}

TEST_F(Threads, RunALoopInsideALoopWhereItIsCalled) {
  set_math_threads(3);
  std::atomic<int> sum = 0;
  parallel_for(30, 1, [&](std::int64_t begin, std::int64_t end) {
    const auto here = std::this_thread::get_id();
    parallel_for(end - begin, 1, [&](std::int64_t first, std::int64_t last) {
      EXPECT_EQ(std::this_thread::get_id(), here);
      sum += static_cast<int>(last - first);
    });
  });
  EXPECT_EQ(sum, 30);
}

TEST_F(Threads, PassAnErrorOnAndGoOn) {
  set_math_threads(4);
  for (const std::int64_t bad : {0, 5, 39}) {
    const auto body = [&](std::int64_t begin, std::int64_t end) {
      if (begin <= bad && bad < end) throw std::runtime_error("bad");
    };
    EXPECT_THROW(parallel_for(40, 1, body), std::runtime_error);
    std::atomic<std::int64_t> done = 0;
    parallel_for(40, 1, [&](std::int64_t begin, std::int64_t end) { done += end - begin; });
    EXPECT_EQ(done, 40);
  }
}

TEST_F(Threads, AreSetToANumber) {
  EXPECT_THROW(set_math_threads(0), Exception);
  EXPECT_THROW(set_math_threads(1025), Exception);
  EXPECT_EQ(math_threads(), 1);
}

// Returns the results of every function that is divided among threads, for one seed.
std::vector<std::vector<float>> results(std::uint64_t seed) {
  const std::vector<float> x = random_values(200 * 131, seed);
  const std::vector<float> w = random_values(131 * 257, seed + 1);
  std::vector<std::vector<float>> all;
  const auto made = [&](std::size_t count) { return std::span<float>(all.emplace_back(count, 0.5f)); };
  all.reserve(16);
  matrix_product(matrix(x.data(), 200, 131), matrix(w.data(), 257, 131).transposed(), made(200 * 257).data(), 257);
  matrix_product(matrix(x.data(), 5, 131), matrix(w.data(), 131, 257), made(5 * 257).data(), 257, Accumulate::Yes);
  const auto mean = made(200), deviation = made(200), y = made(x.size());
  const auto weight = std::span(w).first(131);
  layer_norm_forward(x, weight, {}, y, {mean, deviation});
  layer_norm_backward(x, weight, {mean, deviation}, y, made(x.size()));
  gelu_forward(Gelu::Exact, x, y);
  gelu_backward(Gelu::Tanh, x, y, made(x.size()));
  const AttentionShape shape{3, 16};
  const Rows<const float> rows{x.data(), 131, 0, 200};
  const auto highest = made(600), sum = made(600), out = made(200 * 48), log_sum_exp = made(600),
             gradient = made(200 * 144);
  std::fill(highest.begin(), highest.end(), -std::numeric_limits<float>::infinity());
  const RunningSoftmax running{highest, sum, {out.data(), 48, 0, 200}};
  attention_add_block(shape, rows, {x.data() + 20, 131, 0, 200}, {x.data() + 40, 131, 0, 200}, running);
  attention_finish(shape, running, log_sum_exp);
  attention_backward_block(shape, {rows, {out.data(), 48, 0, 200}, log_sum_exp, sum}, {x.data() + 20, 131, 0, 200},
                           {x.data() + 40, 131, 0, 200}, {gradient.data(), 144, 0, 200},
                           {gradient.data() + 48, 144, 0, 200}, {gradient.data() + 96, 144, 0, 200});
  return all;
}

TEST_F(Threads, ChangeNoBits) {
  const auto expected = results(1);
  for (const int threads : {2, 3, 4, 7}) {
    set_math_threads(threads);
    EXPECT_EQ(results(1), expected) << threads;
  }
}

// Ranks that are threads of one process call at the same time.
TEST_F(Threads, OfSeveralCallersDoNotMeet) {
  std::vector<std::vector<std::vector<float>>> expected;
  for (std::uint64_t caller = 0; caller < 3; ++caller) expected.push_back(results(caller));
  set_math_threads(3);
  std::vector<std::thread> callers;
  for (std::uint64_t caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&expected, caller] {
      for (int i = 0; i < 3; ++i) EXPECT_EQ(results(caller), expected[caller]);
    });
  }
  for (std::thread& caller : callers) caller.join();
}

}  // namespace
}  // namespace wreath::training
