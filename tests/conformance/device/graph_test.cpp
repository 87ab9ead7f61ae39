// Graphs of calls: captured once, launched any number of times among direct calls. On the host device, and, with the
// driver that stands for CUDA's, on a CUDA device's pinned memory.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/local_ranks.hpp"
#include "tests/support/surroundings.hpp"

namespace wreath::test {
namespace {

constexpr std::size_t kCount = 1'000;
constexpr std::size_t kBytes = kCount * sizeof(std::int32_t);

// Where the buffers of a test are, and how often it repeats.
struct Place {
  const char* name;
  Device& (*device)();
  MemoryUse use;
  int replays;
};

Device& first_cuda() { return *cuda_device(0).value(); }

std::vector<Place> places() {
  std::vector<Place> all = {{"host", host_device, MemoryUse::Plain, 1'000}};
  if (cuda_devices()) all.push_back({"cuda", first_cuda, MemoryUse::Pinned, 50});
  return all;
}

// A stream, and vectors of a rank.
struct Streamed {
  explicit Streamed(const Place& place)
      : input(place.device().allocate(kBytes, place.use).value()),
        output(place.device().allocate(kBytes, place.use).value()),
        stream(place.device().make_stream().value()) {}
  Call sum() const { return call(Collective::AllReduce); }
  Call call(Collective collective) const {
    Call call;
    call.collective = collective;
    call.dtype = DataType::Int32;
    call.input = input.data();
    call.output = output.data();
    call.count = kCount;
    call.stream = stream.get();
    return call;
  }
  // The stream adds the output, times `factor`, to the input of what comes next.
  void set(std::int32_t value) {
    const std::vector<std::int32_t> values(kCount, value);
    stream->device().copy(input.data(), values.data(), kBytes).value();
  }
  std::vector<std::int32_t> result() const {
    std::vector<std::int32_t> values(kCount);
    stream->device().copy(values.data(), output.data(), kBytes).value();
    return values;
  }

  DeviceMemory input;
  DeviceMemory output;
  std::unique_ptr<Stream> stream;
};

using Case = std::tuple<Place, const char*, int>;  // place, transport, ranks

class Graphs : public testing::TestWithParam<Case> {
 protected:
  static const Place& place() { return std::get<0>(GetParam()); }
  static LocalRanks make_ranks() {
    CommunicatorOptions options;
    options.transports = {std::get<1>(GetParam())};
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

// A rank's value grows with every replay: what one replay got wrong stays wrong.
TEST_P(Graphs, RunTheirCallsWithEachLaunch) {
  LocalRanks ranks = make_ranks();
  const int n = ranks.ranks();
  ranks.run([&](Communicator& communicator) {
    Streamed own(place());
    own.set(communicator.rank());
    own.stream->begin_capture().value();
    communicator.start(own.sum()).value();
    const auto graph = own.stream->end_capture().value();
    EXPECT_EQ(own.result(), std::vector<std::int32_t>(kCount, 0));  // nothing has run
    std::int32_t sum = 0;
    for (int replay = 0; replay < place().replays; ++replay) {
      graph->launch(*own.stream).value();
      if (replay % 100 != 0) continue;
      sum = communicator.rank();
      communicator.all_reduce(&sum, &sum, 1, DataType::Int32)
          .value();  // among the graph's, in the order of the program
      EXPECT_EQ(sum, n * (n - 1) / 2);
    }
    own.stream->synchronize().value();
    EXPECT_EQ(own.result(), std::vector<std::int32_t>(kCount, n * (n - 1) / 2));
  });
}

}  // namespace
}  // namespace wreath::test
