// all_gather_perf: measures all_gather, as nccl-tests' tool of that name does.
#include "perf/common/tool.hpp"

int main(int argc, char** argv) { return wreath::perf::run_tool("all_gather_perf", argc, argv); }
