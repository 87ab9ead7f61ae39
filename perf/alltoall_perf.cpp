// alltoall_perf: measures all_to_all, as nccl-tests' tool of that name does.
#include "perf/common/tool.hpp"

int main(int argc, char** argv) { return wreath::perf::run_tool("alltoall_perf", argc, argv); }
