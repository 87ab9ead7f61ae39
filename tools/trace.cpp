// The subcommand `wreath trace`: joins the traces of ranks into one file for a viewer.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "src/base/text_file.hpp"
#include "src/command_line/program.hpp"
#include "src/json/value.hpp"
#include "tools/commands.hpp"

namespace wreath {
namespace {

namespace fs = std::filesystem;

struct TraceArguments {
  std::string directory;
  std::string output = "wreath-trace.json";
};

std::vector<fs::path> traces_in(const std::string& directory) {
  std::vector<fs::path> paths;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored)) {
    const std::string file = entry.path().filename().string();
    if (file.starts_with("wreath-trace-") && file.ends_with(".json")) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

int join(const TraceArguments& arguments) {
  const std::vector<fs::path> paths = traces_in(arguments.directory);
  if (paths.empty()) return command_line::fail(2, fmt::format("no wreath-trace-*.json in {}", arguments.directory));
  Json all{{"displayTimeUnit", "ns"}, {"traceEvents", Json::array()}};
  for (const fs::path& path : paths) {
    std::ifstream file(path);
    const Json one = Json::read(file).value_or(Json());
    if (!one["traceEvents"].is_array()) {
      return command_line::fail(2, fmt::format("{} is not a trace", path.string()));
    }
    for (const Json& event : one["traceEvents"]) all["traceEvents"].push_back(event);
  }
  const Status written = write_output(arguments.output, all.dump({.sorted = true}) + "\n");
  if (!written) return command_line::fail(written.error());
  fmt::print("{}: {} ranks, {} events; open it in https://ui.perfetto.dev or chrome://tracing\n", arguments.output,
             paths.size(), all["traceEvents"].size());
  return 0;
}

}  // namespace

std::function<int()> add_trace(const command_line::Command& command) {
  command.description("join the traces that ranks wrote (WREATH_TRACE=DIR) into one file for a trace viewer");
  const auto arguments = std::make_shared<TraceArguments>();
  command.add_option("DIR", arguments->directory, "folder with wreath-trace-*.json").required();
  command.add_option("-o,--output", arguments->output, "the joined file").capture_default_str();
  return [arguments] { return join(*arguments); };
}

}  // namespace wreath
