// Tests graphs of calls: they are captured once and launched any number of times among direct calls. They run on the
// host device and, with the fake CUDA driver, on pinned memory of a CUDA device.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/support/local_ranks.hpp"
#include "tests/support/surroundings.hpp"

namespace wreath::test::graphs {
namespace {

using Values = std::vector<std::int32_t>;

constexpr std::size_t kCount = 960;  // a block for each rank in some calls
constexpr std::size_t kBytes = kCount * sizeof(std::int32_t);

// Says where the buffers of a test are, and how often it launches.
struct Place {
  const char* name;
  Device& (*device)();
  MemoryUse use;
  int launches;
  std::size_t low_latency_bytes = 0;  // the same as in the options
};

Device& first_cuda() { return *cuda_device(0).value(); }

// Returns the places to test. Those of the host device are tested where there is no CUDA.
std::vector<Place> places() {
  if (cuda_devices()) return {{"cuda", first_cuda, MemoryUse::Pinned, 50}};
  return {{"host", host_device, MemoryUse::Plain, 1'000}, {"kernels", host_device, MemoryUse::Plain, 1'000, kBytes}};
}

// Holds a stream with two buffers, and the memory from which and to which it copies.
struct Streamed {
  explicit Streamed(const Place& place)
      : input(place.device().allocate(kBytes, place.use).value()),
        output(place.device().allocate(kBytes, place.use).value()),
        stream(place.device().make_stream().value()) {}
  Call call(Collective collective, std::size_t count = kCount) const {
    Call call;
    call.collective = collective;
    call.dtype = DataType::Int32;
    call.input = input.data();
    call.output = output.data();
    call.count = count;
    call.stream = stream.get();
    return call;
  }
  void start(Communicator& communicator, Collective collective, std::size_t count = kCount) const {
    communicator.start(call(collective, count)).value();
  }
  // Adds work that sets the input to the value of `next`.
  void feed(std::function<std::int32_t()> next) {
    const auto fill = [this, next = std::move(next)] {
      return std::fill(source.begin(), source.end(), next()), Status();
    };
    stream->run(fill).value();
    stream->copy(input.data(), source.data(), kBytes).value();
  }
  // Adds work that compares the first `count` elements of the output with `expected`, and counts differences in
  // `wrong`.
  void expect(std::function<std::int32_t(std::size_t)> expected, std::size_t count = kCount) {
    stream->copy(target.data(), output.data(), kBytes).value();
    const auto look = [this, expected = std::move(expected), count] {
      for (std::size_t i = 0; i < count; ++i) wrong += target[i] != expected(i) ? 1 : 0;
      return ++looks, Status();
    };
    stream->run(look).value();
  }

  DeviceMemory input;
  DeviceMemory output;
  Values source = Values(kCount);
  Values target = Values(kCount);
  std::atomic<int> wrong = 0;
  std::atomic<int> looks = 0;
  // The stream ends first, because it may hold work on the buffers.
  std::unique_ptr<Stream> stream;
};

// Holds a stream until open() is called.
class Gate {
 public:
  void close(Stream& stream) {
    const auto wait = [open = open_] {
      while (!*open) std::this_thread::sleep_for(std::chrono::microseconds(100));
      return Status();
    };
    stream.run(wait).value();
  }
  void open() { *open_ = true; }
  ~Gate() { open(); }

 private:
  std::shared_ptr<std::atomic<bool>> open_ = std::make_shared<std::atomic<bool>>(false);
};

using Case = std::tuple<Place, const char*, int>;  // place, transport, ranks

class Graphs : public testing::TestWithParam<Case> {
 protected:
  static const Place& place() { return std::get<0>(GetParam()); }
  static LocalRanks make_ranks() {
    CommunicatorOptions options;
    options.transports = {std::get<1>(GetParam())};
    options.overrides.low_latency_bytes = place().low_latency_bytes;
    if (options.overrides.low_latency_bytes > 0)
      options.device = place().name == std::string("kernels") ? "host" : "cuda:0";
    return {std::get<2>(GetParam()), options};
  }
};

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  const auto& [place, transport, ranks] = info.param;
  return std::string(place.name) + "_" + transport + "_" + std::to_string(ranks);
}

INSTANTIATE_TEST_SUITE_P(Places, Graphs,
                         testing::Combine(testing::ValuesIn(places()), testing::Values("shm", "tcp"),
                                          testing::Values(2, 3)),
                         name_of_case);

// Each launch sums other values and compares all of them. Direct calls come between launches.
TEST_P(Graphs, RunTheirCallsWithEachLaunch) {
  LocalRanks ranks = make_ranks();
  const int n = ranks.ranks();
  ranks.run([&](Communicator& communicator) {
    Streamed own(place());
    std::int32_t launch = 0;  // counted by its stream
    own.stream->begin_capture().value();
    own.feed([&] { return ++launch * (communicator.rank() + 1); });
    own.start(communicator, Collective::AllReduce);
    own.expect([&](std::size_t) { return launch * n * (n + 1) / 2; });
    const auto graph = own.stream->end_capture().value();
    own.stream->synchronize().value();
    EXPECT_EQ(own.looks, 0);  // nothing has run
    for (int i = 0; i < place().launches; ++i) {
      graph->launch(*own.stream).value();
      if (i % 97 == 0) {
        std::int32_t sum = communicator.rank();
        communicator.all_reduce(&sum, &sum, 1, DataType::Int32).value();
        EXPECT_EQ(sum, n * (n - 1) / 2);
      }
      if (i % 31 == 0) {  // in the graph's stream
        own.start(communicator, Collective::AllReduce);
        own.expect([&](std::size_t) { return launch * n * (n + 1) / 2; });
      }
    }
    own.stream->synchronize().value();
    EXPECT_EQ(launch, place().launches);
    EXPECT_GT(own.looks, launch);
    EXPECT_EQ(own.wrong, 0);
  });
}

// Two branches have calls of one communicator. On every rank these calls take their turns in the order of their
// capture.
TEST_P(Graphs, HoldBranchesAndAllKindsOfCalls) {
  LocalRanks ranks = make_ranks();
  const int n = ranks.ranks();
  const std::size_t block = kCount / static_cast<std::size_t>(n);
  const auto block_of = [&](std::size_t i) { return static_cast<std::int32_t>(i / block) + 1; };
  ranks.run([&](Communicator& communicator) {
    Streamed own(place());
    Streamed side(place());
    const std::int32_t mine = communicator.rank() + 1;
    const auto fork = place().device().make_event().value();
    const auto join = place().device().make_event().value();
    own.stream->begin_capture().value();
    own.feed([=] { return mine; });
    own.stream->record(*fork).value();
    side.stream->wait(*fork).value();
    side.feed([=] { return mine; });
    side.start(communicator, Collective::AllGather, block);
    own.start(communicator, Collective::ReduceScatter, block);
    own.expect([&](std::size_t) { return n * (n + 1) / 2; }, block);
    side.expect(block_of, block * static_cast<std::size_t>(n));
    side.start(communicator, Collective::AllToAll, block);
    side.expect(block_of, block * static_cast<std::size_t>(n));
    side.stream->record(*join).value();
    own.stream->wait(*join).value();
    own.start(communicator, Collective::Broadcast);
    own.expect([](std::size_t) { return 1; });
    const auto graph = own.stream->end_capture().value();
    const int launches = std::min(place().launches, 100);
    for (int i = 0; i < launches; ++i) {
      graph->launch(i % 2 == 0 ? *own.stream : *side.stream).value();
      communicator.barrier().value();
    }
    own.stream->synchronize().value();
    side.stream->synchronize().value();
    EXPECT_EQ(own.looks, 2 * launches);
    EXPECT_EQ(side.looks, 2 * launches);
    EXPECT_EQ(own.wrong + side.wrong, 0);
  });
}

TEST_P(Graphs, HoldGroupsWithMessages) {
  LocalRanks ranks = make_ranks();
  const int n = ranks.ranks();
  ranks.run([&](Communicator& communicator) {
    Streamed own(place());
    const int right = (communicator.rank() + 1) % n;
    const int left = (communicator.rank() + n - 1) % n;
    std::int32_t launch = 0;
    own.stream->begin_capture().value();
    own.feed([&] { return ++launch * 10 + communicator.rank(); });
    Group group;
    communicator.send_async(own.input.data(), kCount, DataType::Int32, right, own.stream.get()).value();
    communicator.recv_async(own.output.data(), kCount, DataType::Int32, left, own.stream.get()).value();
    const Work work = group.launch().value();
    EXPECT_TRUE(work.done());
    own.expect([&](std::size_t) { return launch * 10 + left; });
    own.start(communicator, Collective::AllReduce);
    own.expect([&](std::size_t) { return n * launch * 10 + n * (n - 1) / 2; });
    const auto graph = own.stream->end_capture().value();
    for (int i = 0; i < std::min(place().launches, 100); ++i) graph->launch(*own.stream).value();
    own.stream->synchronize().value();
    EXPECT_EQ(own.looks, 2 * launch);
    EXPECT_EQ(own.wrong, 0);
  });
}

TEST_P(Graphs, HoldSingleMessages) {
  LocalRanks ranks = make_ranks();
  ranks.run([&](Communicator& communicator) {
    Streamed own(place());
    std::int32_t launch = 0;
    own.stream->begin_capture().value();
    own.feed([&] { return ++launch; });
    if (communicator.rank() == 0) {
      communicator.send_async(own.input.data(), kCount, DataType::Int32, 1, own.stream.get()).value();
    } else if (communicator.rank() == 1) {
      communicator.recv_async(own.output.data(), kCount, DataType::Int32, 0, own.stream.get()).value();
      own.expect([&](std::size_t) { return launch; });
    }
    const auto graph = own.stream->end_capture().value();
    for (int i = 0; i < std::min(place().launches, 100); ++i) graph->launch(*own.stream).value();
    own.stream->synchronize().value();
    EXPECT_EQ(own.wrong, 0);
  });
}

// A graph may have more calls than may otherwise be in flight. No call waits for one behind it.
TEST_P(Graphs, HoldManyCalls) {
  LocalRanks ranks = make_ranks();
  const int n = ranks.ranks();
  ranks.run([&](Communicator& communicator) {
    Streamed own(place());
    own.stream->begin_capture().value();
    own.feed([] { return 1; });
    for (int i = 0; i < 300; ++i) own.start(communicator, Collective::AllReduce);
    own.expect([&](std::size_t) { return n; });
    const auto graph = own.stream->end_capture().value();
    graph->launch(*own.stream).value();
    graph->launch(*own.stream).value();
    own.stream->synchronize().value();
    EXPECT_EQ(own.looks, 2);
    EXPECT_EQ(own.wrong, 0);
  });
}

// Counts are copied at the capture. A launch uses no memory of the program except the buffers.
TEST_P(Graphs, HaveCountsOfTheirOwn) {
  LocalRanks ranks = make_ranks();
  const auto n = static_cast<std::size_t>(ranks.ranks());
  ranks.run([&](Communicator& communicator) {
    Streamed own(place());
    std::vector<std::size_t> counts(n, 1);
    counts.back() = 100;
    Call call = own.call(Collective::AllGather, 0);
    call.output_blocks = {counts};
    own.stream->begin_capture().value();
    own.feed([&] { return communicator.rank() + 1; });
    communicator.start(call).value();
    own.expect([=](std::size_t i) { return static_cast<std::int32_t>(std::min(i + 1, n)); }, n + 99);
    const auto graph = own.stream->end_capture().value();
    std::fill(counts.begin(), counts.end(), 7);
    for (int i = 0; i < 3; ++i) graph->launch(*own.stream).value();
    own.stream->synchronize().value();
    EXPECT_EQ(own.looks, 3);
    EXPECT_EQ(own.wrong, 0);
  });
}

TEST_P(Graphs, FailOnEveryRankWhereOneFails) {
  LocalRanks ranks = make_ranks();
  const RecordingsFolder kept;
  std::atomic<int> ready = 0;
  ranks.run([&](Communicator& communicator) {
    Streamed own(place());
    own.stream->begin_capture().value();
    own.start(communicator, Collective::AllReduce);
    const auto graph = own.stream->end_capture().value();
    graph->launch(*own.stream).value();
    own.stream->synchronize().value();
    ++ready;
    if (communicator.rank() == 0) {
      while (ready < ranks.ranks()) std::this_thread::yield();
      communicator.abort().value();
      EXPECT_EQ(graph->launch(*own.stream).error().code, ErrorCode::Aborted);
      return;
    }
    Status last;
    for (int i = 0; i < 100'000 && last; ++i) last = graph->launch(*own.stream);
    EXPECT_FALSE(last);
    const bool tells = place().low_latency_bytes == 0;  // else kernels end, and their communicator knows
    EXPECT_EQ(bool(own.stream->synchronize(60'000)), !tells);
  });
}

// Work in front of a graph in its stream fails. The graph's calls are skipped, and their ranks get to know it.
TEST_P(Graphs, FailWithTheirStream) {
  LocalRanks ranks = make_ranks();
  const RecordingsFolder kept;
  std::atomic<int> launched = 0;
  ranks.run([&](Communicator& communicator) {
    Streamed own(place());
    own.stream->begin_capture().value();
    own.start(communicator, Collective::AllReduce);
    const auto graph = own.stream->end_capture().value();
    Gate gate;
    gate.close(*own.stream);
    own.stream->run([] { return Status(Error{ErrorCode::System, "no luck"}); }).value();
    graph->launch(*own.stream).value();
    for (++launched; launched < ranks.ranks();) std::this_thread::yield();
    gate.open();
    EXPECT_EQ(own.stream->synchronize().error().message, "no luck");
    EXPECT_EQ(graph->launch(*own.stream).error().message, "no luck");
    while (communicator.error()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_NE(communicator.error().error().message.find("its stream failed before it came to the call"),
              std::string::npos)
        << communicator.error().error().message;
  });
}

TEST_P(Graphs, DestroyedBeforeTheirLaunchEndedWaitForIt) {
  LocalRanks ranks = make_ranks();
  const int n = ranks.ranks();
  ranks.run([&](Communicator& communicator) {
    Streamed own(place());
    own.stream->begin_capture().value();
    own.feed([] { return 2; });
    own.start(communicator, Collective::AllReduce);
    own.expect([&](std::size_t) { return 2 * n; });
    auto graph = own.stream->end_capture().value();
    Gate gate;
    gate.close(*own.stream);
    graph->launch(*own.stream).value();
    const std::jthread opener([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      gate.open();
    });
    graph.reset();
    EXPECT_EQ(own.looks, 1);
    EXPECT_EQ(own.wrong, 0);
  });
}

TEST_P(Graphs, OfADestroyedCommunicatorAreRefused) {
  std::unique_ptr<Graph> graph;
  Streamed own(place());
  {
    LocalRanks ranks = make_ranks();
    own.stream->begin_capture().value();
    own.start(ranks.communicators().front(), Collective::AllReduce);
    graph = own.stream->end_capture().value();
  }
  const Status refused = graph->launch(*own.stream);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::InvalidUsage);
  EXPECT_EQ(refused.error().message, "launch: the communicator of a captured all_reduce was destroyed");
  own.stream->synchronize().value();  // the stream took no harm
}

// A blocking call, or the wait for a captured one, would never end, so it is refused by name.
TEST_P(Graphs, TakeNoBlockingCall) {
  LocalRanks ranks = make_ranks();
  Communicator& communicator = ranks.communicators().front();
  Streamed own(place());
  own.stream->begin_capture().value();
  Work work = communicator.start(own.call(Collective::AllReduce)).value();
  EXPECT_TRUE(work.done());
  EXPECT_NE(work.wait().error().message.find("the call was captured"), std::string::npos);
  const Status blocking = communicator.run(own.call(Collective::AllReduce));
  EXPECT_EQ(blocking.error().code, ErrorCode::InvalidUsage);
  const auto graph = own.stream->end_capture();
  ASSERT_FALSE(graph);
  EXPECT_NE(graph.error().message.find("a blocking all_reduce was called in one of its streams"), std::string::npos)
      << graph.error().message;
  EXPECT_TRUE(communicator.error());
}

// The messages of one exchange cannot wait for two streams.
TEST_P(Graphs, TakeMessagesOfAGroupInOneStream) {
  LocalRanks ranks = make_ranks();
  Communicator& communicator = ranks.communicators().front();
  Streamed own(place());
  Streamed other(place());
  Group group;
  communicator.send_async(own.input.data(), 1, DataType::Int32, 1, own.stream.get()).value();
  communicator.recv_async(own.output.data(), 1, DataType::Int32, 1, other.stream.get()).value();
  const auto launched = group.launch();
  ASSERT_FALSE(launched);
  EXPECT_NE(launched.error().message.find("are in different streams"), std::string::npos) << launched.error().message;
}

// A rank whose stream is busy is late with its message, but not stalled.
TEST(MessagesInStreams, AreLateAndNotStalledWhileTheirStreamIsBusy) {
  CommunicatorOptions options;
  options.timeouts.stall_ms = 300;
  options.timeouts.arrival_ms = 1'500;
  LocalRanks ranks(2, options);
  const RecordingsFolder kept;
  ranks.run([&](Communicator& communicator) {
    Streamed own(places().back());
    Gate gate;
    if (communicator.rank() == 0) gate.close(*own.stream);
    Work work = communicator.rank() == 0
                    ? communicator.send_async(own.input.data(), kCount, DataType::Int32, 1, own.stream.get()).value()
                    : communicator.recv_async(own.output.data(), kCount, DataType::Int32, 0, own.stream.get()).value();
    const Status status = work.wait(60'000);
    gate.open();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::Timeout);
    EXPECT_NE(status.error().message.find("has not entered send #1 to rank 1 within 1500 ms"), std::string::npos)
        << status.error().message;
  });
}

}  // namespace
}  // namespace wreath::test::graphs
