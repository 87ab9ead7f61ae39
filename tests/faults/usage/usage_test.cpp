// Tests wrong arguments and wrong use. Every rank gets an error that names the mistake, and none hangs.
#include <errno.h>
#include <fenv.h>
#include <locale.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <initializer_list>
#include <limits>

#include "tests/support/processes.hpp"
#include "tests/support/resources.hpp"
#include "wreath/group.hpp"
#include "wreath/recording.hpp"

namespace wreath::testing_support {
namespace {

CommunicatorOptions quick() {
  static const test::RecordingsFolder kept;
  CommunicatorOptions options;
  options.timeouts = {20'000 * kSlower, 500, 2'000, 2'000};
  return options;
}

// One rank misuses its communicator while the other waits in a call.
void one_misuses(const std::function<Status(Communicator&)>& misuse, ErrorCode code, const std::string& says) {
  auto ranks = Communicator::create_local(2, quick()).value();
  Status waited;
  std::thread other([&] {
    std::vector<float> buffer(1000);
    waited = ranks[1].all_reduce(std::span<float>(buffer));
  });
  const Status misused = misuse(ranks[0]);
  other.join();
  ASSERT_FALSE(misused);
  EXPECT_EQ(misused.error().code, code);
  EXPECT_NE(misused.error().message.find(says), std::string::npos) << misused.error().message;
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, code) << waited.error().message;
  EXPECT_EQ(waited.error().failed_rank, 0) << waited.error().message;
  EXPECT_NE(waited.error().message.find(says), std::string::npos) << waited.error().message;
  EXPECT_FALSE(ranks[0].error());
}

TEST(Usage, NullBuffersAreToldToEveryRank) {
  std::vector<float> buffer(10);
  one_misuses([&](Communicator& it) { return it.all_reduce(nullptr, buffer.data(), 10, DataType::Float32); },
              ErrorCode::InvalidArgument, "input = null");
  one_misuses([&](Communicator& it) { return it.all_reduce(buffer.data(), nullptr, 10, DataType::Float32); },
              ErrorCode::InvalidArgument, "output = null");
}

TEST(Usage, OverlapIsToldToEveryRank) {
  std::vector<float> buffer(20);
  one_misuses([&](Communicator& it) { return it.all_reduce(buffer.data(), buffer.data() + 9, 10, DataType::Float32); },
              ErrorCode::InvalidArgument, "overlaps");
}

TEST(Usage, HugeCountsAreToldToEveryRank) {
  std::vector<float> buffer(20);
  for (const std::size_t count : {SIZE_MAX, SIZE_MAX / 4, SIZE_MAX / 8 + 1}) {
    one_misuses([&](Communicator& it) { return it.all_reduce(buffer.data(), buffer.data(), count, DataType::Float32); },
                ErrorCode::InvalidArgument, "count = " + std::to_string(count));
  }
}

TEST(Usage, AnUnknownTypeOrOperationIsToldToEveryRank) {
  std::vector<float> buffer(20);
  one_misuses(
      [&](Communicator& it) { return it.all_reduce(buffer.data(), buffer.data(), 1, static_cast<DataType>(99)); },
      ErrorCode::InvalidArgument, "dtype = 99");
  one_misuses(
      [&](Communicator& it) {
        return it.all_reduce(buffer.data(), buffer.data(), 1, DataType::Float32, static_cast<ReduceOp>(77));
      },
      ErrorCode::InvalidArgument, "op = 77");
}

// Each error names the collective and the argument, on both ranks.
TEST(Usage, WrongArgumentsOfEveryCollectiveAreToldToEveryRank) {
  struct Row {
    std::function<Status(Communicator&, float*)> misuse;
    std::string says;
  };
  constexpr DataType kFloat = DataType::Float32;
  static constexpr std::size_t kOne[] = {1};
  const Row rows[] = {
      {[](Communicator& it, float* data) { return it.reduce_scatter(data, nullptr, 4, kFloat); },
       "output = null with count = 4"},
      {[](Communicator& it, float* data) { return it.all_gather(data, data + 1, 4, kFloat); },
       "in place is input == output + rank * count"},
      {[](Communicator& it, float* data) { return it.broadcast(data, data, 4, kFloat, 2); }, "root = 2"},
      {[](Communicator& it, float* data) { return it.reduce(data, nullptr, 4, kFloat, 0); }, "output = null"},
      {[](Communicator& it, float* data) { return it.all_to_all(data, data, 4, kFloat); }, "no in-place form"},
      {[](Communicator& it, float* data) { return it.gather(nullptr, data, 4, kFloat, 1); }, "input = null"},
      {[](Communicator& it, float* data) { return it.scatter(data, data + 1, 4, kFloat, 0); },
       "in place is output == input + rank * count"},
      {[](Communicator& it, float* data) { return it.all_gather_v(data, data + 8, {kOne}, kFloat); },
       "blocks.counts has 1 entries for 2 ranks"},
      {[](Communicator& it, float* data) { return it.all_to_all_v(data, {}, data + 8, {}, kFloat); },
       "sent.counts has 0 entries for 2 ranks"},
      {[](Communicator& it, float*) {
         Call call;
         call.collective = static_cast<Collective>(42);
         return it.run(call);
       },
       "collective = 42"},
  };
  std::vector<float> buffer(100);
  for (const Row& row : rows) {
    one_misuses([&](Communicator& it) { return row.misuse(it, buffer.data()); }, ErrorCode::InvalidArgument, row.says);
  }
}

TEST(Usage, SpansOfDifferentSizesAreToldToEveryRank) {
  std::vector<float> buffer(20);
  one_misuses(
      [&](Communicator& it) {
        return it.all_gather(std::span<const float>(buffer.data(), 4), std::span<float>(buffer.data() + 4, 9));
      },
      ErrorCode::InvalidArgument, "input has 8 elements, output 9");
}

TEST(Usage, SpansOfDifferentSizesAreRefused) {
  auto ranks = Communicator::create_local(1, quick()).value();
  std::vector<float> three(3);
  std::vector<float> four(4);
  const Status status = ranks[0].all_reduce(std::span<const float>(three), std::span<float>(four));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::InvalidArgument);
}

TEST(Usage, TimesWithoutAnEndAreTaken) {
  CommunicatorOptions options = quick();
  constexpr std::int64_t kEver = std::numeric_limits<std::int64_t>::max();
  options.timeouts = {kEver, kEver, kEver, kEver};
  auto ranks = Communicator::create_local(2, options).value();
  std::vector<float> buffer(100'000);
  const auto sum = [](Communicator& it, std::vector<float>& of) {
    return it.all_reduce_async(of.data(), of.data(), of.size(), DataType::Float32).value();
  };
  Work first = sum(ranks[0], buffer);
  EXPECT_EQ(first.wait(300).error().code, ErrorCode::NotReady);  // looked at by then, but not late
  std::thread other([&] {
    std::vector<float> own(buffer.size());
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    sum(ranks[1], own).wait(kEver).value();
  });
  first.wait(kEver).value();
  other.join();
}

TEST(Usage, OptionsThatOtherRanksCouldNotReadAreRefused) {
  CommunicatorOptions options = quick();
  options.debug.trace = "/tmp/\xff";
  const auto ranks = Communicator::create_local(2, options);
  ASSERT_FALSE(ranks);
  EXPECT_EQ(ranks.error().code, ErrorCode::InvalidArgument);
  EXPECT_NE(ranks.error().message.find("trace = "), std::string::npos) << ranks.error().message;
}

TEST(Usage, MoreLanesThanThereAreAreRefusedAtOnce) {
  CommunicatorOptions options = quick();
  options.overrides.lanes = 16;
  const auto ranks = Communicator::create_local(2, options);
  ASSERT_FALSE(ranks);
  EXPECT_EQ(ranks.error().code, ErrorCode::InvalidArgument);
  EXPECT_NE(ranks.error().message.find("lanes = 16: must be between 0 and 15"), std::string::npos)
      << ranks.error().message;
}

TEST(Usage, MoreTilesThanALaneCountsAreRefused) {
  CommunicatorOptions options = quick();
  options.overrides.tile_bytes = 1;
  auto ranks = Communicator::create_local(2, options).value();
  constexpr std::size_t kBytes = std::size_t{1} << 34;
  void* const buffer = ::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(buffer, MAP_FAILED);
  std::vector<std::jthread> threads;
  for (Communicator& communicator : ranks) {
    threads.emplace_back([&] {
      const Status status = communicator.all_reduce(buffer, buffer, kBytes, DataType::Uint8);
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code, ErrorCode::InvalidArgument);
      EXPECT_NE(status.error().message.find("tiles of 1 bytes"), std::string::npos) << status.error().message;
    });
  }
  threads.clear();
  ::munmap(buffer, kBytes);
}

TEST(Usage, NothingWorksOnWhatWasMovedFrom) {
  auto ranks = Communicator::create_local(1, quick()).value();
  Communicator taken = std::move(ranks[0]);
  std::vector<float> buffer(4, 2);
  EXPECT_TRUE(taken.all_reduce(std::span<float>(buffer)));
  const Status status = ranks[0].all_reduce(std::span<float>(buffer));  // NOLINT(bugprone-use-after-move)
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::InvalidUsage);
  EXPECT_EQ(ranks[0].abort().error().code, ErrorCode::InvalidUsage);
  EXPECT_EQ(ranks[0].error().error().code, ErrorCode::InvalidUsage);
  EXPECT_FALSE(Work().wait());
  EXPECT_TRUE(Work().done());
}

TEST(Usage, CallsAfterAnAbortReturnItOnEveryRank) {
  auto ranks = Communicator::create_local(3, quick()).value();
  EXPECT_TRUE(ranks[1].abort());
  EXPECT_TRUE(ranks[1].abort()) << "twice is no harm";
  for (Communicator& rank : ranks) {
    EXPECT_TRUE(eventually(1'000 * kSlower, [&] { return !rank.error(); }));
    std::vector<float> buffer(100);
    const Status status = rank.all_reduce(std::span<float>(buffer));
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::Aborted) << status.error().message;
    EXPECT_EQ(status.error().failed_rank, 1) << status.error().message;
    auto work = rank.all_reduce_async(buffer.data(), buffer.data(), 100, DataType::Float32);
    EXPECT_TRUE(!work || !work->wait());
  }
}

TEST(Usage, TwoThreadsAtOnceGetAnErrorAndNoHang) {
  auto ranks = Communicator::create_local(2, quick()).value();
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  std::vector<float> first(1000);
  std::vector<float> second(1000);
  threads.emplace_back([&] { static_cast<void>(ranks[0].all_reduce(std::span<float>(first))); });
  sleep_ms(50);
  const Status status = ranks[0].all_reduce(std::span<float>(second));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::InvalidUsage) << status.error().message;
  std::vector<float> theirs(1000);
  EXPECT_TRUE(ranks[1].all_reduce(std::span<float>(theirs))) << "the first call goes on";
  threads[0].join();
}

// Returns the status of a group in which the rank swaps an element with the other rank.
Status swap(Communicator& communicator, float& value) {
  const Rank other = 1 - communicator.rank();
  const float sent = value;
  Group group;
  EXPECT_TRUE(communicator.send(&sent, 1, DataType::Float32, other));
  EXPECT_TRUE(communicator.recv(&value, 1, DataType::Float32, other));
  return group.run();
}

TEST(Usage, AGroupThatWaitsKeepsOtherThreadsOut) {
  auto ranks = Communicator::create_local(2, quick()).value();
  std::array<float, 2> values{1, 2};
  Status first;
  std::thread thread([&] { first = swap(ranks[0], values[0]); });
  sleep_ms(50);
  float spare = 3;
  for (const auto& call : std::initializer_list<std::function<Status()>>{
           [&] { return ranks[0].all_reduce(&spare, &spare, 1, DataType::Float32); },
           [&] { return swap(ranks[0], spare); },
       }) {
    const Status status = call();
    EXPECT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::InvalidUsage);
    EXPECT_NE(status.error().message.find("another thread"), std::string::npos) << status.error().message;
  }
  EXPECT_EQ(spare, 3);
  const Status second = swap(ranks[1], values[1]);
  EXPECT_TRUE(second) << second.error().message;
  thread.join();
  EXPECT_TRUE(first) << first.error().message;
  EXPECT_EQ(values, (std::array<float, 2>{2, 1}));
}

TEST(Usage, AWaitThatEndsEarlyHarmsNothing) {
  auto ranks = Communicator::create_local(2, quick()).value();
  for (const std::size_t count : {std::size_t{10}, std::size_t{3} << 20}) {
    std::vector<float> own(count, 1);
    std::vector<float> theirs(count, 2);
    Work work = ranks[0].all_reduce_async(own.data(), own.data(), count, DataType::Float32).value();
    for (const int ms : {0, 1, 30}) {
      const Status early = work.wait(ms);
      ASSERT_FALSE(early);
      EXPECT_EQ(early.error().code, ErrorCode::NotReady);
    }
    EXPECT_FALSE(work.done());
    EXPECT_TRUE(ranks[1].all_reduce(std::span<float>(theirs)));
    EXPECT_TRUE(work.wait());
    EXPECT_TRUE(std::all_of(own.begin(), own.end(), [](float value) { return value == 3; }));
    EXPECT_TRUE(own == theirs);
  }
}

TEST(Usage, ADroppedWorkIsDoneAllTheSame) {
  auto ranks = Communicator::create_local(2, quick()).value();
  std::vector<float> own(100'000, 1);
  std::vector<float> theirs(100'000, 2);
  { Work work = ranks[0].all_reduce_async(own.data(), own.data(), own.size(), DataType::Float32).value(); }
  EXPECT_TRUE(ranks[1].all_reduce(std::span<float>(theirs)));
  EXPECT_TRUE(ranks[1].error());
  EXPECT_TRUE(theirs[99'999] == 3);
  std::vector<float> next(10, 1);
  std::thread other([&] {
    std::vector<float> more(10, 1);
    EXPECT_TRUE(ranks[1].all_reduce(std::span<float>(more)));
  });
  EXPECT_TRUE(ranks[0].all_reduce(std::span<float>(next)));  // in order: the first is over
  other.join();
  EXPECT_EQ(own[0], 3);
}

// A rank destroys its communicator while its call waits for a peer. It waits 5 s, and then the others know.
TEST(Usage, DestroyingWithWorkInFlightEndsAndIsTold) {
  auto options = quick();
  options.timeouts.arrival_ms = 60'000;
  options.timeouts.stall_ms = 60'000;
  auto ranks = Communicator::create_local(2, options).value();
  std::vector<float> own(1000, 1);
  auto work = ranks[0].all_reduce_async(own.data(), own.data(), own.size(), DataType::Float32).value();
  const std::int64_t start_ns = now_ns();
  ranks[0] = Communicator();
  { const Communicator gone = std::move(ranks[0]); }
  ranks.erase(ranks.begin());
  EXPECT_LE((now_ns() - start_ns) / 1'000'000, 7'000 * kSlower);
  EXPECT_TRUE(work.done());
  EXPECT_FALSE(work.wait());
  std::vector<float> theirs(1000, 1);
  const Status met = ranks[0].all_reduce(std::span<float>(theirs));  // the data may have come before the end
  if (met) {
    EXPECT_EQ(theirs, std::vector<float>(1000, 2));
  }
  EXPECT_FALSE(ranks[0].all_reduce(std::span<float>(theirs)));
}

// ---- state of the program that a library must not change ----

WREATH_ROLE(stay_clean) {
  ::signal(SIGPIPE, SIG_DFL);
  static std::atomic<int> children{0};
  struct sigaction action {};
  action.sa_handler = [](int) { ++children; };
  ::sigaction(SIGCHLD, &action, nullptr);
  sigset_t before;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
  ::setlocale(LC_ALL, "C");
  ::fesetround(FE_UPWARD);
  ::feclearexcept(FE_ALL_EXCEPT);
  auto communicator = child.create();
  if (!communicator) return child.failed(communicator.error());
  std::vector<float> buffer(10'000, 1);
  const int rounding_kept = ::fegetround();
  ::fesetround(FE_TONEAREST);
  errno = 4711;
  if (const Status status = communicator->all_reduce(std::span<float>(buffer)); !status)
    return child.failed(status.error());
  sigset_t after;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
  struct sigaction pipe {};
  struct sigaction ended {};
  ::sigaction(SIGPIPE, nullptr, &pipe);
  ::sigaction(SIGCHLD, nullptr, &ended);
  std::string wrong;
  if (rounding_kept != FE_UPWARD) wrong += " rounding";
  if (pipe.sa_handler != SIG_DFL) wrong += " SIGPIPE";
  if (ended.sa_handler != action.sa_handler) wrong += " SIGCHLD";
  for (int number = 1; number < 64; ++number) {
    if (::sigismember(&before, number) != ::sigismember(&after, number)) wrong += " mask";
  }
  if (std::string(::setlocale(LC_ALL, nullptr)) != "C") wrong += " locale";
  child.report("clean" + wrong);
  child.command();
  // The peer is dead now: writing to it must not end this process.
  for (int i = 0; i < 3; ++i) static_cast<void>(communicator->all_reduce(std::span<float>(buffer)));
  child.report("alive " + std::to_string(children.load()));
  return 0;
}

TEST(Usage, TheProcessIsLeftAsItWas) {
  for (const std::string transport : {"shm", "tcp"}) {
    Job job("stay_clean", 2, {{"transport", transport}});
    ASSERT_TRUE(job.share_id());
    for (int rank = 0; rank < 2; ++rank) {
      ASSERT_TRUE(job[rank].wait_for("clean", 20'000)) << job.logs();
      EXPECT_EQ(job[rank].lines().back(), "clean");
    }
    job[1].signal(SIGKILL);
    job[1].join(1'000);
    job[0].command("go");
    EXPECT_TRUE(job[0].wait_for("alive 0", 5'000)) << job.logs();
    EXPECT_EQ(job[0].join(5'000), 0);
  }
}

// ---- fork ----

int use_in_child(Communicator& communicator, Work& work, Group& group) {
  if (const auto launched = group.launch(); launched || launched.error().code != ErrorCode::InvalidUsage) return 6;
  std::vector<float> buffer(10);
  const Status called = communicator.all_reduce(std::span<float>(buffer));
  if (called || called.error().code != ErrorCode::InvalidUsage) return 1;
  if (communicator.abort()) return 2;
  if (work.wait(100)) return 3;
  if (communicator.error()) return 4;
  { const Communicator dropped = std::move(communicator); }
  // The child can run a job of its own.
  auto alone = Communicator::create_local(2);
  return alone ? 0 : 5;
}

WREATH_ROLE(fork_in_the_middle) {
  auto communicator = child.create();
  if (!communicator) return child.failed(communicator.error());
  std::vector<float> buffer(100'000, 1);
  auto work = communicator->all_reduce_async(buffer.data(), buffer.data(), buffer.size(), DataType::Float32).value();
  Group group;
  std::vector<float> grouped(10, 1);
  communicator->all_reduce(std::span<float>(grouped)).value();  // kept
  const pid_t forked = ::fork();
  if (forked == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::alarm(10);
    ::_exit(use_in_child(*communicator, work, group));
  }
  int status = 0;
  ::waitpid(forked, &status, 0);
  child.report("child " + std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status)));
  if (const Status done = work.wait(); !done) return child.failed(done.error());
  if (const Status done = group.run(); !done) return child.failed(done.error());
  for (int i = 0; i < 20; ++i) {
    if (const Status done = communicator->all_reduce(std::span<float>(buffer)); !done)
      return child.failed(done.error());
  }
  return 0;
}

TEST(Usage, AForkLeavesTheParentUnharmedAndTheChildWithErrors) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own threads do not survive the fork: run it in the preset dev";
  for (const std::string transport : {"shm", "tcp"}) {
    Job job("fork_in_the_middle", 2, {{"transport", transport}});
    ASSERT_TRUE(job.share_id());
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_TRUE(job[rank].wait_for("child", 15'000)) << job.logs();
      EXPECT_EQ(job[rank].lines().back(), "child 0");
    }
    for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(job[rank].join(10'000), 0) << job.logs();
  }
}

}  // namespace
}  // namespace wreath::testing_support
