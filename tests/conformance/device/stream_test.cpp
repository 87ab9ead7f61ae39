// Calls in streams: they begin when their stream comes to them, and its later work waits for them.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/local_ranks.hpp"

namespace wreath::test {
namespace {

constexpr std::size_t kCount = 10'000;
constexpr std::size_t kBytes = kCount * sizeof(float);

Call sum_of(const DeviceMemory& input, const DeviceMemory& output, Stream* stream) {
  Call call;
  call.input = input.data();
  call.output = output.data();
  call.count = kCount;
  call.stream = stream;
  return call;
}

TEST(CallsInStreams, RunBetweenTheCopiesAroundThem) {
  for (const char* transport : {"inproc", "tcp"}) {
    CommunicatorOptions options;
    options.transports = {transport};
    LocalRanks ranks(3, options);
    ranks.run([&](Communicator& communicator) {
      const DeviceMemory input = host_device().allocate(kBytes).value();
      const DeviceMemory output = host_device().allocate(kBytes).value();
      const std::vector<float> source(kCount, static_cast<float>(communicator.rank() + 1));
      std::vector<float> target(kCount);
      const auto stream = host_device().make_stream().value();
      for (int repeat = 0; repeat < 20; ++repeat) {
        stream->copy(input.data(), source.data(), kBytes).value();
        communicator.start(sum_of(input, output, stream.get())).value();
        stream->copy(target.data(), output.data(), kBytes).value();
      }
      stream->synchronize().value();
      EXPECT_EQ(target, std::vector<float>(kCount, 6));
    });
  }
}

// The turn of a call is its place in the program, whatever its stream is doing.
TEST(CallsInStreams, KeepTheirTurnWhenTheirStreamIsLate) {
  LocalRanks ranks(2, {});
  std::atomic<bool> go = false;
  ranks.run([&](Communicator& communicator) {
    const DeviceMemory input = host_device().allocate(kBytes).value();
    const DeviceMemory output = host_device().allocate(kBytes).value();
    const auto stream = host_device().make_stream().value();
    if (communicator.rank() == 0) {
      stream
          ->run([&] {
            while (!go) std::this_thread::yield();
            return Status();
          })
          .value();
    }
    Work first = communicator.start(sum_of(input, output, stream.get())).value();
    std::int32_t value = communicator.rank() + 1;
    Work second = communicator.all_reduce_async(&value, &value, 1, DataType::Int32).value();
    EXPECT_EQ(second.wait(50).error().code, ErrorCode::NotReady);
    go = true;
    second.wait().value();
    first.wait().value();
    EXPECT_EQ(value, 3);
    stream->synchronize().value();
  });
}

// A rank whose stream is busy is late, not stalled: the clock of arrival ends it.
TEST(CallsInStreams, AreLateAndNotStalledWhileTheirStreamIsBusy) {
  CommunicatorOptions options;
  options.timeouts.stall_ms = 300;
  options.timeouts.arrival_ms = 1'500;
  LocalRanks ranks(2, options);
  std::atomic<bool> over = false;
  ranks.run([&](Communicator& communicator) {
    const DeviceMemory input = host_device().allocate(kBytes).value();
    const DeviceMemory output = host_device().allocate(kBytes).value();
    const auto stream = host_device().make_stream().value();
    if (communicator.rank() == 0) {
      stream
          ->run([&] {
            while (!over) std::this_thread::yield();
            return Status();
          })
          .value();
    }
    Work work = communicator.start(sum_of(input, output, stream.get())).value();
    const Status status = work.wait();
    over = true;
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::Timeout);
    EXPECT_NE(status.error().message.find("has not entered the call within 1500 ms"), std::string::npos)
        << status.error().message;
    EXPECT_FALSE(stream->synchronize());
  });
}

TEST(CallsInStreams, WorkAlone) {
  LocalRanks ranks(1, {});
  Communicator& communicator = ranks.communicators().front();
  const DeviceMemory input = host_device().allocate(kBytes).value();
  const DeviceMemory output = host_device().allocate(kBytes).value();
  const auto stream = host_device().make_stream().value();
  std::vector<float> values(kCount);
  std::iota(values.begin(), values.end(), 0.0F);
  std::vector<float> target(kCount);
  stream->copy(input.data(), values.data(), kBytes).value();
  communicator.start(sum_of(input, output, stream.get())).value();
  stream->copy(target.data(), output.data(), kBytes).value();
  stream->synchronize().value();
  EXPECT_EQ(target, values);
}

TEST(Traces, HoldTheCallsAndStepsOfEveryRank) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("wreath-trace-test-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  {
    CommunicatorOptions options;
    options.trace = folder.string();
    options.algorithm = "ring";
    LocalRanks ranks(3, options);
    ranks.run([](Communicator& communicator) {
      std::vector<float> values(kCount, 1);
      communicator.all_reduce<float>(values).value();
    });
  }
  std::set<int> seen;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path());
    const nlohmann::json trace = nlohmann::json::parse(file);
    std::size_t calls = 0;
    std::size_t steps = 0;
    for (const nlohmann::json& event : trace["traceEvents"]) {
      seen.insert(event["pid"].get<int>());
      if (event["ph"] != "X") continue;
      EXPECT_GE(event["dur"].get<double>(), 0);
      (event["cat"] == "call" ? calls : steps) += 1;
      if (event["cat"] != "call") continue;
      EXPECT_EQ(event["name"], "all_reduce #1 float32 x 10000");
    }
    EXPECT_EQ(calls, 1U);
    EXPECT_GE(steps, 5U);  // 2 (n - 1) messages, some fused with what comes before them
  }
  EXPECT_EQ(seen, (std::set<int>{0, 1, 2}));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace wreath::test
