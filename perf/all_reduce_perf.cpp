// all_reduce_perf: measures all_reduce, as nccl-tests' tool of that name does.
#include "perf/common/tool.hpp"

int main(int argc, char** argv) { return wreath::perf::run_tool("all_reduce_perf", argc, argv); }
