// broadcast_perf: measures broadcast, as nccl-tests' tool of that name does.
#include "perf/common/tool.hpp"

int main(int argc, char** argv) { return wreath::perf::run_tool("broadcast_perf", argc, argv); }
