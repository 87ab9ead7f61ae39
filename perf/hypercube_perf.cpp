// hypercube_perf: measures an all_gather by pairs over send and recv, as nccl-tests' tool of that name does.
#include "perf/common/tool.hpp"

int main(int argc, char** argv) { return wreath::perf::run_tool("hypercube_perf", argc, argv); }
