// The flight recorder keeps the last calls, lets other threads and processes read them, and costs little.
#include "src/recorder/recorder.hpp"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "src/base/clock.hpp"
#include "tests/support/in_child.hpp"

namespace wreath {
namespace {

CallRecord float_call(std::uint64_t count) {
  CallRecord call;
  call.dtype = DataType::Float32;
  call.count = count;
  return call;
}

FlightRecorder make_recorder(Rank rank = 0, int ranks = 1) {
  return FlightRecorder::create(rank, ranks, 0xfeed).value();
}

TEST(FlightRecorder, CountsCallsFromOne) {
  FlightRecorder recorder = make_recorder();
  EXPECT_EQ(recorder.last().number, 0u);
  EXPECT_EQ(recorder.enter(float_call(8)), 1u);
  EXPECT_EQ(recorder.enter(float_call(8)), 2u);
  EXPECT_EQ(recorder.last().number, 2u);
}

// Files may be 4 KiB at most: the kernel would end a process by SIGXFSZ that writes a larger one.
TEST(FlightRecorder, IsTheProcesssOwnWhereFilesMayNotBeSoLarge) {
  EXPECT_EQ(test::in_child([] {
              const rlimit small{4096, 4096};
              ::setrlimit(RLIMIT_FSIZE, &small);
              auto recorder = FlightRecorder::create(0, 1, 0xfeed);
              return recorder && recorder->enter(float_call(8)) == 1 && recorder->last().number == 1 ? 0 : 1;
            }),
            0);
}

TEST(FlightRecorder, TakesTheNumberItIsGiven) {
  FlightRecorder recorder = make_recorder();
  CallRecord call = float_call(8);
  call.number = 41;
  EXPECT_EQ(recorder.enter(call), 41u);
  EXPECT_EQ(recorder.enter(float_call(8)), 42u);
}

TEST(FlightRecorder, KeepsTheLastMessagesInTheirOrder) {
  FlightRecorder recorder = make_recorder(0, 3);
  CallRecord exchange;
  exchange.collective = Collective::Exchange;
  const std::uint64_t key = recorder.enter(exchange);
  constexpr std::uint64_t kAll = kRecordedMessages + 10;
  for (std::uint64_t number = 1; number <= kAll; ++number) {
    recorder.message(key, {0, number % 2 == 0, 2, DataType::BFloat16, 3 * number, number});
  }
  const std::vector<MessageRecord> messages = recorder.snapshot().messages;
  ASSERT_EQ(messages.size(), kRecordedMessages);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::uint64_t number = kAll - kRecordedMessages + 1 + i;
    EXPECT_EQ(messages[i].number, number);
    EXPECT_EQ(messages[i].count, 3 * number);
    EXPECT_EQ(messages[i].sent, number % 2 == 0);
    EXPECT_EQ(messages[i].exchange, 1u);
    EXPECT_EQ(messages[i].dtype, DataType::BFloat16);
    EXPECT_EQ(messages[i].peer, 2);
  }
  EXPECT_EQ(describe(messages.back()), "send #1034 to rank 2 bfloat16 x 3102");
}

TEST(FlightRecorder, FollowsACallThroughItsStates) {
  FlightRecorder recorder = make_recorder();
  const std::int64_t before = now_ns();
  const std::uint64_t number = recorder.enter(float_call(1024));
  EXPECT_EQ(recorder.find(number)->state, CallState::Entered);
  EXPECT_EQ(recorder.find(number)->done_ns, 0);
  recorder.running(number, "two_shot");
  EXPECT_EQ(recorder.find(number)->state, CallState::Running);
  EXPECT_EQ(recorder.find(number)->algorithm.view(), "two_shot");
  recorder.done(number);
  const CallRecord call = *recorder.find(number);
  const std::int64_t after = now_ns();
  EXPECT_EQ(call.state, CallState::Done);
  EXPECT_EQ(call.algorithm.view(), "two_shot");
  EXPECT_EQ(call.count, 1024u);
  // The difference that the cycle counter may have from the clock, in nanoseconds.
  constexpr std::int64_t kClockError = 1'000'000;
  EXPECT_GE(call.entered_ns, before - kClockError);
  EXPECT_GE(call.done_ns, call.entered_ns);
  EXPECT_LE(call.done_ns, after + kClockError);
  recorder.failed(recorder.enter(float_call(1)));
  EXPECT_EQ(recorder.last().state, CallState::Failed);
}

TEST(FlightRecorder, ACallThatIsOverAtOnceEndsWhenItBegan) {
  FlightRecorder recorder = make_recorder();
  const std::uint64_t number = recorder.enter(float_call(2));
  recorder.done_at_once(number);
  const CallRecord call = *recorder.find(number);
  EXPECT_EQ(call.state, CallState::Done);
  EXPECT_NE(call.done_ns, 0);
  EXPECT_EQ(call.done_ns, call.entered_ns);
}

TEST(FlightRecorder, KeepsTheLast256Calls) {
  FlightRecorder recorder = make_recorder();
  for (std::uint64_t i = 1; i <= 300; ++i) recorder.enter(float_call(i));
  EXPECT_FALSE(recorder.find(44));
  EXPECT_EQ(recorder.find(45)->count, 45u);
  EXPECT_EQ(recorder.find(300)->count, 300u);
  const Recording recording = recorder.snapshot();
  ASSERT_EQ(recording.calls.size(), kRecordedCalls);
  EXPECT_EQ(recording.calls.front().number, 45u);
  EXPECT_EQ(recording.calls.back().number, 300u);
  // Call 44 was overwritten long ago, so nothing may change.
  recorder.done(44);
  EXPECT_EQ(recorder.find(300)->state, CallState::Entered);
}

TEST(FlightRecorder, IsQuietWhenDefaultConstructed) {
  FlightRecorder recorder;
  EXPECT_EQ(recorder.enter(float_call(1)), 0u);
  recorder.running(1);
  recorder.done(1);
  EXPECT_FALSE(recorder.find(1));
  EXPECT_EQ(recorder.last().number, 0u);
  EXPECT_EQ(recorder.dump({ErrorCode::System, "x"}).error().code, ErrorCode::InvalidUsage);
}

TEST(FlightRecorder, MovesWithItsMemory) {
  FlightRecorder first = make_recorder();
  first.enter(float_call(7));
  FlightRecorder second = std::move(first);
  EXPECT_EQ(second.last().count, 7u);
}

TEST(FlightRecorder, ShowsReadersWholeRecordsOnly) {
  FlightRecorder recorder = make_recorder();
  std::atomic<bool> over{false};
  std::thread reader([&] {
    while (!over.load()) {
      const CallRecord call = recorder.last();
      if (call.number != 0) {
        ASSERT_EQ(call.count, call.number * 3);
      }
      for (const CallRecord& kept : recorder.snapshot().calls) ASSERT_EQ(kept.count, kept.number * 3);
    }
  });
  for (std::uint64_t i = 1; i <= 50'000; ++i) {
    const std::uint64_t number = recorder.enter(float_call(i * 3));
    recorder.running(number, i % 2 == 0 ? "ring" : "recursive_doubling");
    recorder.done(number);
  }
  over.store(true);
  reader.join();
}

TEST(FlightRecorder, DescribesACallInOneLine) {
  CallRecord call = float_call(1048576);
  call.number = 17;
  EXPECT_EQ(describe(call), "all_reduce #17 float32 x 1048576");
}

TEST(FlightRecorder, IsReadFromAnotherProcess) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    FlightRecorder recorder = make_recorder(2, 4);
    recorder.done(recorder.enter(float_call(5)));
    recorder.enter(float_call(6));
    if (write(ready[1], "r", 1) != 1) _exit(1);
    ::pause();
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const Result<std::vector<Recording>> recordings = read_process(child);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  ASSERT_TRUE(recordings) << recordings.error().message;
  ASSERT_EQ(recordings->size(), 1u);
  const Recording& recording = recordings->front();
  EXPECT_EQ(recording.rank, 2);
  EXPECT_EQ(recording.ranks, 4);
  EXPECT_EQ(recording.pid, child);
  EXPECT_EQ(recording.communicator, 0xfeedu);
  ASSERT_EQ(recording.calls.size(), 2u);
  EXPECT_EQ(recording.calls[0].state, CallState::Done);
  EXPECT_EQ(recording.calls[1].state, CallState::Entered);
  close(ready[0]);
  close(ready[1]);
  EXPECT_EQ(read_process(child).error().code, ErrorCode::Unavailable);
}

TEST(FlightRecorder, GivesItsDescriptorBack) {
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto before = open_files();
  { const FlightRecorder recorder = make_recorder(); }
  EXPECT_EQ(open_files(), before);
}

// The recorder promises 10 ns for each entry. A bound of a hundred times that still notices a system call or a lock,
// under sanitizers too. The test takes the fastest of many rounds, each shorter than a turn on a core that other
// programs share.
TEST(FlightRecorder, CostsNanoseconds) {
  FlightRecorder recorder = make_recorder();
  const CallRecord call = float_call(1024);
  constexpr int kCalls = 500;
  std::int64_t best = INT64_MAX;
  for (int repeat = 0; repeat < 400; ++repeat) {
    const std::int64_t start = now_ns();
    for (int i = 0; i < kCalls; ++i) recorder.done(recorder.enter(call));
    best = std::min(best, now_ns() - start);
  }
  const double each = static_cast<double>(best) / (2 * kCalls);
  RecordProperty("nanoseconds", std::to_string(each));
  std::printf("one entry: %.1f ns\n", each);
  EXPECT_LT(each, 1000);
}

}  // namespace
}  // namespace wreath
