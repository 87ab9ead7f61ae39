// Tests the turns of operations: their order, the room for them, and what a failure ends.
#include "src/engine/operation_queue.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace wreath {
namespace {

std::shared_ptr<Operation> numbered(std::uint64_t number) {
  auto operation = std::make_shared<Operation>();
  operation->reset(Call{});
  operation->number = number;
  return operation;
}

const auto kEnterNone = [](Operation& next) { FAIL() << next.number << " is entered"; };

TEST(OperationQueue, TakesOperationsInTheirTurn) {
  OperationQueue queue;
  EXPECT_EQ(queue.front(), nullptr);
  const auto first = numbered(1);
  const auto second = numbered(2);
  queue.add(first);
  queue.add(second);
  ASSERT_EQ(queue.front(), first.get());
  queue.finish_front(std::nullopt, kEnterNone);
  EXPECT_TRUE(first->over());
  EXPECT_FALSE(second->over());
  EXPECT_EQ(queue.front(), second.get());
  EXPECT_EQ(queue.size(), 1U);
}

TEST(OperationQueue, RunsAnImmediateOperationBeforeAllOthers) {
  OperationQueue queue;
  queue.immediate().reset(Call{});
  queue.begin_immediate();
  const auto queued = numbered(2);
  queue.add(queued);
  EXPECT_EQ(queue.front(), &queue.immediate());
  queue.finish_front(std::nullopt, kEnterNone);
  EXPECT_TRUE(queue.immediate().over());
  EXPECT_EQ(queue.front(), queued.get());
}

TEST(OperationQueue, EntersWhatFoundNoRoomBeforeTheOperationBeforeItIsOver) {
  OperationQueue queue;
  const auto first = numbered(1);
  queue.add(first);
  for (std::uint64_t number = 2; number <= OperationQueue::kMost + 1; ++number) {
    ASSERT_FALSE(queue.put_off(first)) << number;
    queue.add(numbered(number));
  }
  const auto late = numbered(0);
  ASSERT_TRUE(queue.put_off(late));
  std::vector<const Operation*> entered;
  queue.finish_front(std::nullopt, [&](Operation& next) {
    EXPECT_FALSE(first->over());
    EXPECT_EQ(queue.size(), OperationQueue::kMost + 1) << "something could get before it";
    entered.push_back(&next);
  });
  EXPECT_EQ(entered, std::vector<const Operation*>{late.get()});
  while (queue.front() != late.get()) queue.finish_front(std::nullopt, kEnterNone);
  EXPECT_EQ(queue.size(), 1U);
}

TEST(OperationQueue, EndsWithItsFirstFailureWhatComesLater) {
  OperationQueue queue;
  int told = 0;
  EXPECT_TRUE(queue.error());
  EXPECT_TRUE(queue.fail({ErrorCode::Aborted, "first", 1}, [&] { ++told; }));
  EXPECT_FALSE(queue.fail({ErrorCode::Timeout, "second", 2}, [&] { ++told; }));
  EXPECT_EQ(told, 1);
  EXPECT_EQ(queue.error().error().message, "first");
  const auto added = numbered(1);
  const auto put_off = numbered(2);
  queue.add(added);
  EXPECT_TRUE(queue.put_off(put_off));
  for (const auto& operation : {added, put_off}) {
    ASSERT_TRUE(operation->over());
    EXPECT_EQ(operation->status().error().message, "first");
  }
  EXPECT_TRUE(queue.empty());
}

TEST(OperationQueue, NamesTheFirstCallWhoseStreamHasNotCome) {
  OperationQueue queue;
  const Question question{1, Subject::Call, 3};
  EXPECT_EQ(queue.first_waiting(question), 0U);
  const auto ready = numbered(1);
  const auto waits = numbered(2);
  waits->ready = false;
  queue.add(ready);
  EXPECT_EQ(queue.first_waiting(question), 0U);
  queue.add(waits);
  queue.add(numbered(3));
  EXPECT_EQ(queue.first_waiting(question), 2U);
}

}  // namespace
}  // namespace wreath
