// Tests gpu_check and gpu_perf: on the host device, over the driver that stands for CUDA's, and out of a bundle.
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
using testing_support::kFakeCuda;
using testing_support::Outcome;
using testing_support::run_line;
using testing_support::run_program;

nlohmann::json json_in(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file, nullptr, false);
}

// Writes a shell script that stands for one of the programs that gpu_check runs.
void put_program(const test::Folder& folder, const std::string& name, const std::string& text) {
  const std::string path = folder.path() + "/" + name;
  std::ofstream(path) << "#!/bin/sh\n" << text << "\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

// Writes scripts that stand for perf tools with --peer. Each writes one row of 256 MiB for the ranks of -t, and goes on
// with `text`.
void put_perf_tools(const test::Folder& folder, const std::string& text) {
  for (const std::string tool : {"all_reduce_perf", "reduce_scatter_perf", "all_gather_perf"}) {
    put_program(folder, tool,
                "tool=" + tool + R"(; ranks=$2; while [ "$1" != --json ]; do shift; done; cat > "$2" <<TEXT
{"results": [{"size": 268435456, "type": "float", "out_of_place": {"time": 20, "nwrong": 0},
  "wreath": {"plan": {"text": "ring x", "algorithm": "two_shot"}, "peer": {"time": 30, "ratio": 1.5, "plan": "NCCL 2.30.7"}}}],
 "wreath": {"tool": "$tool", "ranks": $ranks}}
TEXT
)" + text);
  }
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
  EXPECT_EQ(checked.json["format"], "wreath gpu-check 2");
  EXPECT_EQ(checked.json["counts"]["passed"], 2);
  EXPECT_EQ(checked.json["note"], "one GPU: the peer path is exercised, NVLink bandwidth is not");
  EXPECT_EQ(checked.json["parts"][0]["name"], "device");
  EXPECT_GT(checked.json["parts"][1]["measured"]["copy"][0]["gb_per_s"], 0) << checked.json;
  EXPECT_EQ(checked.json["parts"][1]["measured"]["copy"].size(), 9U) << checked.json;
  EXPECT_EQ(checked.json["parts"][1]["measured"]["card"], "fake");
}

// The report shows the targets of all programs in one table, and what they could not run in another.
TEST(GpuCheck, ShowsTargetsAndWhatCouldNotBeRun) {
  const test::Folder folder;
  put_program(folder, "sanitizer", "exit 0");
  put_program(folder, "gpu_perf", R"(
while [ "$1" != --json ]; do [ "$2" = graph ] && code=77; shift; done
cat > "$2" <<TEXT
{"card": "a card", "failed": [],
 "graph": [{"ranks": 8, "bytes": 8, "calls": 100, "low_latency": true, "us": 7.5},
           {"ranks": 8, "bytes": 8, "calls": 100, "low_latency": false, "us": 300}],
 "mixed": [{"ranks": 8, "calls": 10000, "streams": 2, "low_latency": false, "wrong": 0}],
 "bits": [{"differing_bytes": 1}, {"differing_bytes": 2}],
 "skipped": [{"part": "x", "what": "the largest", "why": "no memory"}, {"what": "another", "why": "no memory"}]}
TEXT
exit $code)");
  const Checked checked = check(folder, "--parts mixed,graph,bits,memcheck --sanitizer " + folder.path() +
                                            "/sanitizer --programs " + folder.path());
  EXPECT_EQ(checked.outcome.exit_code, 0) << checked.outcome.text;
  for (const char* line :
       {"10000 calls on 8 ranks in 2 streams each, by steps +<= 0 +0 +yes +elements wrong",
        "8 bytes, 8 ranks, a graph of 100 +<= 6 +7.5 +NO +us", "the CPU's bits, of what ran +<= 0 +3 +NO +bytes differ",
        "memcheck +compute-sanitizer memcheck +clean +passed +yes", "mixed +the largest and 1 more: no memory",
        "graph +all of it: no memory", "bandwidth between GPUs: all parts use one GPU"}) {
    EXPECT_THAT(checked.outcome.text, testing::ContainsRegex(line));
  }
  const auto& targets = checked.json["targets"];
  EXPECT_EQ(targets[0]["part"], "mixed");
  EXPECT_EQ(targets[0]["card"], "a card");
  EXPECT_EQ(targets[1]["reached"], false);
  EXPECT_EQ(checked.json["skipped"][0]["what"], "the largest");
  EXPECT_EQ(checked.json["parts"][1]["remark"], "no memory");
}

// A part that is ended leaves what it had measured.
TEST(GpuCheck, KeepsWhatAPartMeasuredBeforeItsTimeWasOver) {
  const test::Folder folder;
  put_program(folder, "gpu_perf",
              R"(while [ "$1" != --json ]; do shift; done; echo '{"graph": [{"bytes": 8}]}' > "$2"; sleep 600)");
  put_perf_tools(folder, "sleep 600");
  const Checked checked = check(folder, "--limit 1 --programs " + folder.path() + " --parts graph,copy");
  EXPECT_EQ(checked.json["parts"][0]["remark"], "not done within 1 s");
  EXPECT_EQ(checked.json["parts"][0]["measured"]["graph"][0]["bytes"], 8);
  EXPECT_EQ(checked.json["parts"][1]["remark"], "not done within 1 s");
  EXPECT_EQ(checked.json["parts"][1]["measured"]["copy"][0]["us"], 30);
}

// A part in turns runs a perf tool for each number of ranks, and its rows have the same keys as ever.
TEST(GpuCheck, MakesThePartsOfRunsInTurns) {
  const test::Folder folder;
  put_perf_tools(folder, "[ $CUDA_VISIBLE_DEVICES = 3 ]");
  const Checked checked =
      check(folder, "--parts all_reduce,executors,nccl_beside --nccl a/lib --programs " + folder.path(),
            "CUDA_VISIBLE_DEVICES=3,4 ");
  EXPECT_EQ(checked.outcome.exit_code, 0) << checked.outcome.text;
  const auto& parts = checked.json["parts"];
  EXPECT_EQ(parts[0]["measured"]["all_reduce"].size(), 9U);
  EXPECT_EQ(parts[0]["measured"]["all_reduce"][2], nlohmann::json({{"ranks", 4},
                                                                   {"dtype", "float32"},
                                                                   {"bytes", 268435456},
                                                                   {"us", 20},
                                                                   {"gb_per_s", 8 * 268435456.0 / 20 / 1e3},
                                                                   {"copy_gb_per_s", 268435456 / 30.0 / 1e3},
                                                                   {"of_copies", 12},
                                                                   {"wrong", 0}}));
  EXPECT_EQ(parts[1]["measured"]["executors"].size(), 12U);
  EXPECT_EQ(parts[1]["measured"]["executors"][9]["collective"], "all_gather");
  EXPECT_NEAR(parts[1]["measured"]["executors"][9]["steps_to_handwritten"], 2 / 3.0, 1e-9);
  EXPECT_EQ(parts[2]["measured"]["nccl_beside"][0]["nccl"], "2.30.7");
  EXPECT_EQ(parts[2]["measured"]["nccl_beside"][0]["nccl_to_ours"], 1.5);
  EXPECT_THAT(parts[2]["command"].get<std::string>(), HasSubstr(" --peer nccl=a/lib "));
  const auto& targets = checked.json["targets"];
  EXPECT_EQ(targets[0]["what"], "float32, 2 ranks, 256M");
  EXPECT_EQ(targets[0]["reached"], true);
  EXPECT_EQ(targets[9]["what"], "64 MiB and more, the worst: all_reduce two_shot, 2 ranks, 256M");
}

// A size for which the GPU has no memory is no failure, and wrong results are one.
TEST(GpuCheck, TellsALackOfMemoryFromWrongResults) {
  const test::Folder folder;
  put_perf_tools(folder, "[ $ranks != 8 ] || { echo wreath: error: CUDA_ERROR_OUT_OF_MEMORY; exit 6; }");
  const std::string all = "--parts all_reduce --programs " + folder.path();
  const Checked lacking = check(folder, all);
  EXPECT_EQ(lacking.outcome.exit_code, 0) << lacking.outcome.text;
  EXPECT_EQ(lacking.json["skipped"][0]["why"], "CUDA_ERROR_OUT_OF_MEMORY");
  put_perf_tools(folder, "[ $ranks != 4 ]");
  const Checked wrong = check(folder, all);
  EXPECT_EQ(wrong.outcome.exit_code, 1) << wrong.outcome.text;
  EXPECT_EQ(wrong.json["parts"][0]["remark"], "exit code 1");
  EXPECT_EQ(wrong.json["parts"][0]["measured"]["all_reduce"].size(), 9U) << "the others have run";
}

TEST(GpuCheck, FindsTheSanitizerInPath) {
  const test::Folder folder;
  put_program(folder, "gpu_perf", "exit 0");
  put_program(folder, "compute-sanitizer", "echo \"$@\" > " + folder.path() + "/seen");
  const Checked checked =
      check(folder, "--parts racecheck --programs " + folder.path(), "PATH=" + folder.path() + ":$PATH ");
  EXPECT_EQ(checked.outcome.exit_code, 0) << checked.outcome.text;
  EXPECT_EQ(checked.json["compute_sanitizer"], folder.path() + "/compute-sanitizer");
  EXPECT_THAT(run_line("cat " + folder.path() + "/seen").text, HasSubstr("--tool racecheck"));
}

// Kernels that wait for each other need a queue each, and must be loaded before any of them waits.
TEST(GpuCheck, GivesWhatItRunsCudasVariables) {
  const test::Folder folder;
  put_program(folder, "unit_device_test", "[ \"$CUDA_DEVICE_MAX_CONNECTIONS $CUDA_MODULE_LOADING\" = '32 EAGER' ]");
  const Checked checked = check(folder, "--parts device --programs " + folder.path());
  EXPECT_EQ(checked.outcome.exit_code, 0) << checked.outcome.text;
}

TEST(GpuCheck, NamesWhatFailedAndExits1) {
  const test::Folder folder;
  put_program(folder, "unit_device_test",
              "for i in 0 1; do echo \"wreath: warning: rank $i (host h, pid 7): slow: a\"; done; "
              "echo 'wreath: warning: host h, pid 7: b'; echo the last words; exit 3");
  put_program(folder, "conformance_device_test", "exit 0");
  put_program(folder, "nccl_device_test", "kill -SEGV $$");
  const Checked checked = check(folder, "--programs " + folder.path() + " --parts device,streams,nccl,copy");
  EXPECT_EQ(checked.outcome.exit_code, 1);
  EXPECT_THAT(checked.outcome.text, HasSubstr("failed: device, nccl, copy"));
  EXPECT_THAT(checked.outcome.text, HasSubstr("the last words"));
  const auto& parts = checked.json["parts"];
  EXPECT_EQ(parts[0]["remark"], "exit code 3");
  EXPECT_EQ(parts[0]["warnings"], nlohmann::json({"warning: slow: a", "warning: b"}));
  EXPECT_EQ(parts[1]["result"], "passed");
  EXPECT_EQ(parts[2]["remark"], "ended by signal 11");
  EXPECT_EQ(parts[3]["remark"], "there is no program " + folder.path() + "/all_reduce_perf");
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

// The report has the parts that had run, and no process is left.
TEST(GpuCheck, StopsCleanlyWhenInterrupted) {
  const test::Folder folder;
  const std::string pid = folder.path() + "/pid";
  put_program(folder, "conformance_device_test", "exit 0");
  put_program(folder, "unit_device_test", "echo $$ > " + pid + "; exec sleep 600");
  const std::string line = std::string(kFakeCuda) + WREATH_BINARY_DIR "/gpu_check --json " + folder.path() +
                           "/report.json --programs " + folder.path() +
                           " --parts streams,device,nccl & own=$!; while [ ! -s " + pid +
                           " ] && kill -0 $own; do sleep 0.05; done; kill -INT $own; wait $own";
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

// The bundle gets nothing of this machine but its C library and the fake driver: no other variables, and no other
// libraries.
TEST(GpuCheck, RunsOutOfABundle) {
  if (testing_support::kSanitized) GTEST_SKIP() << "a sanitizer's programs are too large: run it in the preset dev";
  const test::Folder folder;
  const std::string bundle = folder.path() + "/bundle";
  const Outcome made = run_line(WREATH_SOURCE_DIR "/perf/gpu_check/bundle " WREATH_BINARY_DIR " " + bundle);
  ASSERT_EQ(made.exit_code, 0) << made.text;
  const Outcome outcome = run_line("cd / && env -i LD_LIBRARY_PATH=" WREATH_FAKE_CUDA " " + bundle +
                                   "/gpu-check --parts device --json " + bundle + "/report.json");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  // The programs find their libraries by themselves, whatever the variables say.
  for (const std::string program : {"gpu_perf", "nccl_device_test"}) {
    const std::string text = run_line("ldd " + bundle + "/bin/" + program).text;
    EXPECT_THAT(text, HasSubstr(" => " + bundle + "/bin/../lib/lib"));
    EXPECT_THAT(text, testing::Not(testing::ContainsRegex("lib(fmt|sodium|hwloc|nccl)[^=\n]*=> /(usr|lib)")));
  }
  for (const char* library : {"libstdc++.so.6", "libgcc_s.so.1"}) {
    EXPECT_TRUE(std::filesystem::exists(bundle + "/lib/compiler/" + library)) << library;
  }
  EXPECT_THAT(made.text, testing::ContainsRegex("bytes \\([0-9]+ MiB of 60\\), needs GLIBC_2"));
  EXPECT_EQ(run_line(WREATH_SOURCE_DIR "/perf/gpu_check/bundle " WREATH_BINARY_DIR " " + folder.path()).exit_code, 2);
}

TEST(GpuPerf, RunsAllItsPartsOnTheHostDevice) {
  const test::Folder folder;
  const std::string file = folder.path() + "/all.json";
  const Outcome outcome = run_program("gpu_perf --memory host-device --quick --ranks 2,3 --json " + file);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  const nlohmann::json json = json_in(file);
  ASSERT_FALSE(json.is_discarded());
  for (const char* part : {"graph", "bits"}) EXPECT_FALSE(json[part].empty()) << part;
  EXPECT_EQ(json["mixed"].size(), 2U);
  for (const auto& row : json["mixed"]) {
    EXPECT_EQ(row["wrong"], 0) << row;
    EXPECT_EQ(row["calls"], 100) << row;
  }
  EXPECT_EQ(json["failed"].size(), 0U);
  EXPECT_EQ(json["skipped"].size(), 0U);
}

// The result has both ways of small calls and the parts of a call's time, and sums are checked.
TEST(GpuPerf, PricesSmallCalls) {
  const test::Folder folder;
  const std::string file = folder.path() + "/graph.json";
  const Outcome outcome = run_program("gpu_perf --memory host-device --quick --ranks 2 --parts graph --json " + file);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  const nlohmann::json json = json_in(file);
  ASSERT_FALSE(json.is_discarded());
  ASSERT_EQ(json["graph"].size(), 14U);
  const auto& first = json["graph"][0];
  EXPECT_EQ(first["low_latency"], true);
  EXPECT_EQ(first["plan"], "one_shot protocol=LL");
  EXPECT_GT(first["empty_launch_us"], 0);
  EXPECT_GT(first["parts"]["flag_flight_us"], 0);
  EXPECT_EQ(json["graph"][13]["low_latency"], false);
}

// No machine does all of these within a second, and every piece is short.
TEST(GpuPerf, ListsWhatItHadNoTimeFor) {
  std::string ranks = "2";
  for (int more = 3; more <= 16; ++more) ranks += "," + std::to_string(more);
  const test::Folder folder;
  const std::string file = folder.path() + "/late.json";
  const Outcome outcome = run_program("gpu_perf --memory host-device --ranks " + ranks +
                                      " --parts bits --low-latency off --budget 1 --json " + file);
  const nlohmann::json json = json_in(file);
  ASSERT_FALSE(json.is_discarded()) << outcome.text;
  ASSERT_FALSE(json["skipped"].empty()) << outcome.text;
  EXPECT_THAT(json["skipped"].back()["why"].get<std::string>(), HasSubstr("the 1 s that it may take are over"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
}

TEST(GpuPerf, RefusesMemoryThatIsNone) {
  EXPECT_EQ(run_program("gpu_perf --memory gpu").exit_code, 2);
  EXPECT_EQ(run_program("gpu_perf --memory host-device --quick --json /nonexistent/numbers.json").exit_code, 2);
  EXPECT_EQ(run_program("gpu_perf", kFakeCuda + std::string("FAKE_CUDA_NO_DEVICE=1 ")).exit_code, 77);
}

}  // namespace
}  // namespace wreath
