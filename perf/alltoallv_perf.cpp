// alltoallv_perf: measures all_to_all of blocks that differ in size, as nccl-tests' tool of that name does.
#include "perf/common/tool.hpp"

int main(int argc, char** argv) { return wreath::perf::run_tool("alltoallv_perf", argc, argv); }
