// sendrecv_perf: measures a shift around the ring of ranks by send and recv, as nccl-tests' tool of that name does.
#include "perf/common/tool.hpp"

int main(int argc, char** argv) { return wreath::perf::run_tool("sendrecv_perf", argc, argv); }
