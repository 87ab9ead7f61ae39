// Tests the protocol of src/fifo/access.hpp under every interleaving and reordering of two threads and three messages.
// The programs are recorded from the real functions, and mutants show that the model would notice errors.
#include "tests/unit/fifo/model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "src/fifo/access.hpp"

namespace wreath {
namespace {

using model::Explorer;
using model::Kind;
using model::Operation;
using model::Order;
using model::Program;
using model::Recording;
using model::Word;

constexpr std::uint32_t kMessages = 3;
constexpr std::uint32_t kLane = 1;

struct ModelSlot {
  Word sequence, lane, bytes;
};
struct ModelCounter {
  Word value;
};
struct ModelSend {
  ModelSlot* slots;
  const ModelCounter* consumed;
  std::uint32_t next, slot_count, staging_count, lane;
  std::uint32_t credits = 0;
};
struct ModelRecv {
  ModelSlot* slots;
  ModelCounter* consumed;
  std::uint32_t next, slot_count;
};

std::uint32_t data_of(std::uint32_t sequence) { return sequence * 7 + 1000; }
std::uint32_t bytes_of(std::uint32_t sequence) { return sequence * 3 + 500; }

// Returns whether the real has_credit() goes on when it reads `consumed`.
bool goes_on_with_credit(std::uint32_t next, std::uint32_t slot_count, std::uint32_t staging_count, Room room,
                         std::uint32_t consumed) {
  Counter counter{consumed};
  SendFifo fifo;
  fifo.consumed = &counter;
  fifo.next = next;
  fifo.slot_count = slot_count;
  fifo.staging_count = staging_count;
  return has_credit(fifo, room);
}

// Returns whether the real peek() goes on when it reads `sequence`.
bool goes_on_with_message(std::uint32_t next, std::uint32_t sequence) {
  SlotHeader slot{};
  slot.sequence = sequence;
  RecvFifo fifo;
  fifo.slots = &slot;
  fifo.next = next;
  fifo.slot_count = 1;
  return peek(fifo) != nullptr;
}

// Has headers, places for data, and a first sequence.
class FifoModel : public testing::TestWithParam<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>> {
 protected:
  FifoModel()
      : slot_count_(std::get<0>(GetParam())),
        staging_count_(std::min(std::get<1>(GetParam()), slot_count_)),
        first_(std::get<2>(GetParam())),
        slots_(slot_count_),
        staging_(staging_count_) {
    for (ModelSlot& slot : slots_) {
      for (Word* word : {&slot.sequence, &slot.lane, &slot.bytes}) *word = Word{words_++, &recording_};
    }
    for (Word& place : staging_) place = Word{words_++, &recording_};
    counter_.value = Word{words_++, &recording_};
  }

  std::vector<std::uint32_t> memory() {
    std::vector<std::uint32_t> words(words_);
    for (std::uint32_t i = 0; i < slot_count_; ++i) {
      words[slots_[(first_ + i) & (slot_count_ - 1)].sequence.number] = first_ + i - slot_count_;
    }
    words[counter_.value.number] = first_;
    return words;
  }

  Word& staged(std::uint32_t sequence) { return staging_[sequence & (staging_count_ - 1)]; }

  Program producer(Room room = Room::Staging) {
    recording_ = {};
    ModelSend fifo{slots_.data(), &counter_, first_, slot_count_, staging_count_, kLane};
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      const std::uint32_t next = fifo.next;
      // The producer looks each time. An earlier look saw an older value, and `consumed` only grows.
      fifo.credits = 0;
      recording_.where = "has_credit";
      recording_.answer = next;
      EXPECT_TRUE(has_credit(fifo, room));
      recording_.program.back().accept = [next, room, this](std::uint32_t consumed) {
        return goes_on_with_credit(next, slot_count_, staging_count_, room, consumed);
      };
      recording_.where = "publish";
      staged(next) = data_of(next);
      next_slot(fifo).bytes = bytes_of(next);
      publish(fifo);
    }
    return recording_.program;
  }

  void check(const Word& word, std::uint32_t expected) {
    word.record(Kind::Check, Order::Plain);
    recording_.program.back().accept = [expected](std::uint32_t value) { return value == expected; };
  }

  Program consumer() {
    recording_ = {};
    ModelRecv fifo{slots_.data(), &counter_, first_, slot_count_};
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      const std::uint32_t next = fifo.next;
      recording_.where = "peek";
      recording_.answer = next;
      const ModelSlot* slot = peek(fifo);
      recording_.program.back().accept = [next](std::uint32_t sequence) {
        return goes_on_with_message(next, sequence);
      };
      recording_.where = "read of message " + std::to_string(i);
      check(slot->lane, kLane);
      check(slot->bytes, bytes_of(next));
      check(staged(next), data_of(next));
      recording_.where = "consume";
      consume(fifo);
    }
    return recording_.program;
  }

  // Returns `program` with the acquires or releases of the function `where` made plain.
  static Program weakened(Program program, const std::string& where) {
    int changed = 0;
    for (Operation& operation : program) {
      if (operation.where != where || operation.order == Order::Plain) continue;
      operation.order = Order::Plain;
      ++changed;
    }
    EXPECT_EQ(changed, static_cast<int>(kMessages)) << where;
    return program;
  }

  // Returns `program` as a GPU has it: looks and tells have no order, but a fence comes behind each look and before
  // each tell. The tests in tests/unit/far_memory show that the fences are there.
  static Program by_fences(const Program& program) {
    Program fenced;
    for (Operation operation : program) {
      const Order order = std::exchange(operation.order, Order::Plain);
      const Operation fence{Kind::Fence, Order::Fence, 0, 0, nullptr, operation.where};
      if (order == Order::Release) fenced.push_back(fence);
      fenced.push_back(std::move(operation));
      if (order == Order::Acquire) fenced.push_back(fence);
    }
    return fenced;
  }
  static Program without_fences(Program program, const std::string& where) {
    std::erase_if(program, [&](const Operation& each) { return each.kind == Kind::Fence && each.where == where; });
    return program;
  }

  std::uint32_t slot_count_;
  std::uint32_t staging_count_;
  std::uint32_t first_;
  std::size_t words_ = 0;
  Recording recording_;
  std::vector<ModelSlot> slots_;
  std::vector<Word> staging_;
  ModelCounter counter_;
};

TEST_P(FifoModel, DeliversEveryMessageIntactInEveryExecution) {
  Explorer explorer(producer(), consumer(), memory());
  EXPECT_EQ(explorer.run(), "");
  EXPECT_GT(explorer.states(), 30U);
}

TEST_P(FifoModel, DeliversEveryMessageIntactByFencesAlone) {
  EXPECT_EQ(Explorer(by_fences(producer()), by_fences(consumer()), memory()).run(), "");
  for (const std::string where : {"has_credit", "publish"}) {
    EXPECT_NE(Explorer(without_fences(by_fences(producer()), where), by_fences(consumer()), memory()).run(), "");
  }
  for (const std::string where : {"peek", "consume"}) {
    EXPECT_NE(Explorer(by_fences(producer()), without_fences(by_fences(consumer()), where), memory()).run(), "");
  }
}

TEST_P(FifoModel, FailsWithoutTheReleaseOfPublish) {
  EXPECT_THAT(Explorer(weakened(producer(), "publish"), consumer(), memory()).run(),
              testing::HasSubstr("read of message"));
}

TEST_P(FifoModel, FailsWithoutTheAcquireOfPeek) {
  EXPECT_THAT(Explorer(producer(), weakened(consumer(), "peek"), memory()).run(),
              testing::HasSubstr("read of message"));
}

TEST_P(FifoModel, FailsWithoutTheReleaseOfConsume) {
  EXPECT_THAT(Explorer(producer(), weakened(consumer(), "consume"), memory()).run(),
              testing::HasSubstr("read of message"));
}

TEST_P(FifoModel, FailsWithoutTheAcquireOfHasCredit) {
  EXPECT_THAT(Explorer(weakened(producer(), "has_credit"), consumer(), memory()).run(),
              testing::HasSubstr("read of message"));
}

TEST_P(FifoModel, FailsWithDataWhereThereIsRoomForAHeaderAlone) {
  const std::string wrong = Explorer(producer(Room::Header), consumer(), memory()).run();
  if (staging_count_ < slot_count_) {
    EXPECT_THAT(wrong, testing::HasSubstr("read of message"));
  } else {
    EXPECT_EQ(wrong, "");
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, FifoModel,
                         testing::Combine(testing::Values(1U, 2U), testing::Values(1U, 2U),
                                          testing::Values(0U, 0xfffffffeU)));

// Runs PeerSegment::wake() against OwnSegment::begin_sleep() and the look that follows. The sleeper would miss a
// message if neither side saw the other.
bool can_miss_a_message(bool fences) {
  constexpr std::size_t kSequence = 0;
  constexpr std::size_t kSleeping = 1;
  constexpr std::uint32_t kNoDoorbell = 1;
  constexpr std::uint32_t kNoMessage = 2;
  const auto zero = [](std::uint32_t value) { return value == 0; };
  const Operation fence{Kind::Fence, Order::Fence, 0, 0, nullptr, ""};
  Program waker{{Kind::Store, Order::Release, kSequence, 1, nullptr, "publish"}};
  Program sleeper{{Kind::Store, Order::Release, kSleeping, 1, nullptr, "begin_sleep"}};
  if (fences) {
    waker.push_back(fence);
    sleeper.push_back(fence);
  }
  waker.push_back({Kind::Note, Order::Plain, kSleeping, kNoDoorbell, zero, "wake"});
  sleeper.push_back({Kind::Note, Order::Acquire, kSequence, kNoMessage, zero, "last look"});
  Explorer explorer(std::move(waker), std::move(sleeper), {0, 0});
  EXPECT_EQ(explorer.run(), "");
  return explorer.outcomes().contains(kNoDoorbell | kNoMessage);
}

TEST(SleepModel, NeverMissesAMessage) { EXPECT_FALSE(can_miss_a_message(true)); }
TEST(SleepModel, MissesOneWithoutFences) { EXPECT_TRUE(can_miss_a_message(false)); }

}  // namespace
}  // namespace wreath
