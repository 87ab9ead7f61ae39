// reduce_scatter_perf: measures reduce_scatter, as nccl-tests' tool of that name does.
#include "perf/common/tool.hpp"

int main(int argc, char** argv) { return wreath::perf::run_tool("reduce_scatter_perf", argc, argv); }
