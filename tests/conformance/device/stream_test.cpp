// Tests calls in streams: they begin when their stream comes to them, and the stream's later work waits for them.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/local_ranks.hpp"
#include "tests/support/surroundings.hpp"

namespace wreath::test {
namespace {

constexpr std::size_t kCount = 10'000;
constexpr std::size_t kBytes = kCount * sizeof(float);

// Holds a stream of the host device, and the buffers of a sum in it.
struct Streamed {
  Call sum() const {
    Call call;
    call.input = input.data();
    call.output = output.data();
    call.count = kCount;
    call.stream = stream.get();
    return call;
  }
  // Makes the stream wait for `go` before it comes to work that is added later.
  void hold_until(const std::atomic<bool>& go) {
    const auto wait = [&go] {
      while (!go) std::this_thread::yield();
      return Status();
    };
    stream->run(wait).value();
  }

  DeviceMemory input = host_device().allocate(kBytes).value();
  DeviceMemory output = host_device().allocate(kBytes).value();
  // hold_until() may wait for this while the stream has work.
  std::atomic<bool> released = false;
  std::unique_ptr<Stream> stream = host_device().make_stream().value();
};

TEST(CallsInStreams, RunBetweenTheCopiesAroundThem) {
  for (const char* transport : {"inproc", "tcp"}) {
    CommunicatorOptions options;
    options.transports = {transport};
    LocalRanks ranks(3, options);
    ranks.run([&](Communicator& communicator) {
      const std::vector<float> source(kCount, static_cast<float>(communicator.rank() + 1));
      std::vector<float> target(kCount);
      Streamed device;
      for (int repeat = 0; repeat < 20; ++repeat) {
        device.stream->copy(device.input.data(), source.data(), kBytes).value();
        communicator.start(device.sum()).value();
        device.stream->copy(target.data(), device.output.data(), kBytes).value();
      }
      device.stream->synchronize().value();
      EXPECT_EQ(target, std::vector<float>(kCount, 6));
    });
  }
}

// The turn of a call is its place in the program, whatever its stream is doing at the time.
TEST(CallsInStreams, KeepTheirTurnWhenTheirStreamIsLate) {
  LocalRanks ranks(2, {});
  std::atomic<bool> go = false;
  std::atomic<int> waited = 0;
  ranks.run([&](Communicator& communicator) {
    Streamed device;
    if (communicator.rank() == 0) device.hold_until(go);
    Work first = communicator.start(device.sum()).value();
    std::int32_t value = communicator.rank() + 1;
    Work second = communicator.all_reduce_async(&value, &value, 1, DataType::Int32).value();
    EXPECT_EQ(second.wait(50).error().code, ErrorCode::NotReady);
    if (++waited == 2) go = true;
    second.wait().value();
    first.wait().value();
    EXPECT_EQ(value, 3);
    device.stream->synchronize().value();
  });
}

// A rank whose stream is busy is late, but not stalled: the clock of arrival ends the call.
TEST(CallsInStreams, AreLateAndNotStalledWhileTheirStreamIsBusy) {
  CommunicatorOptions options;
  options.timeouts.stall_ms = 300;
  options.timeouts.arrival_ms = 1'500;
  LocalRanks ranks(2, options);
  std::atomic<bool> over = false;
  ranks.run([&](Communicator& communicator) {
    Streamed device;
    if (communicator.rank() == 0) device.hold_until(over);
    Work work = communicator.start(device.sum()).value();
    const Status status = work.wait();
    over = true;
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::Timeout);
    EXPECT_NE(status.error().message.find("has not entered the call within 1500 ms"), std::string::npos)
        << status.error().message;
    EXPECT_FALSE(device.stream->synchronize());
  });
}

TEST(CallsInStreams, WorkAlone) {
  LocalRanks ranks(1, {});
  Communicator& communicator = ranks.communicators().front();
  std::vector<float> values(kCount);
  std::iota(values.begin(), values.end(), 0.0F);
  std::vector<float> target(kCount);
  Streamed device;
  device.stream->copy(device.input.data(), values.data(), kBytes).value();
  communicator.start(device.sum()).value();
  device.stream->copy(target.data(), device.output.data(), kBytes).value();
  device.stream->synchronize().value();
  EXPECT_EQ(target, values);
}

// Starts a call that is in the stream before the work in front of it fails.
Work start_behind_a_failure(Communicator& communicator, Streamed& device) {
  device.hold_until(device.released);
  device.stream->run([] { return Status(Error{ErrorCode::System, "no luck"}); }).value();
  Work work = communicator.start(device.sum()).value();
  device.released = true;
  return work;
}

// A call that its stream skips, because work before it failed, is an error on every rank.
TEST(CallsInStreams, FailWhereTheirStreamFailsBeforeThem) {
  LocalRanks ranks(2, {});
  const RecordingsFolder kept;
  ranks.run([&](Communicator& communicator) {
    Streamed device;
    Work work = start_behind_a_failure(communicator, device);
    const Status status = work.wait(20'000);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::InvalidUsage) << status.error().message;
    EXPECT_NE(status.error().message.find("all_reduce #1: its stream failed before it came to the call"),
              std::string::npos)
        << status.error().message;
    EXPECT_FALSE(communicator.error());
    EXPECT_EQ(device.stream->synchronize().error().message, "no luck");
  });
}

// Two communicators use one stream. Where a call of one fails, calls of the other are skipped.
TEST(CallsInStreams, FailWhereACallOfAnotherCommunicatorFailsBeforeThem) {
  LocalRanks first(2, {});
  LocalRanks second(2, {});
  const RecordingsFolder kept;
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      Streamed device;
      Call sum = device.sum();
      sum.count -= rank;  // they disagree
      Work wrong = first.communicators()[rank].start(sum).value();
      Work skipped = second.communicators()[rank].start(device.sum()).value();
      EXPECT_FALSE(wrong.wait(20'000));
      const Status status = skipped.wait(20'000);
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code, ErrorCode::InvalidUsage) << status.error().message;
    });
  }
}

// Calls that need no peer fail, too.
TEST(CallsInStreams, AloneFailWithTheirStream) {
  LocalRanks ranks(1, {});
  Communicator& communicator = ranks.communicators().front();
  Streamed device;
  Work work = start_behind_a_failure(communicator, device);
  EXPECT_FALSE(device.stream->synchronize());
  EXPECT_EQ(work.wait(20'000).error().code, ErrorCode::InvalidUsage);
}

// After abort() buffers belong to the caller, even the buffers of calls that need no peer.
TEST(CallsInStreams, AloneTouchNothingAfterAnAbort) {
  LocalRanks ranks(1, {});
  Communicator& communicator = ranks.communicators().front();
  const std::vector<float> source(kCount, 1);
  std::vector<float> target(kCount, 2);
  Streamed device;
  std::atomic<bool> go = false;
  device.hold_until(go);
  Call sum = device.sum();
  sum.input = reinterpret_cast<const std::byte*>(source.data());
  sum.output = reinterpret_cast<std::byte*>(target.data());
  Work work = communicator.start(sum).value();
  std::jthread waiting([&] { EXPECT_EQ(work.wait(20'000).error().code, ErrorCode::Aborted); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  communicator.abort().value();
  waiting.join();
  go = true;
  EXPECT_FALSE(device.stream->synchronize());
  EXPECT_EQ(target, std::vector<float>(kCount, 2));
}

// Returns the events of category "call" or "step" that ranks left in `folder`.
std::vector<nlohmann::json> events_of(const Folder& folder, const char* category) {
  std::vector<nlohmann::json> events;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    std::ifstream file(entry.path());
    nlohmann::json trace = nlohmann::json::parse(file);
    for (nlohmann::json& event : trace["traceEvents"]) {
      if (event["ph"] == "X" && event["cat"] == category) events.push_back(std::move(event));
    }
  }
  return events;
}

// Runs `call` on `ranks` ranks that leave traces in `folder`.
void run_traced(const Folder& folder, int ranks, const std::function<void(Communicator&)>& call) {
  CommunicatorOptions options;
  options.debug.trace = folder.path();
  options.overrides.algorithm = "ring";
  LocalRanks(ranks, options).run(call);
}

TEST(Traces, HoldTheCallsAndStepsOfEveryRank) {
  const Folder folder;
  run_traced(folder, 3, [](Communicator& communicator) {
    std::vector<float> values(kCount, 1);
    communicator.all_reduce<float>(values).value();
  });
  std::map<int, std::size_t> steps;
  for (const nlohmann::json& event : events_of(folder, "step")) {
    EXPECT_GE(event["dur"].get<double>(), 0);
    ++steps[event["pid"].get<int>()];
  }
  for (const int rank : {0, 1, 2}) EXPECT_GE(steps[rank], 5U);  // 2 (n - 1) messages, some fused with the step before
  const std::vector<nlohmann::json> calls = events_of(folder, "call");
  EXPECT_EQ(calls.size(), 3U);
  for (const nlohmann::json& call : calls) EXPECT_EQ(call["name"], "all_reduce #1 float32 x 10000");
}

// These run without steps where nobody looks.
TEST(Traces, ShowStepsOfSmallCallsOverAWire) {
  const Folder folder;
  CommunicatorOptions options;
  options.debug.trace = folder.path();
  options.transports = {"tcp"};
  LocalRanks(2, options).run([](Communicator& communicator) {
    const std::vector<float> values(10, 1);
    std::vector<float> received(10);
    communicator.all_reduce<float>(values, received).value();
    EXPECT_EQ(received, std::vector<float>(10, 2));
    communicator.barrier().value();
    Group group;
    communicator.send<float>(values, 1 - communicator.rank()).value();
    communicator.recv<float>(received, 1 - communicator.rank()).value();
    group.run().value();
    EXPECT_EQ(received, values);
  });
  std::map<int, std::multiset<std::string>> steps;
  for (const nlohmann::json& event : events_of(folder, "step")) steps[event["pid"].get<int>()].insert(event["name"]);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(steps[rank].count("send"), 3U) << rank;
    EXPECT_EQ(steps[rank].count("load_reduce"), 2U) << "all_reduce and barrier of rank " << rank;
    EXPECT_EQ(steps[rank].count("recv"), 1U) << rank;
  }
}

TEST(Traces, NameSendsAndReceivesBesideCalls) {
  const Folder folder;
  run_traced(folder, 2, [](Communicator& communicator) {
    std::vector<float> values(kCount, 1);
    std::vector<float> received(kCount);
    communicator.all_reduce<float>(values).value();
    Group group;
    communicator.send<float>(values, 1 - communicator.rank()).value();
    communicator.recv<float>(received, 1 - communicator.rank()).value();
    group.launch().value().wait().value();
  });
  std::multiset<std::string> names;
  for (const nlohmann::json& call : events_of(folder, "call")) {
    EXPECT_TRUE(call["args"]["over"]) << call;
    names.insert(call["name"]);
  }
  EXPECT_EQ(names, (std::multiset<std::string>{"all_reduce #1 float32 x 10000", "all_reduce #1 float32 x 10000",
                                               "exchange #1 uint8 x 80000", "exchange #1 uint8 x 80000"}));
}

}  // namespace
}  // namespace wreath::test
