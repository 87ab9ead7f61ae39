// Checks the rules of CONTRIBUTING.md that a machine can check: includes, lengths, first lines and words.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <optional>
#include <regex>
#include <string_view>

#include "tests/style/source_tree.hpp"

namespace wreath {
namespace {

const std::vector<std::string> kSources = {".c", ".h", ".cpp", ".hpp", ".cu", ".cuh"};

// The prefixes of the project's own headers that a folder may include. The longest matching folder decides. A prefix
// that ends in "/." means the headers in that folder, without those of folders in it. A header may always be included
// from its own folder.
struct Layer {
  std::string_view folder;
  std::vector<std::string_view> allowed;
};

// The headers that training/compute shows to others. Their functions compute where their buffers lie, in host memory or
// on a device. Its other headers and its kernels are private.
constexpr std::string_view kComputeSeam[] = {
    "training/compute/attention.hpp",      "training/compute/compute.hpp", "training/compute/convert.hpp",
    "training/compute/cross_entropy.hpp",  "training/compute/layers.hpp",  "training/compute/magnitudes.hpp",
    "training/compute/matrix_product.hpp", "training/compute/memory.hpp",  "training/compute/optimizer_steps.hpp",
    "training/compute/threads.hpp",
};

// Returns a row for a folder that includes the headers of kComputeSeam and the folders `beside` them.
Layer over_compute(std::string_view folder, std::vector<std::string_view> beside) {
  beside.insert(beside.end(), std::begin(kComputeSeam), std::end(kComputeSeam));
  return {folder, std::move(beside)};
}

// Returns such a row for one of training's parallelisms, which must not include each other.
Layer parallelism(std::string_view folder) {
  return over_compute(
      folder, {"wreath/", "src/base/planted_fault.hpp", "training/random/", "training/mesh/", "training/parameters/"});
}

// Returns such a row for a program that trains. It may include kComputeSeam and all other folders of training.
Layer over_training(std::string_view folder, std::vector<std::string_view> beside) {
  beside.insert(beside.end(),
                {"training/strategies.hpp", "training/checkpoint/", "training/context_parallel/", "training/elastic/",
                 "training/mesh/", "training/optimizer/", "training/parameters/", "training/pipeline/",
                 "training/precision/", "training/random/", "training/tensor_parallel/"});
  return over_compute(folder, std::move(beside));
}

// Returns the rows of the library, its bindings and its tests.
std::vector<Layer> library_layers() {
  return {
      {"include/", {"wreath/"}},
      {"algorithms/", {"wreath/", "algorithms/"}},
      {"transports/", {"wreath/", "src/base/", "src/fifo/"}},
      {"transports/ofi/", {"wreath/", "src/base/", "src/put/", "src/topology/"}},
      {"transports/verbs/", {"wreath/", "src/base/", "src/put/", "src/topology/"}},
      {"kernels/", {"wreath/", "kernels/", "src/base/"}},
      {"src/base/", {"wreath/"}},
      {"src/json/", {"wreath/"}},
      {"src/command_line/", {"wreath/", "src/base/"}},
      {"src/page/", {}},
      {"src/process/", {"wreath/", "src/base/"}},
      {"src/fifo/", {"wreath/", "src/base/"}},
      {"src/fifo/wire/", {"wreath/", "src/base/", "src/fifo/."}},
      {"src/put/", {"wreath/", "src/base/", "src/fifo/"}},
      {"src/device/", {"wreath/", "src/base/"}},
      {"src/device/cuda/", {"wreath/", "src/base/", "src/device/.", "src/topology/nvml.hpp"}},
      {"src/device/owners/", {"wreath/", "src/device/.", "src/device/cuda/"}},
      {"src/device/off/", {"wreath/", "src/device/.", "src/device/runs/device_parts.hpp"}},
      {"src/bootstrap/", {"wreath/", "src/base/"}},
      {"src/recorder/", {"wreath/", "src/base/", "src/json/"}},
      {"src/schedule/", {"wreath/", "src/base/"}},
      {"src/topology/", {"wreath/", "src/base/", "src/topology/"}},
      {"src/tuner/", {"wreath/", "src/base/", "src/json/", "src/schedule/"}},
      {"src/executor/", {"wreath/", "src/base/", "src/fifo/", "src/schedule/", "kernels/kernels.hpp"}},
      {"src/executor/handwritten/", {"wreath/", "src/base/", "src/fifo/", "src/schedule/", "src/executor/."}},
      {"src/executor/block/",
       {"wreath/", "src/base/", "src/fifo/", "src/schedule/", "src/executor/.", "src/executor/handwritten/",
        "kernels/"}},
      {"src/membership/", {"wreath/", "src/base/", "src/bootstrap/", "src/fifo/"}},
      {"src/engine/",
       {"wreath/", "src/base/", "src/json/", "src/bootstrap/", "src/fifo/", "src/schedule/", "src/recorder/",
        "src/tuner/", "src/executor/", "src/membership/", "kernels/kernels.hpp"}},
      {"src/device/runs/",
       {"wreath/", "src/base/", "src/fifo/", "src/schedule/", "src/recorder/", "src/executor/", "src/membership/",
        "src/engine/", "src/device/.", "kernels/kernels.hpp"}},
      {"src/communicator/",
       {"wreath/", "src/base/", "src/bootstrap/", "src/json/", "src/fifo/", "src/schedule/geometry.hpp",
        "src/recorder/", "src/tuner/", "src/executor/", "src/membership/", "src/engine/", "src/device/.",
        "src/device/runs/device_parts.hpp"}},
  };
}

// Returns the rows of the measuring programs and the command, which use the library.
std::vector<Layer> program_layers() {
  return {
      {"bindings/", {"wreath/"}},
      // NCCL's variables stand in the library's own table of settings.
      {"bindings/nccl/",
       {"wreath/", "bindings/nccl/", "src/base/config.hpp", "src/base/log.hpp", "src/base/text_file.hpp"}},
      {"bindings/torch/", {"wreath/", "bindings/torch/"}},
      {"perf/",
       {"wreath/", "perf/base/", "perf/common/", "perf/limits/", "src/command_line/", "src/json/",
        "src/base/text_file.hpp"}},
      // Results are compared with the scalar reference, and kernels measure the way of small all_reduces.
      {"perf/base/",
       {"wreath/", "kernels/kernels.hpp", "kernels/block/flagged_word.hpp", "src/base/memory_order.hpp",
        "src/base/printable.hpp"}},
      // This folder measures what the machine allows, with the clocks and kernels that the engine itself uses.
      {"perf/limits/", {"wreath/", "perf/base/", "src/command_line/", "src/base/", "src/json/", "kernels/kernels.hpp"}},
      {"perf/common/",
       {"wreath/", "perf/base/", "perf/limits/", "src/command_line/", "src/process/", "src/json/",
        "src/base/available_memory.hpp", "src/base/config.hpp", "src/page/", "src/base/printable.hpp",
        "src/base/text_file.hpp"}},
      {"perf/check/", {"wreath/", "perf/base/", "perf/common/", "src/command_line/", "src/base/available_memory.hpp"}},
      {"perf/compare/",
       {"wreath/", "perf/base/", "perf/common/", "perf/limits/", "src/command_line/", "src/process/", "src/json/",
        "src/page/", "src/base/text_file.hpp"}},
      {"perf/tune/", {"wreath/", "perf/base/", "perf/common/", "perf/limits/", "src/command_line/"}},
      {"perf/peers/", {"wreath/", "perf/common/"}},
      {"perf/gpu_perf/", {"wreath/", "perf/base/", "src/command_line/", "src/json/", "src/base/text_file.hpp"}},
      over_compute("perf/micro/", {"wreath/", "perf/limits/", "src/", "kernels/", "transports/"}),
      {"tools/",
       {"wreath/", "tools/doctor/", "tools/run/", "tools/topo/", "perf/tune/", "src/command_line/", "src/json/",
        "src/base/config.hpp", "src/base/printable.hpp", "src/base/text_file.hpp"}},
      {"tools/topo/", {"wreath/", "src/json/", "src/page/"}},
      // This folder lets ranks meet by the library's own rules and variables.
      {"tools/run/", {"wreath/", "src/base/", "src/bootstrap/interfaces.hpp", "src/json/", "src/process/"}},
      // This folder uses the library's own readers of the machine and of the settings.
      {"tools/doctor/",
       {"wreath/", "tools/topo/", "src/base/", "src/bootstrap/", "src/command_line/", "src/json/", "src/topology/"}},
      {"tools/doctor/nccl/", {"wreath/", "src/base/", "src/json/", "src/process/", "src/topology/kernel_files.hpp"}},
      {"tests/",
       {"wreath/", "src/", "kernels/", "transports/", "algorithms/", "tests/", "perf/", "tools/", "training/",
        "examples/train_gpt/"}},
  };
}

// Returns the rows of training, and of the programs that train or show the library.
std::vector<Layer> training_layers() {
  return {
      {"training/random/", {"wreath/"}},
      {"training/compute/kernels/", {"wreath/", "training/random/"}},
      {"training/compute/", {"wreath/", "training/random/", "training/compute/kernels/"}},
      over_compute("training/mesh/", {"wreath/"}),
      over_compute("training/parameters/", {"wreath/", "training/random/", "training/mesh/"}),
      parallelism("training/data_parallel/"),
      parallelism("training/zero/"),
      parallelism("training/tensor_parallel/"),
      parallelism("training/context_parallel/"),
      parallelism("training/pipeline/"),
      over_compute("training/precision/", {"wreath/", "training/mesh/", "training/parameters/"}),
      over_compute("training/optimizer/", {"wreath/", "training/mesh/", "training/parameters/"}),
      over_compute("training/checkpoint/", {"wreath/", "src/base/planted_fault.hpp", "training/mesh/",
                                            "training/parameters/", "training/optimizer/"}),
      {"training/elastic/", {"wreath/", "training/checkpoint/"}},
      // This file makes the strategy that a program names: it is the one place that includes all of them.
      over_compute("training/strategies.", {"wreath/", "training/strategies.hpp", "training/mesh/",
                                            "training/parameters/", "training/data_parallel/", "training/zero/"}),
      {"examples/", {"wreath/"}},
      over_training("examples/train_gpt/", {"wreath/", "examples/train_gpt/"}),
      {"examples/train_gpt/main.cpp", {"wreath/", "examples/train_gpt/", "src/command_line/"}},
      over_training("examples/train_gpt/run/",
                    {"wreath/", "examples/train_gpt/", "src/command_line/", "src/page/", "src/process/",
                     "src/base/available_memory.hpp", "src/base/text_file.hpp"}),
  };
}

const std::vector<Layer>& layers() {
  static const std::vector<Layer> table = [] {
    std::vector<Layer> all = library_layers();
    std::ranges::copy(program_layers(), std::back_inserter(all));
    std::ranges::copy(training_layers(), std::back_inserter(all));
    return all;
  }();
  return table;
}

const Layer* layer_of(const std::string& path) {
  const Layer* longest = nullptr;
  for (const Layer& layer : layers()) {
    const bool matches = path.starts_with(layer.folder);
    if (matches && (longest == nullptr || layer.folder.size() > longest->folder.size())) longest = &layer;
  }
  return longest;
}

// Returns the path in `#include "..."`, or nullopt.
std::optional<std::string> included(const std::string& line) {
  const std::size_t first = line.find_first_not_of(" \t");
  if (first == std::string::npos || line.compare(first, 8, "#include") != 0) return std::nullopt;
  const std::size_t open = line.find('"');
  const std::size_t close = line.rfind('"');
  if (open == std::string::npos || close == open) return std::nullopt;
  return line.substr(open + 1, close - open - 1);
}

bool allowed(const SourceFile& file, const std::string& header) {
  const auto folder_of = [](const std::string& path) { return path.substr(0, path.rfind('/') + 1); };
  if (folder_of(header) == folder_of(file.path)) return true;
  // Users write it this way.
  if (file.path.starts_with("examples/") && header.find('/') == std::string::npos) return true;
  const Layer* layer = layer_of(file.path);
  return layer != nullptr && std::any_of(layer->allowed.begin(), layer->allowed.end(), [&](std::string_view prefix) {
           const bool alone = prefix.ends_with("/.");
           if (alone) return folder_of(header) + '.' == prefix;
           return header.starts_with(prefix);
         });
}

std::string at(const SourceFile& file, std::size_t line) { return file.path + ":" + std::to_string(line + 1); }

TEST(Style, FoldersIncludeInOneDirection) {
  for (const SourceFile& file : source_files(kSources)) {
    ASSERT_NE(layer_of(file.path), nullptr) << file.path << ": its folder is not in the table of tests/style";
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const std::optional<std::string> header = included(file.lines[i]);
      if (header) {
        EXPECT_TRUE(allowed(file, *header)) << at(file, i) << ": may not include " << *header;
      }
    }
  }
}

TEST(Style, TheTableTellsWrongIncludesFromRightOnes) {
  const auto ask = [](const char* path, const char* header) { return allowed(SourceFile{path, {}}, header); };
  EXPECT_TRUE(ask("algorithms/all_reduce/ring.cpp", "wreath/schedule.hpp"));
  EXPECT_FALSE(ask("algorithms/all_reduce/ring.cpp", "transports/registry.hpp"));
  EXPECT_FALSE(ask("transports/tcp/tcp.cpp", "transports/shm/shm.hpp"));
  EXPECT_TRUE(ask("transports/tcp/tcp.cpp", "transports/tcp/wire.hpp"));
  EXPECT_FALSE(ask("src/base/log.cpp", "src/recorder/recorder.hpp"));
  EXPECT_FALSE(ask("src/membership/shrink.cpp", "src/engine/engine.hpp"));
  EXPECT_TRUE(ask("src/device/cuda/driver.cpp", "src/device/check_copy.hpp"));
  EXPECT_FALSE(ask("src/device/memory_checks.cpp", "src/device/cuda/platform.hpp"));
  EXPECT_FALSE(ask("src/device/cuda/driver.cpp", "src/device/runs/lane_grid.hpp"));
  EXPECT_FALSE(ask("src/executor/host.cpp", "src/executor/handwritten/handwritten.hpp"));
  EXPECT_FALSE(ask("perf/all_reduce_perf.cpp", "src/engine/engine.hpp"));
  EXPECT_FALSE(ask("perf/limits/shm.cpp", "perf/common/run.hpp"));
  EXPECT_FALSE(ask("perf/base/sizes.cpp", "perf/limits/shm.hpp"));
  EXPECT_FALSE(ask("tools/topo/parts.cpp", "tools/doctor/findings.hpp"));
  EXPECT_FALSE(ask("examples/01_hello_all_reduce/main.cpp", "src/base/fd.hpp"));
  EXPECT_TRUE(ask("training/zero/fully_sharded.cpp", "training/parameters/layout.hpp"));
  EXPECT_FALSE(ask("training/zero/fully_sharded.cpp", "training/data_parallel/bucket_reducer.hpp"));
  EXPECT_TRUE(ask("training/tensor_parallel/linear.cpp", "training/compute/layers.hpp"));
  EXPECT_FALSE(ask("training/tensor_parallel/linear.cpp", "training/compute/kernels/kernels.hpp"));
  EXPECT_EQ(layer_of("somewhere/else.cpp"), nullptr);
  EXPECT_EQ(included("#include \"a/b.hpp\"  // why"), "a/b.hpp");
  EXPECT_EQ(included("#include <vector>"), std::nullopt);
}

constexpr const char* kScripts[] = {"run", "cmake/set_up", "tests/stages", ".ci/run"};

TEST(Style, NoFileIsLongerThan500Lines) {
  std::vector<SourceFile> files = source_files(kSources);
  for (const char* path : kScripts) files.push_back(source_file(path));
  for (const SourceFile& file : files) EXPECT_LE(file.lines.size(), 500u) << file.path;
}

TEST(Style, EveryHeaderIsIncludedOnce) {
  for (const SourceFile& file : source_files({".h", ".hpp", ".cuh"})) {
    EXPECT_NE(std::find(file.lines.begin(), file.lines.end(), "#pragma once"), file.lines.end()) << file.path;
  }
}

TEST(Style, EveryFileStartsBySayingWhatItIs) {
  for (const SourceFile& file : source_files(kSources)) {
    ASSERT_FALSE(file.lines.empty()) << file.path;
    EXPECT_TRUE(file.lines.front().starts_with("// ") && file.lines.front().size() > 10) << file.path;
  }
}

// Some files besides the table of settings read the environment. Programs ask what started them or look for tools in
// PATH, and one file runs inside the system's loader.
constexpr std::string_view kReadsEnvironment[] = {"src/base/config.cpp", "src/base/planted_fault.hpp",
                                                  "perf/common/run.cpp", "bindings/nccl/audit/audit.c",
                                                  "examples/",           "tests/"};

TEST(Style, OnlyTheTableOfSettingsReadsTheEnvironment) {
  for (const SourceFile& file : source_files(kSources)) {
    const bool may = std::any_of(std::begin(kReadsEnvironment), std::end(kReadsEnvironment),
                                 [&](std::string_view path) { return file.path.starts_with(path); });
    const std::vector<std::string> code = code_of(file);
    for (std::size_t i = 0; i < code.size() && !may; ++i) {
      EXPECT_EQ(code[i].find("getenv("), std::string::npos) << at(file, i) << ": use src/base/config.hpp";
    }
  }
}

// The project's text must not hold these words. They are split here so that this file does not hold them either. Tests
// may name folders to say that output has none of them.
const std::vector<std::string> kUnfinished = {std::string("TO") + "DO", std::string("FIX") + "ME",
                                              std::string("/wor") + "k/"};
const std::vector<std::string> kFoldersOfMachines = {std::string("/ho") + "me/", std::string("/ro") + "ot/"};

bool holds_any(const std::string& line, const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string& word) { return line.find(word) != std::string::npos; });
}

TEST(Style, NoUnfinishedBusinessAndNoPathsOfOneMachine) {
  std::vector<SourceFile> files =
      source_files({".c", ".h", ".cpp", ".hpp", ".cu", ".cuh", ".txt", ".md", ".sh", ".py"});
  for (const char* path : kScripts) files.push_back(source_file(path));
  for (const char* path : {"CMakeLists.txt", "CMakePresets.json", "CONTRIBUTING.md", "CHANGELOG.md"}) {
    files.push_back(source_file(path));
  }
  for (const SourceFile& file : files) {
    const bool is_test = file.path.starts_with("tests/");
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      EXPECT_FALSE(holds_any(file.lines[i], kUnfinished)) << at(file, i) << ": " << file.lines[i];
      EXPECT_FALSE(!is_test && holds_any(file.lines[i], kFoldersOfMachines)) << at(file, i) << ": " << file.lines[i];
    }
  }
}

// Preprocessor conditions belong between functions. Inside one they are indented or stand between braces.
TEST(Style, NoConditionalCompilationInsideFunctions) {
  for (const SourceFile& file : source_files(kSources)) {
    const std::vector<std::string> code = code_of(file);
    for (std::size_t i = 0; i < code.size(); ++i) {
      EXPECT_FALSE(code[i].starts_with(" ") && code[i].find("#if") == code[i].find_first_not_of(' ') &&
                   code[i].find("#if") != std::string::npos)
          << at(file, i);
    }
  }
}

struct Function {
  std::size_t first;  // line of its opening brace
  std::size_t lines;
};

// Returns whether an opening brace begins a function's body, and not a namespace, a type or a table. `before` is the
// text between the brace and the end of the previous statement.
bool opens_function(const std::string& before) {
  for (const std::string_view word : {"namespace", "struct ", "class ", "enum ", "union ", "extern "}) {
    if (before.find(word) != std::string::npos && before.find(") {") == std::string::npos &&
        before.find(')') == std::string::npos)
      return false;
  }
  return before.find(')') != std::string::npos;
}

// Returns whether line `i` is a preprocessor directive or continues one.
bool is_preprocessor(const std::vector<std::string>& code, std::size_t i) {
  while (i > 0 && code[i - 1].ends_with("\\")) --i;
  return code[i].starts_with("#");
}

// Returns the outermost function bodies, which it finds by counting braces.
std::vector<Function> functions_of(const std::vector<std::string>& code) {
  std::vector<Function> functions;
  std::string before;
  // The number of braces open inside the present function; 0 means outside.
  int body_depth = 0;
  std::size_t first = 0;
  for (std::size_t i = 0; i < code.size(); ++i) {
    if (is_preprocessor(code, i)) continue;
    for (const char c : code[i]) {
      if (body_depth > 0) {
        body_depth += c == '{' ? 1 : c == '}' ? -1 : 0;
        if (body_depth == 0) functions.push_back({first, i - first + 1});
      } else if (c == '{' && opens_function(before)) {
        body_depth = 1;
        first = i;
      }
      before = c == ';' || c == '{' || c == '}' ? std::string() : before + c;
    }
    before += ' ';
  }
  return functions;
}

TEST(Style, NoFunctionIsLongerThan60Lines) {
  for (const SourceFile& file : source_files(kSources)) {
    for (const Function& function : functions_of(code_of(file))) {
      EXPECT_LE(function.lines, 60u) << at(file, function.first);
    }
  }
}

TEST(Style, TheCounterOfLinesFindsFunctions) {
  SourceFile file{"x.cpp",
                  {"namespace a {", "struct B {", "  int f() const {", "    if (x) {  // }", "    }", "    return '}';",
                   "  }", "};", "const char* s = \"{\";", "int g(", "    int a) {", "}", "}"}};
  const std::vector<Function> functions = functions_of(code_of(file));
  ASSERT_EQ(functions.size(), 2u);
  EXPECT_EQ(functions[0].first, 2u);
  EXPECT_EQ(functions[0].lines, 5u);
  EXPECT_EQ(functions[1].first, 10u);
  EXPECT_EQ(functions[1].lines, 2u);
}

// The reader of a skipped test's message learns what would make the test run.
TEST(Style, EveryTestThatIsSkippedSaysWhatToDo) {
  int found = 0;
  for (const SourceFile& file : source_files(kSources)) {
    if (!file.path.starts_with("tests/") || file.path.starts_with("tests/style/")) continue;
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      if (file.lines[i].find("GTEST_SKIP()") == std::string::npos) continue;
      ++found;
      const std::string words = file.lines[i] + (i + 1 < file.lines.size() ? file.lines[i + 1] : "");
      const bool told = words.find("run it") != std::string::npos || words.find("install ") != std::string::npos ||
                        words.find("kNeeds") != std::string::npos;
      EXPECT_TRUE(told) << at(file, i) << ": what is missing, and what to do? (`run it ...`, `install ...`)";
    }
  }
  EXPECT_GT(found, 30);
}

// An entry of ctest runs the tests whose files are in its folder (tests/support/test_main.cpp), and each folder has one
// entry. No entry would run a test that stands elsewhere.
bool stands_where_it_is_run(const std::string& path) {
  static const std::regex kFolders("tests/(unit|conformance|multiprocess|faults|training)/[a-z_]+/.+\\.cpp");
  return std::regex_match(path, kFolders) || path.starts_with("tests/style/") || path.starts_with("tests/bindings/");
}

TEST(Style, EveryTestStandsInAFolderThatIsRun) {
  static const std::regex kTest("(TEST|TEST_F|TEST_P|TYPED_TEST|TYPED_TEST_P)\\(.*");
  for (const SourceFile& file : source_files(kSources)) {
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      EXPECT_TRUE(stands_where_it_is_run(file.path) || !std::regex_match(file.lines[i], kTest)) << at(file, i);
    }
  }
  EXPECT_FALSE(stands_where_it_is_run("tests/support/timer.hpp"));
  EXPECT_FALSE(stands_where_it_is_run("tests/unit/fifo/model.hpp"));
}

}  // namespace
}  // namespace wreath
