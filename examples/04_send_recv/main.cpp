// Every rank sends a block to its right neighbour, all ranks at once in a group, until each block is home again.
//
//   04_send_recv                                              four threads of this process
//   torchrun --nproc-per-node 4 --no-python 04_send_recv      one rank per process
#include <cstdio>
#include <span>
#include <vector>

#include "refuse_arguments.hpp"
#include "run_ranks.hpp"
#include "wreath/wreath.hpp"

namespace {

void run_rank(wreath::Communicator& communicator) {
  const int ranks = communicator.ranks();
  const int right = (communicator.rank() + 1) % ranks;
  const int left = (communicator.rank() + ranks - 1) % ranks;
  std::vector<int> held(1000, communicator.rank());
  std::vector<int> next(held.size());
  for (int turn = 0; turn < ranks; ++turn) {
    // Without the group every rank would wait for its neighbour to receive.
    wreath::Group group;
    communicator.send(std::span<const int>(held), right).value();
    communicator.recv(std::span(next), left).value();
    group.run().value();
    std::swap(held, next);
    std::printf("turn %d: rank %d holds the block of rank %d\n", turn, communicator.rank(), held.front());
  }
}

}  // namespace

int main(int argc, char** argv) {
  refuse_arguments(argc, argv);
  return run_ranks(4, run_rank);
}
