// Tests a device's memory that other processes map: freed and made again, too much of it, in graphs, in exchanges. The
// tests run on the host device and, where there is a GPU, on it. Deaths are in tests/faults/death, aborts in
// tests/faults/abort.
#include "tests/multiprocess/device_memory/loaded.hpp"
#include "tests/support/fake_cuda.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/resources.hpp"
#include "wreath/wreath.hpp"

namespace wreath::testing_support {
namespace {

constexpr std::size_t kCount = 50'000;
constexpr std::size_t kBytes = kCount * sizeof(float);

Device& device_of(const Child& child) {
  return child.text("devices") == "host" ? host_device() : *cuda_device(0).value();
}

// Holds two buffers of a device. The output gets the inputs of all ranks.
class Buffers {
 public:
  Buffers(Device& device, MemoryUse use, int ranks)
      : device_(device),
        ranks_(ranks),
        input_(device.allocate(kBytes, use).value()),
        output_(device.allocate(static_cast<std::size_t>(ranks) * kBytes, use).value()) {}
  void fill(float value) const {
    const std::vector<float> values(kCount, value);
    device_.copy(input_.data(), values.data(), kBytes).value();
  }
  Call gather() const {
    Call call;
    call.collective = Collective::AllGather;
    call.dtype = DataType::Float32;
    call.input = input_.data();
    call.output = output_.data();
    call.count = kCount;
    return call;
  }
  // Returns whether the output has the data that ranks sent after they filled their inputs with `first` + rank.
  bool holds(float first) const {
    std::vector<float> values(kCount);
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::byte* const from = output_.data() + static_cast<std::size_t>(rank) * kBytes;
      device_.copy(values.data(), from, kBytes).value();
      if (values != std::vector<float>(kCount, first + static_cast<float>(rank))) return false;
    }
    return true;
  }

 private:
  Device& device_;
  int ranks_;
  DeviceMemory input_;
  DeviceMemory output_;
};

// Reports at its end whether it has loaded peers' memory in place, and how much is still mapped after the
// communicator's end.
WREATH_ROLE(gather) {
  const int maps = lines_of("/proc/self/maps", "wreath-device");
  auto made = child.create();
  if (!made) return child.failed(made.error());
  std::optional<Communicator> communicator(std::move(*made));
  const auto use = child.number("plain") == child.rank() + 1 ? MemoryUse::Plain : MemoryUse::Exportable;
  for (std::int64_t each = 0; each < child.number("allocations"); ++each) {
    const Buffers buffers(device_of(child), use, child.ranks());
    for (std::int64_t round = 0; round < child.number("rounds"); ++round) {
      const auto first = static_cast<float>(100 * each + 10 * round);
      buffers.fill(first + static_cast<float>(child.rank()));
      if (const Status status = communicator->run(buffers.gather()); !status) return child.failed(status.error());
      if (!buffers.holds(first)) return 4;
    }
  }
  if (const Status status = communicator->barrier(); !status) return child.failed(status.error());
  const bool loaded = loaded_kib() * 1024 >= static_cast<long>(kBytes);
  child.report(communicator->transport_to(1 - child.rank()));
  communicator.reset();
  child.report(std::string(loaded ? "loaded" : "not loaded") + ", left " +
               std::to_string(lines_of("/proc/self/maps", "wreath-device") - maps));
  return 0;
}

class MappedMemory : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "host") return;
    const bool real = cuda_devices() && !test::FakeCuda::find();
    if (!real) GTEST_SKIP() << "no GPU: run it where there is one, or conformance_cuda_blocks with the stand-in";
  }

  static void run(const std::string& role) {
    Job job(role, 2, {{"transport", "shm,cuda_ipc"}, {"devices", GetParam()}});
    ASSERT_TRUE(job.share_id());
    for (int rank : {0, 1}) EXPECT_EQ(job[rank].join(60'000 * kSlower), 0) << job.logs();
  }

  static void expect_gathered(const Arguments& arguments, const std::string& loaded,
                              const std::string& way = "shm, cuda_ipc") {
    Arguments all{{"transport", "shm,cuda_ipc"}, {"devices", GetParam()}, {"rounds", "8"}, {"allocations", "1"}};
    for (const auto& [name, value] : arguments) all[name] = value;
    Job job("gather", 2, all);
    ASSERT_TRUE(job.share_id());
    for (int rank : {0, 1}) ASSERT_EQ(job[rank].join(120'000 * kSlower), 0) << job.logs();
    const auto lines = job[0].lines();
    EXPECT_EQ(way_of_devices(lines[lines.size() - 2]), way) << job.logs();
    if (GetParam() == "host") {
      EXPECT_EQ(lines.back(), loaded + ", left 0") << job.logs();
    }
  }
};
INSTANTIATE_TEST_SUITE_P(On, MappedMemory, testing::Values("host", "cuda:0"),
                         [](const auto& of) { return of.param.substr(0, 4); });

TEST_P(MappedMemory, IsReadWhereItIs) { expect_gathered({}, "loaded"); }
TEST_P(MappedMemory, IsFreedAndMadeAgain) { expect_gathered({{"allocations", "12"}}, "loaded"); }
TEST_P(MappedMemory, IsStagedOnceTooMuchWasNamed) {
  expect_gathered({{"allocations", "90"}, {"rounds", "2"}}, "loaded");
}
TEST_P(MappedMemory, IsNoneWhereItsOwnerCannotExportIt) { expect_gathered({{"plain", "2"}}, "not loaded"); }
TEST_P(MappedMemory, IsNoneWhereOneRankHasNoDevice) {
  expect_gathered({{"device_1", "none"}}, "not loaded", "shm (cuda_ipc: rank 1 has no device)");
}
TEST_P(MappedMemory, IsNoneWhereItIsNotAllowed) { expect_gathered({{"transport", "shm"}}, "not loaded", "shm"); }

// Makes a call in a graph, which is launched before and after its memory was announced, beside direct calls.
WREATH_ROLE(graph) {
  auto communicator = child.create();
  if (!communicator) return child.failed(communicator.error());
  const Buffers buffers(device_of(child), MemoryUse::Exportable, child.ranks());
  const std::unique_ptr<Stream> stream = device_of(child).make_stream().value();
  Call call = buffers.gather();
  call.stream = stream.get();
  stream->begin_capture().value();
  communicator->start(call).value();
  const std::unique_ptr<Graph> graph = stream->end_capture().value();
  for (int round = 0; round < 40; ++round) {
    const auto first = static_cast<float>(10 * round);
    buffers.fill(first + static_cast<float>(child.rank()));
    const bool direct = round % 7 == 3;
    const Status status = direct ? communicator->run(buffers.gather()) : graph->launch(*stream);
    if (!status) return child.failed(status.error());
    if (const Status over = stream->synchronize(); !over) return child.failed(over.error());
    if (!buffers.holds(first)) return 4;
  }
  return 0;
}

TEST_P(MappedMemory, IsReadByCallsInGraphs) { run("graph"); }

// Sends messages of one exchange from several allocations, and messages of several exchanges that the peer receives as
// one.
WREATH_ROLE(exchange) {
  auto made = child.create();
  if (!made) return child.failed(made.error());
  Communicator& communicator = *made;
  Device& device = device_of(child);
  const int peer = 1 - child.rank();
  DeviceMemory sent[2];
  DeviceMemory received[2];
  for (auto* const both : {sent, received}) {
    for (int i : {0, 1}) both[i] = device.allocate(kBytes, MemoryUse::Exportable).value();
  }
  std::vector<float> values(kCount);
  for (int round = 0; round < 12; ++round) {
    const bool together = child.rank() == 0 || round % 2 == 0;
    std::optional<Group> group;
    for (int i : {0, 1}) {
      std::fill(values.begin(), values.end(), static_cast<float>(10 * round + 2 * i + child.rank()));
      device.copy(sent[i].data(), values.data(), kBytes).value();
    }
    if (together) group.emplace();
    for (int i : {0, 1}) {
      if (!together) group.emplace();
      communicator.send(reinterpret_cast<const float*>(sent[i].data()), kCount, DataType::Float32, peer).value();
      communicator.recv(reinterpret_cast<float*>(received[i].data()), kCount, DataType::Float32, peer).value();
      if (together && i == 0) continue;
      if (const Status status = group->run(); !status) return child.failed(status.error());
    }
    group.reset();
    for (int i : {0, 1}) {
      device.copy(values.data(), received[i].data(), kBytes).value();
      if (values != std::vector<float>(kCount, static_cast<float>(10 * round + 2 * i + peer))) return 4;
    }
  }
  return 0;
}

TEST_P(MappedMemory, IsSentInExchanges) { run("exchange"); }

}  // namespace
}  // namespace wreath::testing_support
