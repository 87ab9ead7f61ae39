// gpu_check and gpu_perf: on the host device, over the driver that stands for CUDA's, and out of a bundle.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/processes.hpp"
#include "tests/support/surroundings.hpp"
#include "tests/unit/commands/command.hpp"

namespace wreath {
namespace {

using testing::HasSubstr;
using testing_support::Outcome;
using testing_support::run_line;
using testing_support::run_program;

constexpr const char* kFakeCuda = "LD_LIBRARY_PATH=" WREATH_FAKE_CUDA " ";

nlohmann::json json_in(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file, nullptr, false);
}

// A program that stands for one of those that gpu_check runs.
void put_program(const test::Folder& folder, const std::string& name, const std::string& text) {
  const std::string path = folder.path() + "/" + name;
  std::ofstream(path) << "#!/bin/sh\n" << text << "\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

struct Checked {
  Outcome outcome;
  nlohmann::json json;
};
Checked check(const test::Folder& folder, const std::string& arguments, const std::string& before = "") {
  const std::string file = folder.path() + "/report.json";
  Outcome outcome = run_program("gpu_check --json " + file + " " + arguments, before + kFakeCuda);
  return {std::move(outcome), json_in(file)};
}

TEST(GpuCheck, WithoutAGpuSaysWhyAndExits77) {
  const Outcome none = run_program("gpu_check", kFakeCuda + std::string("FAKE_CUDA_NO_DEVICE=1 "));
  EXPECT_EQ(none.exit_code, 77);
  EXPECT_THAT(none.text, HasSubstr("no GPU here: libcuda.so.1: cuInit: CUDA_ERROR_NO_DEVICE"));
}

TEST(GpuCheck, RefusesAPartThatIsNone) {
  const Outcome wrong = run_program("gpu_check --parts device,colour", kFakeCuda);
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.text, HasSubstr("'colour' is no part: device, streams, "));
}

TEST(GpuCheck, RunsItsPartsAndLeavesOneReport) {
  const test::Folder folder;
  const Checked checked = check(folder, "--parts device,copy");
  EXPECT_EQ(checked.outcome.exit_code, 0) << checked.outcome.text;
  EXPECT_THAT(checked.outcome.text, HasSubstr("2 passed, 0 failed, 0 skipped, 0 not run"));
  ASSERT_FALSE(checked.json.is_discarded());
  EXPECT_EQ(checked.json["format"], "wreath gpu-check 1");
  EXPECT_EQ(checked.json["parts"][0]["name"], "device");
  EXPECT_GT(checked.json["parts"][1]["measured"]["copy"][0]["gb_per_s"], 0) << checked.json;
}

TEST(GpuCheck, NamesWhatFailedAndExits1) {
  const test::Folder folder;
  put_program(folder, "unit_device_test", "echo the last words; exit 3");
  put_program(folder, "conformance_device_test", "exit 0");
  put_program(folder, "conformance_block_executor_test", "kill -SEGV $$");
  const Checked checked = check(folder, "--programs " + folder.path() + " --parts device,streams,executor,copy");
  EXPECT_EQ(checked.outcome.exit_code, 1);
  EXPECT_THAT(checked.outcome.text, HasSubstr("failed: device, executor, copy"));
  EXPECT_THAT(checked.outcome.text, HasSubstr("the last words"));
  const auto& parts = checked.json["parts"];
  EXPECT_EQ(parts[0]["remark"], "exit code 3");
  EXPECT_EQ(parts[1]["result"], "passed");
  EXPECT_EQ(parts[2]["remark"], "ended by signal 11");
  EXPECT_EQ(parts[3]["remark"], "there is no program " + folder.path() + "/gpu_perf");
}

TEST(GpuCheck, EndsAPartThatTakesTooLong) {
  const test::Folder folder;
  put_program(folder, "unit_device_test", "sleep 600");
  put_program(folder, "conformance_device_test", "exit 0");
  const Checked checked = check(folder, "--limit 1 --programs " + folder.path() + " --parts device,streams");
  EXPECT_EQ(checked.outcome.exit_code, 1);
  EXPECT_EQ(checked.json["parts"][0]["remark"], "not done within 1 s");
  EXPECT_EQ(checked.json["parts"][1]["result"], "passed");
}

// What had run is in the report, and no process is left.
TEST(GpuCheck, StopsCleanlyWhenInterrupted) {
  const test::Folder folder;
  const std::string pid = folder.path() + "/pid";
  put_program(folder, "conformance_device_test", "exit 0");
  put_program(folder, "unit_device_test", "echo $$ > " + pid + "; exec sleep 600");
  const std::string line = std::string(kFakeCuda) + WREATH_BINARY_DIR "/gpu_check --json " + folder.path() +
                           "/report.json --programs " + folder.path() +
                           " --parts streams,device,executor & own=$!; while [ ! -s " + pid +
                           " ]; do sleep 0.05; done; kill -INT $own; wait $own";
  const Outcome outcome = run_line(line);
  EXPECT_EQ(outcome.exit_code, 130) << outcome.text;
  const nlohmann::json json = json_in(folder.path() + "/report.json");
  ASSERT_FALSE(json.is_discarded()) << outcome.text;
  EXPECT_EQ(json["parts"][0]["result"], "passed");
  EXPECT_EQ(json["parts"][1]["remark"], "interrupted");
  EXPECT_EQ(json["parts"][2]["result"], "not run");
  EXPECT_NE(run_line("kill -0 $(cat " + pid + ")").exit_code, 0);
}

TEST(GpuCheck, SkipsSanitizersThatAreNotHereAndRunsThoseThatAre) {
  const test::Folder folder;
  put_program(folder, "gpu_perf", "exit 0");
  put_program(folder, "sanitizer", "echo \"$@\" > " + folder.path() + "/seen; exit 1");
  const std::string parts = " --parts memcheck --programs " + folder.path();
  const Checked checked = check(folder, "--sanitizer " + folder.path() + "/sanitizer" + parts);
  EXPECT_EQ(checked.outcome.exit_code, 1) << checked.outcome.text;
  EXPECT_THAT(run_line("cat " + folder.path() + "/seen").text,
              HasSubstr("--tool memcheck --error-exitcode 1 " + folder.path() + "/gpu_perf"));
}

// With nothing of this machine but its C library: no variables, and no libraries from anywhere else.
TEST(GpuCheck, RunsOutOfABundle) {
  if (testing_support::kSanitized) GTEST_SKIP() << "a sanitizer's programs are too large: run it in the preset dev";
  const test::Folder folder;
  const std::string bundle = folder.path() + "/bundle";
  const Outcome made = run_line(WREATH_SOURCE_DIR "/perf/gpu_check/bundle " WREATH_BINARY_DIR " " + bundle);
  ASSERT_EQ(made.exit_code, 0) << made.text;
  const Outcome outcome = run_line("cd / && env -i LD_LIBRARY_PATH=" WREATH_FAKE_CUDA " " + bundle +
                                   "/gpu-check --parts device --json " + bundle + "/report.json");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  EXPECT_THAT(run_line("LD_LIBRARY_PATH=" + bundle + "/lib ldd " + bundle + "/bin/gpu_perf").text,
              HasSubstr("libstdc++.so.6 => " + bundle + "/lib/libstdc++.so.6"));
  EXPECT_EQ(run_line(WREATH_SOURCE_DIR "/perf/gpu_check/bundle " WREATH_BINARY_DIR " " + folder.path()).exit_code, 2);
}

TEST(GpuPerf, RunsAllItsPartsOnTheHostDevice) {
  const test::Folder folder;
  const std::string file = folder.path() + "/all.json";
  const Outcome outcome = run_program("gpu_perf --device host --quick --ranks 2,3 --json " + file);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  const nlohmann::json json = json_in(file);
  ASSERT_FALSE(json.is_discarded());
  for (const char* part : {"copy", "all_reduce", "executors", "graph", "bits"})
    EXPECT_FALSE(json[part].empty()) << part;
  EXPECT_EQ(json["mixed"]["wrong"], 0);
  EXPECT_EQ(json["mixed"]["calls"], 100);
}

TEST(GpuPerf, RefusesADeviceThatIsNone) {
  EXPECT_EQ(run_program("gpu_perf --device gpu").exit_code, 2);
  EXPECT_EQ(run_program("gpu_perf --device cuda:7", kFakeCuda).exit_code, 2);
  EXPECT_EQ(run_program("gpu_perf --device host --quick --json /nonexistent/numbers.json").exit_code, 2);
  EXPECT_EQ(run_program("gpu_perf", kFakeCuda + std::string("FAKE_CUDA_NO_DEVICE=1 ")).exit_code, 77);
}

}  // namespace
}  // namespace wreath
