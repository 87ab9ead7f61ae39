// Tests the perf tools on devices with calls in streams and graphs. One device is made of host threads, and others
// belong to the driver that stands for CUDA's.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "perf/base/kernels.hpp"
#include "tests/support/surroundings.hpp"
#include "tests/unit/commands/command.hpp"

namespace wreath {
namespace {

using testing::HasSubstr;
using testing_support::kFakeCuda;
using testing_support::Outcome;
using testing_support::run_line;
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

TEST(PerfInTurns, MeasuresCopiesOfTheDevice) {
  const nlohmann::json json = measure("--memory host-device --peer copies --repeats 3");
  expect_right(json, "host-device", true);
  EXPECT_EQ(json["wreath"]["peer"], "copies");
  for (const auto& row : json["results"]) {
    const auto& peer = row["wreath"]["peer"];
    EXPECT_EQ(peer["samples_us"].size(), 3U);
    EXPECT_GT(peer["time"], 0);
    EXPECT_GT(peer["ratio"], 0);
  }
}

TEST(PerfInTurns, MeasuresTheHandwrittenLoops) {
  const nlohmann::json json = measure("--memory host --algorithm ring --peer handwritten");
  expect_right(json, "host", true);
  EXPECT_THAT(json["results"][1]["wreath"]["peer"]["plan"], HasSubstr("ring")) << json;
  EXPECT_GT(json["results"][1]["wreath"]["peer"]["ratio"], 0);
}

// Nothing is checked, since a build without nvcc has no kernels for it.
constexpr const char* kBesideNccl = "all_reduce_perf -t 2 -n 2 -c 0 --memory device -b 1K -e 1K -d float,bfloat16 ";

TEST(PerfInTurns, MeasuresNccl) {
  const test::Folder folder;
  const std::string file = folder.path() + "/run.json";
  const Outcome outcome =
      run_program(kBesideNccl + std::string("--peer nccl=" WREATH_FAKE_NCCL " --json ") + file, kFakeCuda);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("# Peer: nccl, in turns, out of place; ratio"));
  std::ifstream text(file);
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  ASSERT_EQ(json["results"].size(), 2U) << json;
  EXPECT_EQ(json["results"][1]["type"], "bfloat16");
  EXPECT_EQ(json["results"][1]["wreath"]["peer"]["plan"], "NCCL 2.30.7");
  EXPECT_GT(json["results"][1]["wreath"]["peer"]["time"], 0);
}

TEST(PerfInTurns, SaysWhyItDoesNotStandBesideNccl) {
  const auto why = [&](const std::string& library, const std::string& before, const std::string& words) {
    const Outcome outcome = run_program(kBesideNccl + ("--peer nccl=" + library), kFakeCuda + before);
    EXPECT_EQ(outcome.exit_code, 77) << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr(words));
  };
  why("/nonexistent/libnccl.so.2", "", "cannot open shared object file");
  why(WREATH_FAKE_NCCL, "FAKE_NCCL_VERSION=22809 ",
      "it is NCCL 2.28.9, which has one rank a GPU; from 2.30.0 on several");
  why(WREATH_FAKE_NCCL, "FAKE_NCCL_REFUSES=1 ", "ncclCommInitRank of NCCL 2.30.7: invalid usage");
  why(WREATH_OWN_NCCL, "", "it is Wreath's own");
}

// A run that is ended early leaves its rows.
TEST(PerfInTurns, LeavesItsRowsWhenItIsEnded) {
  const test::Folder folder;
  const std::string file = folder.path() + "/run.json";
  const Outcome outcome =
      run_line(WREATH_BINARY_DIR "/all_reduce_perf -t 2 -b 8 -e 8 -N 1000000 --time 10 --json " + file +
               " & for i in $(seq 300); do [ -s " + file + " ] && break; sleep 0.1; done; kill -KILL $!; wait $!");
  EXPECT_NE(outcome.exit_code, 0);
  std::ifstream text(file);
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["results"][0]["size"], 8);
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
  refused("--peer gloo", "--peer gloo: give copies, handwritten, nccl or nccl=FILE");
  refused("--peer copies=a", "--peer copies: only nccl takes a file");
  refused("--memory host --peer copies", "--peer copies: needs --memory device, pinned or host-device");
  refused("--memory host-device --peer nccl -d half", "--peer nccl: it is measured with sums of float and bfloat16");
}

}  // namespace
}  // namespace wreath
