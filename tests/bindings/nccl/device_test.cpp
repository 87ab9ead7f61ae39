// Tests libnccl.so.2 on memory and in streams of CUDA devices, with only nccl.h and the driver. The driver is the one
// that stands in for libcuda.so.1, or a real one.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace {

constexpr std::size_t kCount = 50'000;
constexpr std::size_t kBytes = kCount * sizeof(float);

using Address = unsigned long long;

// The functions of the driver that a program calls, as cuda.h declares them.
struct Driver {
  int (*init)(unsigned);
  int (*device_get_count)(int*);
  int (*retain)(void** context, int device);
  int (*set_current)(void* context);
  int (*pop_current)(void** context);
  int (*allocate)(Address*, std::size_t bytes);
  int (*free)(Address);
  int (*allocate_pinned)(void**, std::size_t bytes, unsigned flags);
  int (*free_pinned)(void*);
  int (*stream_create)(void** stream, unsigned flags);
  int (*stream_destroy)(void* stream);
  int (*stream_synchronize)(void* stream);
  int (*copy)(Address target, Address source, std::size_t bytes, void* stream);
  int (*wait_value)(void* stream, Address word, std::uint32_t value, unsigned flags);
  int (*begin_capture)(void* stream, int mode);
  int (*end_capture)(void* stream, void** graph);
  int (*destroy_graph)(void* graph);
};

// Loads the driver, and returns the number of its devices.
int load(Driver& driver) {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return 0;
  using Find = int (*)(const char*, void**, int, std::uint64_t, int*);
  const auto find = reinterpret_cast<Find>(::dlsym(library, "cuGetProcAddress_v2"));
  bool all = find != nullptr;
  const auto set = [&](const char* name, auto& function) {
    void* found = nullptr;
    int status = 0;
    all = all && find(name, &found, 12'000, 0, &status) == 0;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
  };
  set("cuInit", driver.init);
  set("cuDeviceGetCount", driver.device_get_count);
  set("cuDevicePrimaryCtxRetain", driver.retain);
  set("cuCtxPushCurrent", driver.set_current);
  set("cuCtxPopCurrent", driver.pop_current);
  set("cuMemAlloc", driver.allocate);
  set("cuMemFree", driver.free);
  set("cuMemHostAlloc", driver.allocate_pinned);
  set("cuMemFreeHost", driver.free_pinned);
  set("cuStreamCreate", driver.stream_create);
  set("cuStreamDestroy", driver.stream_destroy);
  set("cuStreamSynchronize", driver.stream_synchronize);
  set("cuMemcpyAsync", driver.copy);
  set("cuStreamWaitValue32", driver.wait_value);
  set("cuStreamBeginCapture", driver.begin_capture);
  set("cuStreamEndCapture", driver.end_capture);
  set("cuGraphDestroy", driver.destroy_graph);
  int devices = 0;
  return all && driver.init(0) == 0 && driver.device_get_count(&devices) == 0 ? devices : 0;
}

class NcclOnDevices : public testing::Test {
 protected:
  void SetUp() override {
    devices_ = load(driver_);
    if (devices_ == 0) GTEST_SKIP() << "no CUDA device: run it as ctest -R bindings_nccl_device";
    // A program's first call of the CUDA runtime does the same.
    for (int device = 0; device < std::min(devices_, 2); ++device) {
      ASSERT_EQ(driver_.retain(&contexts_[device], device), 0);
    }
    ASSERT_EQ(driver_.set_current(contexts_[0]), 0);
  }
  void TearDown() override {
    void* context = nullptr;
    if (contexts_[0] != nullptr) driver_.pop_current(&context);
  }

  // The stream and the memory that one rank has on its device.
  struct Side {
    void* stream = nullptr;
    Address input = 0;
    Address output = 0;
    // This memory is pinned, because copies of other memory wait for the stream.
    float* host = nullptr;
    std::vector<float> values() const { return {host, host + kCount}; }
  };
  void on_device(int device, const std::function<void()>& body) const {
    void* context = nullptr;
    ASSERT_EQ(driver_.set_current(contexts_[device]), 0);
    body();
    driver_.pop_current(&context);
  }
  Side make(int device) const {
    Side side;
    on_device(device, [&] {
      EXPECT_EQ(driver_.stream_create(&side.stream, 1), 0);
      EXPECT_EQ(driver_.allocate(&side.input, kBytes), 0);
      EXPECT_EQ(driver_.allocate(&side.output, kBytes), 0);
      EXPECT_EQ(driver_.allocate_pinned(reinterpret_cast<void**>(&side.host), kBytes, 0), 0);
    });
    return side;
  }
  void destroy(const Side& side, int device) const {
    on_device(device, [&] {
      driver_.stream_destroy(side.stream);
      driver_.free(side.input);
      driver_.free(side.output);
      driver_.free_pinned(side.host);
    });
  }
  void copy(Address target, Address source, const Side& side, int device) const {
    on_device(device, [&] { EXPECT_EQ(driver_.copy(target, source, kBytes, side.stream), 0); });
  }
  static Address address(const void* values) { return reinterpret_cast<Address>(values); }
  // Makes a communicator of one rank.
  static ncclComm_t make_alone() {
    ncclUniqueId id;
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    EXPECT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess) << ncclGetLastError(nullptr);
    return comm;
  }
  static ncclResult_t all_reduce(const Side& side, ncclComm_t comm) {
    return ncclAllReduce(reinterpret_cast<void*>(side.input), reinterpret_cast<void*>(side.output), kCount, ncclFloat,
                         ncclSum, comm, static_cast<cudaStream_t>(side.stream));
  }
  // Sends the rank its own input, and a message without elements, in that stream.
  static ncclResult_t exchange_with_itself(const Side& side, ncclComm_t comm, void* stream) {
    const auto in = static_cast<cudaStream_t>(stream);
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(ncclSend(reinterpret_cast<void*>(side.input), kCount, ncclFloat, 0, comm, in), ncclSuccess);
    EXPECT_EQ(ncclRecv(reinterpret_cast<void*>(side.output), kCount, ncclFloat, 0, comm, in), ncclSuccess);
    EXPECT_EQ(ncclSend(nullptr, 0, ncclFloat, 0, comm, in), ncclSuccess);
    EXPECT_EQ(ncclRecv(nullptr, 0, ncclFloat, 0, comm, in), ncclSuccess);
    return ncclGroupEnd();
  }
  // Returns what is in the output when the stream has done all.
  std::vector<float> output_of(const Side& side, void* stream) const {
    EXPECT_EQ(driver_.stream_synchronize(stream), 0);
    std::fill_n(side.host, kCount, 0.0F);
    EXPECT_EQ(driver_.copy(address(side.host), side.output, kBytes, stream), 0);
    EXPECT_EQ(driver_.stream_synchronize(stream), 0);
    return side.values();
  }

  Driver driver_{};
  int devices_ = 0;
  void* contexts_[2] = {};
};

constexpr const char* kNeedsTwo = "one CUDA device: run it as ctest -R bindings_nccl_device";

TEST_F(NcclOnDevices, CallsReturnAtOnceAndRunInTheirStreams) {
  if (devices_ < 2) GTEST_SKIP() << kNeedsTwo;
  ncclComm_t comm[2];
  ASSERT_EQ(ncclCommInitAll(comm, 2, nullptr), ncclSuccess) << ncclGetLastError(nullptr);
  Side sides[2] = {make(0), make(1)};
  for (int device : {0, 1}) {
    int told = -1;
    EXPECT_EQ(ncclCommCuDevice(comm[device], &told), ncclSuccess);
    EXPECT_EQ(told, device);
    Side& side = sides[device];
    std::fill_n(side.host, kCount, static_cast<float>(device + 1));
    copy(side.input, address(side.host), side, device);
  }
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (int i : {0, 1}) {
      EXPECT_EQ(ncclAllReduce(reinterpret_cast<void*>(sides[i].input), reinterpret_cast<void*>(sides[i].output), kCount,
                              ncclFloat, ncclSum, comm[i], static_cast<cudaStream_t>(sides[i].stream)),
                ncclSuccess)
          << ncclGetLastError(comm[i]);
    }
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  }
  for (int i : {0, 1}) {
    copy(address(sides[i].host), sides[i].output, sides[i], i);
    EXPECT_EQ(driver_.stream_synchronize(sides[i].stream), 0);
    EXPECT_EQ(sides[i].values(), std::vector<float>(kCount, 3.0F));
    ncclResult_t error = ncclInternalError;
    EXPECT_EQ(ncclCommGetAsyncError(comm[i], &error), ncclSuccess);
    EXPECT_EQ(error, ncclSuccess);
    destroy(sides[i], i);
    EXPECT_EQ(ncclCommDestroy(comm[i]), ncclSuccess);
  }
}

TEST_F(NcclOnDevices, ThreadsOfOneDeviceMeetAndExchangeMessages) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  // Freeing memory may wait for the other rank's stream, and may block all other calls meanwhile. So both ranks finish
  // first.
  std::barrier over(2);
  const auto rank = [&](int me) {
    on_device(0, [&] {
      ncclComm_t comm = nullptr;
      ASSERT_EQ(ncclCommInitRank(&comm, 2, id, me), ncclSuccess) << ncclGetLastError(nullptr);
      int told = -1;
      EXPECT_EQ(ncclCommCuDevice(comm, &told), ncclSuccess);
      EXPECT_EQ(told, 0);
      Side side = make(0);
      std::fill_n(side.host, kCount, static_cast<float>(me + 1));
      copy(side.input, address(side.host), side, 0);
      const auto stream = static_cast<cudaStream_t>(side.stream);
      EXPECT_EQ(ncclGroupStart(), ncclSuccess);
      EXPECT_EQ(ncclSend(reinterpret_cast<void*>(side.input), kCount, ncclFloat, 1 - me, comm, stream), ncclSuccess);
      EXPECT_EQ(ncclRecv(reinterpret_cast<void*>(side.output), kCount, ncclFloat, 1 - me, comm, stream), ncclSuccess);
      EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(comm);
      copy(address(side.host), side.output, side, 0);
      EXPECT_EQ(driver_.stream_synchronize(side.stream), 0);
      EXPECT_EQ(side.values(), std::vector<float>(kCount, static_cast<float>(2 - me)));
      over.arrive_and_wait();
      // Programs may free their memory before the communicator.
      destroy(side, 0);
      EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    });
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
}

TEST_F(NcclOnDevices, MemoryIsTheCurrentDevicesAndTheDefaultStreamWillDo) {
  void* memory = nullptr;
  ASSERT_EQ(ncclMemAlloc(&memory, kBytes), ncclSuccess);
  ncclComm_t comm = nullptr;
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ASSERT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess);
  void* handle = nullptr;
  EXPECT_EQ(ncclCommRegister(comm, memory, kBytes, &handle), ncclSuccess) << ncclGetLastError(comm);
  const std::vector<float> source(kCount, 7.0F);
  std::vector<float> target(kCount);
  const auto on = reinterpret_cast<Address>(memory);
  EXPECT_EQ(driver_.copy(on, address(source.data()), kBytes, nullptr), 0);
  EXPECT_EQ(ncclAllReduce(memory, memory, kCount, ncclFloat, ncclSum, comm, nullptr), ncclSuccess)
      << ncclGetLastError(comm);
  // The copy below is to memory that is not pinned.
  EXPECT_EQ(driver_.stream_synchronize(nullptr), 0);
  EXPECT_EQ(driver_.copy(address(target.data()), on, kBytes, nullptr), 0);
  EXPECT_EQ(target, source);
  EXPECT_EQ(ncclCommDeregister(comm, handle), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
}

// A call of no elements need not say in which memory it has none.
TEST_F(NcclOnDevices, MessagesOfNoElementsGoWithTheOthersOfTheDefaultStream) {
  const ncclComm_t comm = make_alone();
  const Side side = make(0);
  std::fill_n(side.host, kCount, 7.0F);
  EXPECT_EQ(driver_.copy(side.input, address(side.host), kBytes, nullptr), 0);
  EXPECT_EQ(exchange_with_itself(side, comm, nullptr), ncclSuccess) << ncclGetLastError(comm);
  EXPECT_EQ(output_of(side, nullptr), std::vector<float>(kCount, 7.0F));
  destroy(side, 0);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

// The graph would not begin the calls anew.
TEST_F(NcclOnDevices, RefusesCallsWhileTheProgramCapturesTheirStreamAndGoesOn) {
  constexpr int kRelaxed = 2;
  const ncclComm_t comm = make_alone();
  const Side side = make(0);
  ASSERT_EQ(driver_.begin_capture(side.stream, kRelaxed), 0);
  EXPECT_EQ(all_reduce(side, comm), ncclInvalidUsage);
  EXPECT_NE(std::string(ncclGetLastError(comm)).find("captured into a graph"), std::string::npos);
  EXPECT_EQ(exchange_with_itself(side, comm, side.stream), ncclInvalidUsage);
  void* graph = nullptr;
  ASSERT_EQ(driver_.end_capture(side.stream, &graph), 0);
  driver_.destroy_graph(graph);
  ncclResult_t error = ncclInternalError;
  EXPECT_EQ(ncclCommGetAsyncError(comm, &error), ncclSuccess);
  EXPECT_EQ(error, ncclSuccess);
  std::fill_n(side.host, kCount, 5.0F);
  copy(side.input, address(side.host), side, 0);
  EXPECT_EQ(all_reduce(side, comm), ncclSuccess) << ncclGetLastError(comm);
  EXPECT_EQ(output_of(side, side.stream), std::vector<float>(kCount, 5.0F));
  destroy(side, 0);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

// A communicator of the library itself gives its calls 5 seconds when it is destroyed.
TEST_F(NcclOnDevices, DestroyWaitsForCallsThatTheirStreamHasNotComeTo) {
  const ncclComm_t comm = make_alone();
  const Side side = make(0);
  void* word = nullptr;
  ASSERT_EQ(driver_.allocate_pinned(&word, sizeof(std::uint32_t), 0), 0);
  const std::atomic_ref<std::uint32_t> come(*static_cast<std::uint32_t*>(word));
  come = 0;
  std::fill_n(side.host, kCount, 3.0F);
  copy(side.input, address(side.host), side, 0);
  ASSERT_EQ(driver_.wait_value(side.stream, address(word), 1, 0), 0);
  EXPECT_EQ(all_reduce(side, comm), ncclSuccess) << ncclGetLastError(comm);
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(6500));
    come = 1;
  });
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  EXPECT_EQ(come, 1U);
  later.join();
  EXPECT_EQ(output_of(side, side.stream), std::vector<float>(kCount, 3.0F));
  destroy(side, 0);
  driver_.free_pinned(word);
}

TEST_F(NcclOnDevices, RefusesWhatCannotBeInOneGroup) {
  if (devices_ < 2) GTEST_SKIP() << kNeedsTwo;
  ncclComm_t comm[2];
  ASSERT_EQ(ncclCommInitAll(comm, 2, nullptr), ncclSuccess);
  const Side side = make(0);
  float value = 1;
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(reinterpret_cast<void*>(side.input), reinterpret_cast<void*>(side.output), 1, ncclFloat,
                          ncclSum, comm[0], static_cast<cudaStream_t>(side.stream)),
            ncclSuccess);
  EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm[1], nullptr), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("calls on host memory alone and of calls in streams"),
            std::string::npos);
  destroy(side, 0);
  for (const ncclComm_t each : comm) EXPECT_EQ(ncclCommDestroy(each), ncclSuccess);
}

}  // namespace
