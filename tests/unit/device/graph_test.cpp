// Tests what every device promises of graphs: a capture runs nothing, each launch runs all of it, and a refusal names
// what cannot be captured. The tests run on the host device, and on CUDA's devices where there are some (test
// unit_device_fake_cuda).
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/device/devices.hpp"
#include "wreath/device.hpp"

namespace wreath {
namespace {

class Captures : public testing::TestWithParam<LibraryDevice*> {
 protected:
  static LibraryDevice& device() { return *GetParam(); }
  static std::unique_ptr<Stream> make_stream() { return device().make_stream().value(); }
  static std::unique_ptr<Event> make_event() { return static_cast<Device&>(device()).make_event().value(); }
};

INSTANTIATE_TEST_SUITE_P(Devices, Captures, testing::ValuesIn(test::devices()), test::name_of);

void expect_misused(const Status& status, const std::string& words) {
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::InvalidUsage);
  EXPECT_NE(status.error().message.find(words), std::string::npos) << status.error().message;
}
void expect_misused(const Result<std::unique_ptr<Graph>>& graph, const std::string& words) {
  expect_misused(graph ? Status() : Status(graph.error()), words);
}

TEST_P(Captures, RunNothingUntilALaunchAndThenAllOfItInOrder) {
  const auto stream = make_stream();
  const DeviceMemory memory = device().allocate(sizeof(int)).value();
  int source = 0;
  std::vector<int> seen;
  int target = 0;
  stream->begin_capture().value();
  stream->run([&] { return ++source, Status(); }).value();
  stream->copy(memory.data(), &source, sizeof source).value();
  stream->copy(&target, memory.data(), sizeof target).value();
  stream->run([&] { return seen.push_back(target), Status(); }).value();
  const auto graph = stream->end_capture().value();
  stream->synchronize().value();
  EXPECT_EQ(source, 0);
  for (int i = 0; i < 3; ++i) graph->launch(*stream).value();
  stream->run([&] { return seen.push_back(-1), Status(); }).value();
  graph->launch(*stream).value();
  stream->synchronize().value();
  EXPECT_EQ(seen, (std::vector<int>{1, 2, 3, -1, 4}));
}

TEST_P(Captures, OutliveTheStreamThatMadeThem) {
  const DeviceMemory memory = device().allocate(sizeof(int)).value();
  int source = 7;
  int target = 0;
  auto captured = make_stream();
  captured->begin_capture().value();
  captured->copy(memory.data(), &source, sizeof source).value();
  captured->copy(&target, memory.data(), sizeof target).value();
  const auto graph = captured->end_capture().value();
  captured.reset();
  const auto stream = make_stream();
  graph->launch(*stream).value();
  stream->synchronize().value();
  EXPECT_EQ(target, 7);
}

// Branches wait for each other, so they must run at once. The launching stream goes on when all are over.
TEST_P(Captures, ForkAndJoinStreams) {
  std::unique_ptr<Graph> graph;
  std::atomic<int> here = 0;
  const auto meet = [&](int branches) {
    ++here;
    while (here % branches != 0) std::this_thread::yield();
    return Status();
  };
  const auto origin = make_stream();
  {
    const auto first = make_stream();
    const auto second = make_stream();
    const auto fork = make_event();
    const auto joins = {make_event(), make_event()};
    origin->begin_capture().value();
    origin->record(*fork).value();
    auto join = joins.begin();
    for (Stream* branch : {first.get(), second.get()}) {
      branch->wait(*fork).value();
      branch->run([=] { return meet(3); }).value();
      branch->record(**join++).value();
    }
    origin->run([=] { return meet(3); }).value();
    for (const auto& each : joins) origin->wait(*each).value();
    graph = origin->end_capture().value();
    bool ran = false;
    // The branch captures no more.
    first->run([&] { return ran = true, Status(); }).value();
    first->synchronize().value();
    EXPECT_TRUE(ran);
  }
  for (int i = 1; i <= 20; ++i) {
    graph->launch(*origin).value();
    int seen = 0;
    origin->run([&] { return seen = here, Status(); }).value();
    origin->synchronize().value();
    EXPECT_EQ(seen, 3 * i);
  }
}

TEST_P(Captures, LaunchesOfOneGraphFollowEachOtherInAnyStreams) {
  const auto first = make_stream();
  const auto second = make_stream();
  // Access to this count would be a race if the launches were not in order.
  int inside = 0;
  int most = 0;
  first->begin_capture().value();
  first
      ->run([&] {
        most = std::max(most, ++inside);
        std::this_thread::yield();
        --inside;
        return Status();
      })
      .value();
  const auto graph = first->end_capture().value();
  for (int i = 0; i < 50; ++i) graph->launch(i % 2 == 0 ? *first : *second).value();
  first->synchronize().value();
  second->synchronize().value();
  EXPECT_EQ(most, 1);
}

// A failure in a branch becomes the launching stream's. The rest of the launch is skipped, and the graph can run
// elsewhere.
TEST_P(Captures, AFailureInABranchFailsTheLaunchingStream) {
  const auto origin = make_stream();
  const auto branch = make_stream();
  const auto fork = make_event();
  const auto join = make_event();
  std::atomic<bool> fails = true;
  std::atomic<int> behind = 0;
  origin->begin_capture().value();
  origin->record(*fork).value();
  branch->wait(*fork).value();
  branch->run([&] { return fails ? Status(Error{ErrorCode::System, "in a branch"}) : Status(); }).value();
  branch->record(*join).value();
  origin->wait(*join).value();
  origin->run([&] { return ++behind, Status(); }).value();
  const auto graph = origin->end_capture().value();
  graph->launch(*origin).value();
  EXPECT_EQ(origin->synchronize().error().message, "in a branch");
  EXPECT_EQ(behind, 0);
  fails = false;
  const auto other = make_stream();
  graph->launch(*other).value();
  other->synchronize().value();
  EXPECT_EQ(behind, 1);
}

// Holds a mistake that is refused, and the words of the refusal.
struct Refusal {
  std::function<void(Stream&)> mistake;
  std::string words;
};

TEST_P(Captures, EndWithoutAGraphWhereSomethingWasRefused) {
  const auto event = make_event();
  const auto outside = make_stream();
  outside->record(*event).value();
  const std::vector<Refusal> refusals = {
      {[](Stream& stream) { expect_misused(stream.synchronize(), "synchronize() of one of its streams"); },
       "synchronize() of one of its streams"},
      {[](Stream& stream) { EXPECT_FALSE(stream.idle()); }, "idle() of one of its streams"},
      {[](Stream& stream) { expect_misused(stream.begin_capture(), "begin_capture() of a stream that captures"); },
       "begin_capture() of a stream that captures"},
      {[&](Stream& stream) { expect_misused(stream.wait(*event), "an event recorded outside"); },
       "to wait for an event recorded outside"},
      {[](Stream& stream) {
         const auto own = stream.device().make_event().value();
         stream.record(*own).value();
         EXPECT_FALSE(own->done());
         expect_misused(own->synchronize(), "synchronize() of an event");
       },
       "synchronize() of an event"},
  };
  for (const Refusal& refusal : refusals) {
    const auto stream = make_stream();
    stream->begin_capture().value();
    refusal.mistake(*stream);
    expect_misused(stream->run([] { return Status(); }), "the capture is invalid: ");
    expect_misused(stream->end_capture(), refusal.words);
    bool ran = false;
    // The stream works as before.
    stream->run([&] { return ran = true, Status(); }).value();
    stream->synchronize().value();
    EXPECT_TRUE(ran);
  }
}

TEST_P(Captures, EndWithoutAGraphWhereAStreamWasNotJoined) {
  const auto origin = make_stream();
  const auto branch = make_stream();
  const auto fork = make_event();
  const auto join = make_event();
  origin->begin_capture().value();
  origin->record(*fork).value();
  branch->wait(*fork).value();
  branch->record(*join).value();
  // This work comes behind the point that is joined.
  branch->run([] { return Status(); }).value();
  origin->wait(*join).value();
  expect_misused(branch->end_capture(), "another stream began this capture");
  expect_misused(origin->end_capture(), "does not wait for");
  expect_misused(origin->end_capture(), "the stream does not capture");
  expect_misused(origin->wait(*join), "recorded in a capture that has ended");
  origin->synchronize().value();
  branch->synchronize().value();
}

TEST_P(Captures, DoNotTakeLaunchesNorGiveThemToOtherDevices) {
  const auto stream = make_stream();
  stream->begin_capture().value();
  stream->run([] { return Status(); }).value();
  const auto graph = stream->end_capture().value();
  stream->begin_capture().value();
  expect_misused(graph->launch(*stream), "in a stream that captures");
  expect_misused(stream->end_capture(), "a graph was launched in the stream");
  for (LibraryDevice* const other : test::devices()) {
    if (other == &device()) continue;
    EXPECT_EQ(graph->launch(*other->make_stream().value()).error().code, ErrorCode::InvalidArgument);
  }
  graph->launch(*stream).value();
  stream->synchronize().value();
}

TEST_P(Captures, TimesOfEventsArePassedInOrder) {
  Device& own = device();
  const auto stream = make_stream();
  const auto begin = own.make_event(EventUse::Timing).value();
  const auto end = own.make_event(EventUse::Timing).value();
  // Neither event was ever recorded.
  EXPECT_EQ(end->ns_since(*begin).error().code, ErrorCode::InvalidUsage);
  std::atomic<bool> go = false;
  stream->record(*begin).value();
  stream
      ->run([&] {
        while (!go) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        return Status();
      })
      .value();
  stream->record(*end).value();
  EXPECT_EQ(end->ns_since(*begin).error().code, ErrorCode::NotReady);
  go = true;
  stream->synchronize().value();
  EXPECT_GE(end->ns_since(*begin).value(), 4'000'000);
  EXPECT_LE(begin->ns_since(*end).value(), -4'000'000);
  const auto untimed = own.make_event(EventUse::Order).value();
  stream->record(*untimed).value();
  stream->synchronize().value();
  EXPECT_EQ(untimed->ns_since(*begin).error().code, ErrorCode::InvalidUsage);
}

}  // namespace
}  // namespace wreath
