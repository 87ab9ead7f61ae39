// Tests all_reduces as kernels in their streams, without a driver, on the host device: results, order, ends.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/device/elements.hpp"
#include "tests/support/collective_matrix.hpp"
#include "tests/support/local_ranks.hpp"
#include "tests/support/surroundings.hpp"

namespace wreath::test {
namespace {

constexpr std::size_t kMost = 64 * 1024;

CommunicatorOptions options_with(std::size_t low_latency_bytes = kMost) {
  CommunicatorOptions options;
  options.device = "host";
  options.overrides.low_latency_bytes = low_latency_bytes;
  return options;
}

std::vector<std::int32_t> all_of(std::size_t count, std::int32_t value) {
  return std::vector<std::int32_t>(count, value);
}

TEST(LowLatencyCalls, GiveTheRightBitsForAllTypesAndOperations) {
  static DataStore store;
  for (const int n : {2, 3, 5}) {
    std::vector<MatrixCase> cases;
    for (const DataType dtype : all_dtypes()) {
      for (const ReduceOp op : all_ops()) {
        for (const std::size_t count : {std::size_t{1}, std::size_t{37}, std::size_t{5'000}}) {
          cases.push_back({{Collective::AllReduce, dtype, op, n, 0, count, {}, false}, Order::Canonical});
        }
      }
    }
    LocalRanks ranks(n, options_with());
    expect_right(ranks, cases, store, {{"", "inproc"}, "", &host_device()});
  }
}

TEST(LowLatencyCalls, SayHowTheyAreMade) {
  LocalRanks ranks(4, options_with());
  const Communicator& first = ranks.communicators().front();
  EXPECT_EQ(first.plan_for(Collective::AllReduce, 8), "one_shot protocol=LL");
  EXPECT_EQ(first.plan_for(Collective::AllReduce, kMost), "two_shot protocol=LL");
  EXPECT_EQ(first.plan_for(Collective::AllReduce, kMost + 1).find("LL"), std::string::npos);
  EXPECT_EQ(first.plan_for(Collective::Broadcast, 8).find("LL"), std::string::npos);
  CommunicatorOptions named = options_with();
  named.overrides.algorithm = "one_shot";
  EXPECT_EQ(LocalRanks(4, named).communicators().front().plan_for(Collective::AllReduce, kMost),
            "one_shot protocol=LL");
  named.overrides.algorithm = "ring";
  EXPECT_EQ(LocalRanks(4, named).communicators().front().plan_for(Collective::AllReduce, 8).find("LL"),
            std::string::npos);
}

// Each call reads the result of the call before it, in another stream.
TEST(LowLatencyCalls, RunOneAfterTheOtherInWhateverStreams) {
  LocalRanks ranks(2, options_with());
  ranks.run([](Communicator& communicator) {
    const Elements all[] = {Elements(all_of(1, 1)), Elements(all_of(3'000, 1))};
    for (const Elements& elements : all) {
      const std::size_t count = elements.call().count;
      std::vector<std::unique_ptr<Stream>> streams;
      for (int i = 0; i < 3; ++i) streams.push_back(host_device().make_stream().value());
      Work last;
      for (std::size_t i = 0; i < 20; ++i) last = communicator.start(elements.call(streams[i % 3].get())).value();
      last.wait().value();
      EXPECT_TRUE(last.done());
      EXPECT_EQ(elements.get(), all_of(count, 1 << 20));
    }
  });
}

// One rank comes late to a call, and a graph follows in another stream. The graph's call does not overtake the first
// call.
TEST(LowLatencyCalls, RunBeforeGraphsThatAreLaunchedAfterThem) {
  LocalRanks ranks(2, options_with());
  std::atomic<bool> open = false;
  ranks.run([&](Communicator& communicator) {
    const Elements first(all_of(10, communicator.rank() + 1));
    const Elements second(all_of(10, 10 * (communicator.rank() + 1)));
    const auto direct = host_device().make_stream().value();
    const auto captured = host_device().make_stream().value();
    captured->begin_capture().value();
    communicator.start(second.call(captured.get())).value();
    const auto graph = captured->end_capture().value();
    if (communicator.rank() == 0) {
      direct
          ->run([&] {
            while (!open) std::this_thread::yield();
            return Status();
          })
          .value();
    }
    Work work = communicator.start(first.call(direct.get())).value();
    graph->launch(*captured).value();
    if (communicator.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      open = true;
    }
    work.wait().value();
    captured->synchronize().value();
    EXPECT_EQ(first.get(), all_of(10, 3));
    EXPECT_EQ(second.get(), all_of(10, 30));
  });
}

// The kernel runs, as on a GPU, but does not use data of the work that failed. So no buffer has a sum of such data.
TEST(LowLatencyCalls, EndWhereTheirStreamHasFailed) {
  enum class Made { Directly, InAGraph, InAGraphBehindWhatFails, InAGraphBesideWhatFails };
  for (const Made made :
       {Made::Directly, Made::InAGraph, Made::InAGraphBehindWhatFails, Made::InAGraphBesideWhatFails}) {
    LocalRanks ranks(2, options_with());
    const RecordingsFolder kept;
    ranks.run([&](Communicator& communicator) {
      const Elements elements(all_of(10, communicator.rank() + 1));
      const auto stream = host_device().make_stream().value();
      const auto other = host_device().make_stream().value();
      const auto event = host_device().make_event().value();
      std::atomic<bool> launched = false;
      const bool fails = communicator.rank() == 0;
      const auto work = [&] {
        while (!launched) std::this_thread::yield();
        return fails ? Status(Error{ErrorCode::System, "no luck"}) : Status();
      };
      const auto add_work = [&] {
        if (made != Made::InAGraphBesideWhatFails) return stream->run(work).value();
        stream->record(*event).value();
        other->wait(*event).value();
        other->run(work).value();
        other->record(*event).value();
        stream->wait(*event).value();
      };
      Work direct;
      std::unique_ptr<Graph> graph;
      if (made == Made::Directly) {
        add_work();
        direct = communicator.start(elements.call(stream.get())).value();
      } else {
        if (made == Made::InAGraph) add_work();
        stream->begin_capture().value();
        if (made != Made::InAGraph) add_work();
        communicator.start(elements.call(stream.get())).value();
        graph = stream->end_capture().value();
        graph->launch(*stream).value();
      }
      launched = true;
      EXPECT_EQ(bool(stream->synchronize()), !fails);
      EXPECT_EQ(elements.get(), all_of(10, communicator.rank() + 1));
      Status over = made == Made::Directly ? direct.wait(60'000) : Status();
      while (over) over = communicator.error();  // the progress thread is on its way
      if (fails) {
        EXPECT_NE(over.error().message.find("its stream failed before it came to the call: "), std::string::npos)
            << over.error().message;
        EXPECT_NE(over.error().message.find("no luck"), std::string::npos) << over.error().message;
      }
      EXPECT_EQ(over.error().failed_rank, 0) << over.error().message;
    });
  }
}

TEST(LowLatencyCalls, AreNotConcernedByWhatFailsBehindThem) {
  LocalRanks ranks(2, options_with());
  ranks.run([](Communicator& communicator) {
    const Elements elements(all_of(10, 1));
    const auto stream = host_device().make_stream().value();
    communicator.start(elements.call(stream.get())).value();
    stream->run([] { return Status(Error{ErrorCode::System, "no luck"}); }).value();
    EXPECT_EQ(stream->synchronize().error().message, "no luck");
    communicator.run(elements.call()).value();
    EXPECT_EQ(elements.get(), all_of(10, 4));
  });
}

TEST(LowLatencyCalls, MixWithOtherCalls) {
  LocalRanks ranks(3, options_with());
  ranks.run([](Communicator& communicator) {
    std::mt19937 random(7);
    const auto stream = host_device().make_stream().value();
    std::deque<Elements> all;
    for (int i = 0; i < 300; ++i) {
      const std::size_t count = random() % 4 == 0 ? kMost / 4 + 1 + random() % 1000 : 1 + random() % 500;
      const Elements& elements = all.emplace_back(all_of(count, communicator.rank() + i));
      if (random() % 3 == 0) {
        communicator.run(elements.call()).value();
      } else {
        communicator.start(elements.call(stream.get())).value();
      }
      if (random() % 5 == 0) communicator.barrier().value();
      stream->synchronize().value();
      ASSERT_EQ(elements.get(), all_of(count, 3 + 3 * i)) << i << ": " << count;
    }
  });
}

// Buffers are of the host, of the device or pinned, and aligned to elements or not. Memory that kernels do not reach is
// copied.
TEST(LowLatencyCalls, TakeBuffersThatLieAnywhere) {
  constexpr std::size_t kCount = 700;
  constexpr std::size_t kBytes = kCount * sizeof(float);
  enum Place : int { OfHost, OfDevice, OfDeviceShifted, PinnedByDevice, Places };
  LocalRanks ranks(2, options_with());
  ranks.run([&](Communicator& communicator) {
    const auto stream = host_device().make_stream().value();
    const std::vector<float> source(kCount, static_cast<float>(communicator.rank() + 1));
    std::deque<DeviceMemory> all;
    for (int from = 0; from < Places; ++from) {
      for (int to = 0; to < Places; ++to) {
        std::vector<std::byte> host[2];
        std::byte* at[2];
        for (const int side : {0, 1}) {
          const int place = side == 0 ? from : to;
          host[side].resize(kBytes);
          const MemoryUse use = place == PinnedByDevice ? MemoryUse::Pinned : MemoryUse::Plain;
          std::byte* const device = all.emplace_back(host_device().allocate(kBytes + 1, use).value()).data();
          at[side] = place == OfHost ? host[side].data() : device + (place == OfDeviceShifted ? 1 : 0);
        }
        host_device().copy(at[0], source.data(), kBytes).value();
        Call call;
        call.collective = Collective::AllReduce;
        call.dtype = DataType::Float32;
        call.input = at[0];
        call.output = at[1];
        call.count = kCount;
        call.stream = stream.get();
        communicator.start(call).value().wait().value();
        std::vector<float> result(kCount);
        host_device().copy(result.data(), at[1], kBytes).value();
        EXPECT_EQ(result, std::vector<float>(kCount, 3)) << from << " to " << to;
      }
    }
  });
}

TEST(LowLatencyCalls, MayBeMadeByOneThreadForAllRanks) {
  LocalRanks ranks(3, options_with());
  std::vector<Elements> elements;
  for (int rank = 0; rank < 3; ++rank) elements.emplace_back(all_of(100, rank + 1));
  for (int repeat = 0; repeat < 3; ++repeat) {
    Group group;
    for (std::size_t rank = 0; rank < 3; ++rank) {
      ranks.communicators()[rank].start(elements[rank].call()).value();
    }
    group.run().value();
  }
  for (const Elements& each : elements) EXPECT_EQ(each.get(), all_of(100, 54));
}

TEST(LowLatencyCalls, WaitForAPeerAndSayThatTheyDo) {
  LocalRanks ranks(2, options_with());
  std::vector<Elements> elements;
  for (int rank = 0; rank < 2; ++rank) elements.emplace_back(all_of(10, rank + 1));
  Work first = ranks.communicators()[0].start(elements[0].call()).value();
  const Status early = first.wait(20);
  EXPECT_EQ(early.error().code, ErrorCode::NotReady);
  EXPECT_NE(early.error().message.find("all_reduce is still running after 20 ms"), std::string::npos)
      << early.error().message;
  EXPECT_FALSE(first.done());
  ranks.communicators()[1].run(elements[1].call()).value();
  first.wait().value();
  EXPECT_TRUE(first.done());
  EXPECT_EQ(elements[0].get(), all_of(10, 3));
}

TEST(LowLatencyCalls, EndWithAnAbort) {
  LocalRanks ranks(3, options_with());
  const RecordingsFolder kept;
  std::atomic<int> waiting = 0;
  ranks.run([&](Communicator& communicator) {
    const Elements elements(all_of(2'000, 1));
    if (communicator.rank() == 2) {
      while (waiting < 2) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      communicator.abort().value();
      return;
    }
    Work work = communicator.start(elements.call()).value();
    ++waiting;
    EXPECT_EQ(work.wait(60'000).error().code, ErrorCode::Aborted);
    EXPECT_EQ(communicator.run(elements.call()).error().code, ErrorCode::Aborted);
  });
}

// The stream comes to the call long after the abort, when the call's buffers may have another owner.
TEST(LowLatencyCalls, LeaveBuffersAloneAfterAnAbort) {
  LocalRanks ranks(2, options_with());
  const RecordingsFolder kept;
  std::vector<Communicator>& communicators = ranks.communicators();
  const Elements late(all_of(10, 1));
  const Elements there(all_of(10, 1));
  const auto busy = host_device().make_stream().value();
  std::atomic<bool> open = false;
  busy->run([&] {
        while (!open) std::this_thread::yield();
        return Status();
      })
      .value();
  Work first = communicators[0].start(late.call(busy.get())).value();
  Work second = communicators[1].start(there.call()).value();
  static_cast<void>(communicators[0].abort());  // says that the stream has not come to it
  EXPECT_EQ(first.wait(60'000).error().code, ErrorCode::Aborted);
  EXPECT_EQ(second.wait(60'000).error().code, ErrorCode::Aborted);
  open = true;
  busy->synchronize().value();
  EXPECT_EQ(late.get(), all_of(10, 1));
}

// A capture stays open while other captures of the same communicator come and go.
TEST(LowLatencyCalls, KeepTheirOrderInACaptureBesideManyOthers) {
  LocalRanks ranks(2, options_with());
  ranks.run([](Communicator& communicator) {
    const Elements first(all_of(10, communicator.rank() + 1));
    const Elements second(all_of(10, 10 * (communicator.rank() + 1)));
    const auto trunk = host_device().make_stream().value();
    const auto branch = host_device().make_stream().value();
    const auto fork = host_device().make_event().value();
    const auto join = host_device().make_event().value();
    trunk->begin_capture().value();
    trunk->record(*fork).value();
    branch->wait(*fork).value();
    if (communicator.rank() == 0) {
      trunk->run([] { return std::this_thread::sleep_for(std::chrono::milliseconds(30)), Status(); }).value();
    }
    communicator.start(first.call(trunk.get())).value();
    std::vector<std::unique_ptr<Graph>> others;
    for (int i = 0; i < 20; ++i) {
      const auto stream = host_device().make_stream().value();
      stream->begin_capture().value();
      communicator.start(second.call(stream.get())).value();
      others.push_back(stream->end_capture().value());
    }
    communicator.start(second.call(branch.get())).value();
    branch->record(*join).value();
    trunk->wait(*join).value();
    trunk->end_capture().value()->launch(*trunk).value();
    trunk->synchronize().value();
    EXPECT_EQ(first.get(), all_of(10, 3));
    EXPECT_EQ(second.get(), all_of(10, 30));
  });
}

// Freeing memory waits for all kernels, and the kernel waits for the rank that would free memory.
TEST(LowLatencyCalls, WaitForNoMemoryThatTheLibraryFrees) {
  CommunicatorOptions options = options_with(1'024);
  options.timeouts.arrival_ms = 5'000;
  LocalRanks ranks(2, options);
  std::deque<Elements> all;
  constexpr std::size_t kCounts[] = {300, 3'000, 100};  // only the last is small
  for (std::size_t i = 0; i < 6; ++i) all.emplace_back(all_of(kCounts[i % 3], 1));
  ranks.run([&](Communicator& communicator) {
    const auto own = [&](int i) -> const Elements& {
      return all[static_cast<std::size_t>(3 * communicator.rank() + i)];
    };
    const auto stream = host_device().make_stream().value();
    communicator.start(own(0).call(stream.get())).value().wait().value();
    if (communicator.rank() == 1) {
      stream->run([] { return std::this_thread::sleep_for(std::chrono::milliseconds(100)), Status(); }).value();
    }
    Work large = communicator.start(own(1).call(communicator.rank() == 1 ? stream.get() : nullptr)).value();
    Work small = communicator.start(own(2).call(stream.get())).value();
    large.wait().value();
    small.wait().value();
  });
}

TEST(LowLatencyCalls, EndWhereARankDoesNotCome) {
  CommunicatorOptions options = options_with();
  options.timeouts.arrival_ms = 200;
  LocalRanks ranks(3, options);
  const RecordingsFolder kept;
  ranks.run([](Communicator& communicator) {
    if (communicator.rank() == 1) {
      while (communicator.error()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    const Elements elements(all_of(2'000, 1));
    const Status status = communicator.run(elements.call());
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::Timeout);
    EXPECT_EQ(status.error().failed_rank, 1);
    EXPECT_NE(status.error().message.find("did not come within 200 ms"), std::string::npos) << status.error().message;
  });
}

TEST(LowLatencyCalls, TellCallsThatDiffer) {
  LocalRanks ranks(2, options_with());
  const RecordingsFolder kept;
  ranks.run([](Communicator& communicator) {
    const Elements elements(all_of(static_cast<std::size_t>(10 + communicator.rank()), 1));
    const Status status = communicator.run(elements.call());
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::Mismatch) << status.error().message;
  });
}

TEST(LowLatencyCalls, EndWhereARankHasLeft) {
  LocalRanks ranks(2, options_with());
  const RecordingsFolder kept;
  const Elements elements(all_of(10, 1));
  Work work = ranks.communicators()[0].start(elements.call()).value();
  ranks.communicators().pop_back();
  const Status status = work.wait(60'000);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::PeerLost);
  EXPECT_NE(status.error().message.find("has left before it made the call"), std::string::npos)
      << status.error().message;
}

// A communicator waits for the calls that it has begun, and its area lives while peers read it.
TEST(LowLatencyCalls, AreOverWhereTheCommunicatorGoes) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::vector<Communicator> communicators = Communicator::create_local(3, options_with()).value();
    std::vector<std::jthread> threads;
    for (Communicator& each : communicators) {
      threads.emplace_back([&each] {
        Communicator own = std::move(each);
        const Elements elements(all_of(300, own.rank()));
        const auto stream = host_device().make_stream().value();
        own.start(elements.call(stream.get())).value();
        own = Communicator();
        EXPECT_EQ(elements.get(), all_of(300, 3));
      });
    }
  }
}

TEST(LowLatencyCalls, AreNotMadeWhereARankHasNoDevice) {
  CommunicatorOptions options = options_with();
  options.device = "host,none";
  LocalRanks ranks(2, options);
  EXPECT_EQ(ranks.communicators()[0].plan_for(Collective::AllReduce, 8).find("LL"), std::string::npos);
  ranks.run([](Communicator& communicator) {
    const Elements elements(all_of(100, 1));
    communicator.run(elements.call()).value();
    EXPECT_EQ(elements.get(), all_of(100, 2));
  });
}

TEST(LowLatencyCalls, AreOfAMebibyteAtMost) {
  const auto refused = Communicator::create_local(2, options_with((std::size_t{1} << 20) + 1));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("low_latency_bytes (WREATH_LOW_LATENCY_BYTES) = 1048577: must be 1048576"),
            std::string::npos)
      << refused.error().message;
  const Environment set{{{"WREATH_LOW_LATENCY_BYTES", "8K"}}};
  LocalRanks ranks(2, options_with(0));
  EXPECT_EQ(ranks.communicators()[0].plan_for(Collective::AllReduce, 8192), "one_shot protocol=LL");
  EXPECT_EQ(ranks.communicators()[0].plan_for(Collective::AllReduce, 8193).find("LL"), std::string::npos);
}

// Where no blocks are left to reserve, calls run by lanes.
TEST(LowLatencyCalls, LeaveRoomForOthers) {
  std::vector<LocalRanks> jobs;
  bool refused = false;
  for (int i = 0; i < 30 && !refused; ++i) {
    jobs.emplace_back(2, options_with());
    refused = jobs.back().communicators()[0].plan_for(Collective::AllReduce, 8).find("LL") == std::string::npos;
  }
  EXPECT_TRUE(refused);
  jobs.back().run([](Communicator& communicator) {
    const Elements elements(all_of(100, 1));
    communicator.run(elements.call()).value();
    EXPECT_EQ(elements.get(), all_of(100, 2));
  });
}

}  // namespace
}  // namespace wreath::test
