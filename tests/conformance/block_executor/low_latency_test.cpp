// Tests all_reduces by the protocol LL on blocks of host threads. They must give the reference's bits, also where the
// numbers of flags wrap. Calls whose peers do not come must end.
#include "src/executor/block/low_latency.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "src/device/library_device.hpp"
#include "src/executor/block/kernels.hpp"
#include "tests/unit/kernels/values.hpp"

namespace wreath {
namespace {

constexpr std::uint32_t kGo = 0;

// Holds one rank's area, zeroed.
class Area {
 public:
  Area() : memory_(std::calloc(1, kLowLatencyAreaBytes + 128), &std::free) {}
  std::byte* data() const {
    auto* first = static_cast<std::byte*>(memory_.get());
    return first + (0 - reinterpret_cast<std::uintptr_t>(first)) % 128;
  }
  void set_call(std::uint32_t number) const {
    for (std::size_t block = 0; block < kLowLatencyBlocks; ++block) {
      std::memcpy(data() + block * LowLatencyLayout::kBlockBytes, &number, sizeof number);
    }
  }

 private:
  std::unique_ptr<void, void (*)(void*)> memory_;
};

struct Areas {
  explicit Areas(int ranks, std::uint32_t first_call = 0) : own(static_cast<std::size_t>(ranks)) {
    for (const Area& area : own) {
      area.set_call(first_call);
      seen.push_back(area.data());
    }
  }
  void set_call(std::uint32_t number) const {
    for (const Area& area : own) area.set_call(number);
  }
  std::vector<Area> own;
  std::vector<const std::byte*> seen;
};

struct Shape {
  DataType dtype = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  std::size_t elements = 1;
  bool two_shot = false;
  bool in_place = false;
  int threads = 2;
};

std::string text_of(const Shape& shape, int ranks) {
  return std::string(name(shape.dtype)) + " " + std::string(name(shape.op)) + (shape.two_shot ? " two_shot" : "") +
         (shape.in_place ? " in place, " : ", ") + std::to_string(shape.elements) + " elements, " +
         std::to_string(ranks) + " ranks, " + std::to_string(shape.threads) + " threads";
}

// Holds one rank's part in a call.
struct OneRank {
  std::vector<std::byte> input;
  std::vector<std::byte> output;
  std::vector<std::uint32_t> ends;
  LowLatencyRun run{};
  std::unique_ptr<Stream> stream;
};

class Call {
 public:
  Call(const Areas& areas, const Shape& shape, std::mt19937& random) : shape_(shape), ranks_(areas.own.size()) {
    const std::size_t bytes = shape.elements * size_of(shape.dtype);
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      OneRank& own = ranks_[rank];
      own.input.resize(bytes);
      fill(shape.dtype, random, own.input.data(), shape.elements);
      own.output = shape.in_place ? own.input : std::vector<std::byte>(bytes);
      own.ends.resize(static_cast<std::size_t>(blocks()));
      own.run.arithmetic = arithmetic_of(rank);
      own.run.input = shape.in_place ? own.output.data() : own.input.data();
      own.run.output = own.output.data();
      own.run.elements = shape.elements;
      own.run.own = areas.own[rank].data();
      own.run.areas = areas.seen.data();
      own.run.ends = own.ends.data();
      own.run.stop = &kGo;
      own.run.signature = 5;
      own.run.rank = static_cast<std::uint32_t>(rank);
      own.run.two_shot = shape.two_shot;
      own.stream = host_device().make_stream().value();
    }
  }

  OneRank& rank(std::size_t index) { return ranks_[index]; }
  int blocks() const { return low_latency_blocks(shape_.elements, size_of(form())); }

  void launch(std::size_t rank, const Kernel& kernel = run_low_latency_kernel()) {
    OneRank& own = ranks_[rank];
    auto& device = static_cast<LibraryDevice&>(host_device());
    device.launch(*own.stream, kernel, {blocks(), shape_.threads, &own.run, sizeof own.run}).value();
  }
  LowLatencyOutcome end(std::size_t rank) {
    ranks_[rank].stream->synchronize().value();
    for (const std::uint32_t word : ranks_[rank].ends) {
      if (word == 0) continue;
      EXPECT_NE(low_latency_end(word).rank, rank);
      EXPECT_LT(low_latency_end(word).rank, ranks_.size());
      return low_latency_end(word).outcome;
    }
    return LowLatencyOutcome::Done;
  }

  // Runs all ranks, each after a delay of its own. Returns the mistake; empty where there is none.
  std::string run(std::mt19937& random) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (random() % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
      launch(rank);
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (end(rank) != LowLatencyOutcome::Done) return "rank " + std::to_string(rank) + " is not done";
    }
    return differs();
  }

  std::string differs() const {
    const std::vector<std::byte> expected = sum();
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].output != expected) return "rank " + std::to_string(rank) + " has another result";
    }
    return {};
  }

 private:
  // Returns the arithmetic of one rank. In premultiplied sums, rank r's factor is r + 1.
  Arithmetic arithmetic_of(std::size_t rank) const {
    const bool premultiplied = shape_.op == ReduceOp::PremultipliedSum;
    return arithmetic(shape_.dtype,
                      premultiplied ? Reduction::premultiplied_sum(static_cast<double>(rank + 1)) : shape_.op,
                      static_cast<int>(ranks_.size()));
  }
  DataType form() const {
    return shape_.op == ReduceOp::PremultipliedSum ? accumulator_of(shape_.dtype) : shape_.dtype;
  }
  std::vector<std::byte> sum() const {
    std::vector<std::vector<std::byte>> multiplied;
    std::vector<const std::byte*> sources;
    const bool premultiplied = shape_.op == ReduceOp::PremultipliedSum;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const std::byte* input = ranks_[rank].input.data();
      if (premultiplied) {
        auto& partial = multiplied.emplace_back(shape_.elements * size_of(form()));
        combine_reference(arithmetic_of(rank), partial.data(), Form::Partial, &input, 1, {}, shape_.elements);
      }
      sources.push_back(premultiplied ? multiplied.back().data() : input);
    }
    std::vector<std::byte> result(shape_.elements * size_of(shape_.dtype));
    const Operands operands{premultiplied ? Form::Partial : Form::Data, -1, Form::Data};
    combine_reference(arithmetic_of(0), result.data(), Form::Data, sources.data(), static_cast<int>(sources.size()),
                      operands, shape_.elements);
    return result;
  }

  Shape shape_;
  std::vector<OneRank> ranks_;
};

TEST(LowLatency, GivesTheReferencesBitsForAllTypesAndOperations) {
  std::mt19937 random(31);
  const Areas areas(3, 0x7FFF'FFFDU);
  for (const DataType dtype : all_dtypes()) {
    for (const ReduceOp op : all_ops()) {
      for (const bool two_shot : {false, true}) {
        const Shape shape{dtype, op, 1 + random() % 150, two_shot, random() % 2 == 0, 2};
        ASSERT_EQ(Call(areas, shape, random).run(random), "") << text_of(shape, 3);
      }
    }
  }
}

TEST(LowLatency, WorksForAnyRanksThreadsAndBlocksAcrossTheWrapOfCalls) {
  std::mt19937 random(32);
  struct Size {
    int ranks;
    int threads;
    std::size_t elements;
  };
  for (const Size& size : {Size{2, 128, 700}, Size{2, 1, 20'000}, Size{3, 32, 333}, Size{4, 3, 5'000}, Size{5, 1, 3},
                           Size{8, 2, 2'100}, Size{9, 1, 40}, Size{17, 1, 37}}) {
    for (const std::uint32_t first_call : {0U, 0x7FFF'FFFEU, 0x3FFF'FFFEU}) {
      const Areas areas(size.ranks, first_call);
      for (int call = 0; call < 5; ++call) {
        const std::size_t elements = call % 2 == 0 ? size.elements : random() % (size.elements + 1);
        const Shape shape{DataType::Float32, ReduceOp::Sum, elements, call % 2 == 0, call == 3, size.threads};
        ASSERT_EQ(Call(areas, shape, random).run(random), "") << text_of(shape, size.ranks) << " call " << call;
      }
    }
  }
}

// Parts of the last ranks are shorter than the others, or empty, and any thread may begin them.
TEST(LowLatency, SumsInPlaceWhateverTheParts) {
  std::mt19937 random(40);
  for (const int ranks : {2, 3, 5, 8}) {
    const Areas areas(ranks);
    for (const int threads : {1, 2, 3}) {
      for (const std::size_t elements : {0U, 1U, 3U, 17U, 64U, 131U, 2'500U}) {
        const Shape shape{DataType::Float32, ReduceOp::Sum, elements, true, true, threads};
        ASSERT_EQ(Call(areas, shape, random).run(random), "") << text_of(shape, ranks);
      }
    }
  }
}

TEST(LowLatency, TakesTheLargestVector) {
  std::mt19937 random(33);
  const Areas areas(2);
  for (const bool two_shot : {false, true}) {
    const Shape shape{DataType::BFloat16, ReduceOp::Avg, kLowLatencyBytes / 2, two_shot, false, 2};
    ASSERT_EQ(Call(areas, shape, random).run(random), "");
    const Shape wide{DataType::Float8E4M3, ReduceOp::PremultipliedSum, kLowLatencyBytes / 4, two_shot, true, 2};
    ASSERT_EQ(Call(areas, wide, random).run(random), "");
  }
}

// Ranks run as far ahead of each other as the protocol allows, because each makes all its calls by itself.
TEST(LowLatency, NeedsNoBarrierBetweenCalls) {
  std::mt19937 random(34);
  const Areas areas(3);
  constexpr int kCalls = 40;
  std::vector<Call> calls;
  calls.reserve(kCalls);
  for (int i = 0; i < kCalls; ++i) {
    calls.emplace_back(areas, Shape{DataType::Int32, ReduceOp::Sum, 1 + random() % 100, i % 3 == 0, false, 1}, random);
  }
  std::vector<std::thread> threads;
  std::vector<int> undone(3);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      std::mt19937 delays(static_cast<unsigned>(rank));
      for (Call& call : calls) {
        if (delays() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(delays() % 500));
        call.launch(rank);
        if (call.end(rank) != LowLatencyOutcome::Done) ++undone[rank];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(undone, std::vector<int>(3));
  for (int i = 0; i < kCalls; ++i) ASSERT_EQ(calls[static_cast<std::size_t>(i)].differs(), "") << "call " << i;
}

// The words of call 5 are still there when its number comes again, unless calls between have cleared them.
TEST(LowLatency, DoesNotTakeWordsOfALapBefore) {
  std::mt19937 random(35);
  const Areas areas(2, 5);
  const Shape shape{.elements = 600};
  ASSERT_EQ(Call(areas, shape, random).run(random), "");
  for (const std::uint32_t between : {0x4000'0000U, 0x4000'0001U}) {
    areas.set_call(between);
    ASSERT_EQ(Call(areas, {.elements = 1}, random).run(random), "");
  }
  areas.set_call(5);
  Call again(areas, shape, random);
  again.rank(0).run.stall_ns = 30'000'000;
  again.launch(0);
  EXPECT_EQ(again.end(0), LowLatencyOutcome::GaveUp);
}

TEST(LowLatency, EndsWhenItIsToldToOrNothingComes) {
  std::mt19937 random(36);
  const std::uint32_t stop = 1;
  for (const bool two_shot : {false, true}) {
    const Areas areas(3);
    Call told(areas, {.elements = 3'000, .two_shot = two_shot, .threads = 5}, random);
    told.rank(0).run.stop = &stop;
    told.launch(0);
    EXPECT_EQ(told.end(0), LowLatencyOutcome::GaveUp);
    Call late(areas, {.elements = 3'000, .two_shot = two_shot, .threads = 5}, random);
    late.rank(1).run.stall_ns = 20'000'000;
    late.launch(1);
    EXPECT_EQ(late.end(1), LowLatencyOutcome::GaveUp);
  }
}

// A block whose first thread leaves its first barrier late.
class LateBlock : public HostBlock {
 public:
  explicit LateBlock(const HostBlock& block) : HostBlock(block) {}
  void barrier() {
    HostBlock::barrier();
    if (thread() == 0 && !late_) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    late_ = true;
  }

 private:
  bool late_ = false;
};

// This test is mostly for ThreadSanitizer: a thread that gives up writes words that the late thread has yet to read.
TEST(LowLatency, EndsWhileAThreadOfTheBlockIsLate) {
  std::mt19937 random(38);
  const Kernel kernel{"", nullptr, [](HostBlock& block, const void* arguments) {
                        LateBlock late(block);
                        run_low_latency(late, *static_cast<const LowLatencyRun*>(arguments));
                      }};
  // Calls 0 and 1 clear the areas, all threads together.
  const Areas areas(2, 5);
  Call call(areas, {.elements = 1}, random);
  call.rank(0).run.stall_ns = 1;
  call.launch(0, kernel);
  EXPECT_EQ(call.end(0), LowLatencyOutcome::GaveUp);
  EXPECT_EQ(call.rank(0).output, std::vector<std::byte>(sizeof(float)));
}

TEST(LowLatency, TellsACallOfAnotherSignature) {
  std::mt19937 random(37);
  const Areas areas(2);
  Call call(areas, {.elements = 100, .threads = 3}, random);
  call.rank(1).run.signature = 6;
  for (std::size_t rank = 0; rank < 2; ++rank) call.launch(rank);
  EXPECT_EQ(call.end(0), LowLatencyOutcome::Differs);
  EXPECT_EQ(call.end(1), LowLatencyOutcome::Differs);
}

// Any thread may be the one that hears the rank that differs.
TEST(LowLatency, HearsEveryPeerWithAnyNumberOfThreads) {
  std::mt19937 random(39);
  for (const int threads : {1, 2, 3, 8}) {
    for (std::size_t other = 0; other < 5; ++other) {
      const Areas areas(5);
      Call call(areas, {.elements = 100, .two_shot = other % 2 == 0, .threads = threads}, random);
      call.rank(other).run.signature = 6;
      for (std::size_t rank = 0; rank < 5; ++rank) {
        // A rank that does not hear `other` waits for the sums of `other`.
        call.rank(rank).run.stall_ns = 10'000'000'000;
        call.launch(rank);
      }
      for (std::size_t rank = 0; rank < 5; ++rank) {
        ASSERT_EQ(call.end(rank), LowLatencyOutcome::Differs) << rank << " of " << other << ", " << threads;
        if (rank != other) {
          ASSERT_EQ(low_latency_end(call.rank(rank).ends[0]).rank, other);
        }
      }
    }
  }
}

}  // namespace
}  // namespace wreath
