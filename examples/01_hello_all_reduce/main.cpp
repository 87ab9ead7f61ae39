// Every rank gets the sum of all ranks. The ranks are four threads, or the ranks that a launcher started.
//
//   01_hello_all_reduce                                              four threads of this process
//   torchrun --nproc-per-node 4 --no-python 01_hello_all_reduce      one rank per process
#include <cstdio>
#include <vector>

#include "refuse_arguments.hpp"
#include "run_ranks.hpp"
#include "wreath/wreath.hpp"

namespace {

void hello(wreath::Communicator& communicator) {
  std::vector<float> values(4, static_cast<float>(communicator.rank() + 1));
  communicator.all_reduce(std::span(values)).value();
  std::printf("rank %d of %d: %g %g %g %g\n", communicator.rank(), communicator.ranks(), values[0], values[1],
              values[2], values[3]);
}

}  // namespace

int main(int argc, char** argv) {
  refuse_arguments(argc, argv);
  return run_ranks(4, hello);
}
