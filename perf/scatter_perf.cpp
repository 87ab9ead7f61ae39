// scatter_perf: measures scatter, as nccl-tests' tool of that name does.
#include "perf/common/tool.hpp"

int main(int argc, char** argv) { return wreath::perf::run_tool("scatter_perf", argc, argv); }
