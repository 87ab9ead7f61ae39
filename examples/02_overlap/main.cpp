// While the sum of one block is under way, each rank computes the next block.
//
//   02_overlap                                              four threads of this process
//   torchrun --nproc-per-node 4 --no-python 02_overlap      one rank per process
#include <chrono>
#include <cmath>
#include <cstdio>
#include <vector>

#include "refuse_arguments.hpp"
#include "run_ranks.hpp"
#include "wreath/wreath.hpp"

namespace {

constexpr std::size_t kBlocks = 8;
constexpr std::size_t kCount = 500'000;  // elements of a block

// Stands for a backward pass.
void compute(std::vector<float>& block, int rank) {
  for (std::size_t i = 0; i < block.size(); ++i) block[i] = std::sin(static_cast<float>(i)) * static_cast<float>(rank);
}

// Returns the milliseconds of one pass over all blocks.
double pass(wreath::Communicator& communicator, std::vector<std::vector<float>>& blocks, bool overlap) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<wreath::Work> works;
  for (auto& block : blocks) {
    compute(block, communicator.rank());
    auto work = communicator.all_reduce_async(block.data(), block.data(), block.size(), wreath::DataType::Float32);
    if (overlap) {
      works.push_back(std::move(work).value());
    } else {
      work.value().wait().value();
    }
  }
  // The blocks belong to their operations until then.
  for (auto& work : works) work.wait().value();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

void run_rank(wreath::Communicator& communicator) {
  std::vector<std::vector<float>> blocks(kBlocks, std::vector<float>(kCount));
  // The first calls make plans and slots.
  pass(communicator, blocks, true);
  const double one_by_one_ms = pass(communicator, blocks, false);
  const double overlapped_ms = pass(communicator, blocks, true);
  if (communicator.rank() == 0) std::printf("one by one %.1f ms, overlapped %.1f ms\n", one_by_one_ms, overlapped_ms);
}

}  // namespace

int main(int argc, char** argv) {
  refuse_arguments(argc, argv);
  return run_ranks(4, run_rank);
}
