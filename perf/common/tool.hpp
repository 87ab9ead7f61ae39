// The entry of every perf tool.
#pragma once

#include <string_view>

namespace wreath::perf {

// Runs the tool `program` from its command line to its exit code, which it returns.
int run_tool(std::string_view program, int argc, char** argv);

}  // namespace wreath::perf
