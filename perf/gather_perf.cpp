// gather_perf: measures gather, as nccl-tests' tool of that name does.
#include "perf/common/tool.hpp"

int main(int argc, char** argv) { return wreath::perf::run_tool("gather_perf", argc, argv); }
