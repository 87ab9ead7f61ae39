// A GPT is trained on a CUDA device of the driver that stands in for libcuda.so.1; host threads run its kernels. Its
// products come from a library that stands in for cuBLASLt, where the search path has it.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <thread>

#include "examples/train_gpt/run/device.hpp"
#include "tests/support/fake_cuda.hpp"
#include "tests/training/meshes/runs.hpp"
#include "training/compute/cublaslt.hpp"
#include "training/compute/kernels/kernels.hpp"

namespace wreath::gpt::test {
namespace {

// Runs two threads for each of the grid's blocks, whatever number of threads it asks for, and one block at a time.
// Blocks do not wait for each other.
template <typename Run>
void run_grid(unsigned blocks, unsigned, void** parameters) {
  constexpr unsigned kThreads = 2;
  for (unsigned block = 0; block < blocks; ++block) {
    HostBlockShared shared(kThreads);
    const auto run = [&](unsigned thread) {
      HostBlock place(shared, block, thread, kThreads);
      training::kernel_of<Run>().host(place, parameters[0]);
    };
    const std::jthread other([&] { run(1); });
    run(0);
  }
}

bool install_kernels() {
  static_cast<void>(cuda_devices());
  const wreath::test::FakeCuda fake = wreath::test::FakeCuda::find();
  if (!fake) return false;
#define WREATH_INSTALL(name, Run, Shared) \
  fake.set_kernel("wreath_training_" #name, &run_grid<training::Run>, sizeof(training::Run));
  WREATH_TRAINING_KERNELS(WREATH_INSTALL)
#undef WREATH_INSTALL
  return true;
}

class TrainOnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!install_kernels())
      GTEST_SKIP() << "this is not the driver that stands for CUDA's: run it by ctest, which sets LD_LIBRARY_PATH";
  }
  static TrainingRun train_on(Device* device, const char* precision, int dp = 1) {
    TrainOptions options = small_options();
    options.model.layers = 1;
    options.model.heads = 2;
    options.model.width = 8;
    options.model.context = 12;
    options.batch = 2;
    options.mesh.dp = dp;
    options.precision = precision;
    options.device = device;
    CommunicatorOptions communicator;
    if (device != nullptr) communicator.device = device->name();
    return train(options, 4, {}, communicator);
  }
};

TEST_F(TrainOnCuda, ProductsAreByTheLibraryThatIsThere) {
  const bool there = ::dlopen("libcublasLt.so.13", RTLD_NOW) != nullptr;
  const auto compute = training::Compute::create(*cuda_device(0).value()).value();
  const std::string text = compute->description();
  EXPECT_EQ(
      text.find(there ? "cuda:0, products by cuBLASLt 13.0.2" : "cuda:0, products by the own kernel (no cuBLASLt:"), 0u)
      << text;
}

TEST_F(TrainOnCuda, FollowsTheCpu) {
  const TrainingRun cpu = train_on(nullptr, "float32");
  const TrainingRun device = train_on(cuda_device(0).value(), "float32");
  EXPECT_LT(largest_difference(cpu.losses, device.losses), 5e-7);
  EXPECT_LT(largest_difference(cpu.first_gradients, device.first_gradients), 1e-5);
}

TEST_F(TrainOnCuda, InTwoBytesToo) {
  const TrainingRun cpu = train_on(nullptr, "bfloat16");
  const TrainingRun device = train_on(cuda_device(1).value(), "bfloat16");
  EXPECT_LT(largest_difference(cpu.losses, device.losses), 1e-3);
}

TEST_F(TrainOnCuda, ReplicasOfOneGpu) {
  const TrainingRun cpu = train_on(nullptr, "float32", 2);
  const TrainingRun device = train_on(cuda_device(0).value(), "float32", 2);
  EXPECT_LT(largest_difference(cpu.losses, device.losses), 5e-7);
}

TEST_F(TrainOnCuda, RanksTakeTheGpusInTurns) {
  EnvironmentJob job;
  job.local_rank = 3;
  EXPECT_EQ(find_device("cuda", job).value()->name(), "cuda:1");
  EXPECT_EQ(find_device("cuda:0", job).value()->name(), "cuda:0");
  const Result<Device*> beyond = find_device("cuda:2", job);
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().message.find("--device cuda:2: "), 0u) << beyond.error().message;
}

}  // namespace
}  // namespace wreath::gpt::test
