// Tests the perf tools on devices with calls in streams and graphs. One device is made of host threads, and others
// belong to the driver that stands for CUDA's.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "perf/kernels/kernels.hpp"
#include "tests/support/surroundings.hpp"
#include "tests/unit/commands/command.hpp"

namespace wreath {
namespace {

using testing::HasSubstr;
using testing_support::kFakeCuda;
using testing_support::Outcome;
using testing_support::run_program;

// Runs all_reduce_perf with two threads, expects success, and returns the content of its --json file.
nlohmann::json measure(const std::string& arguments, const std::string& before = "") {
  const test::Folder folder;
  const std::string file = folder.path() + "/run.json";
  const Outcome outcome =
      run_program("all_reduce_perf -t 2 -n 4 -b 1K -e 128K -f 128 --json " + file + " " + arguments, before);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  std::ifstream text(file);
  return nlohmann::json::parse(text, nullptr, false);
}

void expect_right(const nlohmann::json& json, const std::string& memory, bool in_place) {
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["wreath"]["memory"], memory);
  EXPECT_EQ(json["results"].size(), 2U);
  for (const auto& row : json["results"]) {
    EXPECT_GT(row["out_of_place"]["time"], 0) << row;
    EXPECT_EQ(row["out_of_place"]["nwrong"], 0) << row;
    EXPECT_EQ(row["in_place"].is_object(), in_place) << row;
  }
}

TEST(PerfInStreams, MeasuresAndChecksOnTheHostDevice) {
  expect_right(measure("--memory host-device"), "host-device", true);
}

TEST(PerfInStreams, MeasuresAndChecksPinnedMemory) {
  if (!perf::has_gpu_kernels()) GTEST_SKIP() << "this build has no kernels: run it in the preset dev, with nvcc";
  expect_right(measure("--memory pinned", kFakeCuda), "pinned", true);
}

TEST(PerfInStreams, MeasuresAndChecksMisalignedMemory) {
  expect_right(measure("--memory host-device --offset 3"), "host-device", true);
  expect_right(measure("--memory host-device -u 1 -d half"), "host-device", true);
}

TEST(PerfInStreams, SaysWhatOneGpuDoesNotShow) {
  if (!perf::has_gpu_kernels()) GTEST_SKIP() << "this build has no kernels: run it in the preset dev, with nvcc";
  const char* const note = "one GPU: the peer path is exercised, NVLink bandwidth is not";
  const nlohmann::json one = measure("", kFakeCuda + std::string("FAKE_CUDA_ONE_DEVICE=1 "));
  EXPECT_THAT(one["wreath"]["notes"], testing::Contains(note)) << one["wreath"];
  EXPECT_THAT(measure("", kFakeCuda)["wreath"]["notes"], testing::Not(testing::Contains(note)));
}

TEST(PerfInStreams, NeedsKernelsForAGpu) {
  const Outcome outcome = run_program("all_reduce_perf -t 2 -n 1 -b 1K -e 1K --memory device", kFakeCuda);
  if (perf::has_gpu_kernels()) {
    EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  } else {
    EXPECT_EQ(outcome.exit_code, 77) << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr("this build has no CUDA kernels"));
  }
}

TEST(PerfInStreams, LaunchesGraphsAndMeasuresOutOfPlace) {
  const nlohmann::json json = measure("--memory host-device -G 3");
  expect_right(json, "host-device", false);
  EXPECT_EQ(json["wreath"]["graph_launches"], 3);
}

TEST(PerfInStreams, MeasuresMessages) {
  const Outcome outcome = run_program("sendrecv_perf -t 2 -n 4 -b 1K -e 1K --memory host-device -G 2");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("memory host-device"));
}

TEST(PerfInStreams, GivesEachThreadItsDevices) {
  const Outcome outcome = run_program("all_reduce_perf -t 1 -g 2 -n 2 -b 1K -e 1K --memory host-device");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("nThread 1 nGpus 2 "));
  EXPECT_THAT(outcome.text, HasSubstr("# Ranks 2 "));
}

TEST(PerfInStreams, NeedsADeviceAndSaysWhatDoesWithout) {
  const Outcome none =
      run_program("all_reduce_perf --memory device", kFakeCuda + std::string("FAKE_CUDA_NO_DEVICE=1 "));
  EXPECT_EQ(none.exit_code, 77);
  EXPECT_THAT(none.text, HasSubstr("--memory device: libcuda.so.1: cuInit"));
  EXPECT_THAT(none.text, HasSubstr("host-device is the device made of host threads"));
}

TEST(PerfInStreams, MeasuresAGpuWhereThereIsOneAndNothingElseWasAskedFor) {
  expect_right(measure("", kFakeCuda), perf::has_gpu_kernels() ? "device" : "host", true);
  expect_right(measure("", kFakeCuda + std::string("FAKE_CUDA_NO_DEVICE=1 ")), "host", true);
  expect_right(measure("--memory host", kFakeCuda), "host", true);
  expect_right(measure("--rewrite", kFakeCuda), "host", true);
}

TEST(PerfInStreams, RefusesWhatDoesNotGoTogether) {
  const auto refused = [](const std::string& arguments, const std::string& words) {
    const Outcome outcome = run_program("all_reduce_perf " + arguments);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr(words));
  };
  refused("--memory gpu", "--memory gpu: give host, shared, device, pinned or host-device");
  refused("-G 2", "-G 2: needs --memory device, pinned or host-device");
  refused("-g 2", "-g 2: needs --memory device, pinned or host-device");
  refused("--memory host-device -I 1", "--memory host-device: not together with -I");
  refused("--memory host-device -G 2 --rewrite", "-G 2: not together with --rewrite");
}

}  // namespace
}  // namespace wreath
