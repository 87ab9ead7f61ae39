// barrier_perf: measures the latency of a barrier.
#include "perf/common/tool.hpp"

int main(int argc, char** argv) { return wreath::perf::run_tool("barrier_perf", argc, argv); }
