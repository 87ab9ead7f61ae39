// The memory that a run is said to need is compared with what it takes. A run that needs more than there is is refused.
#include "examples/train_gpt/train/memory_need.hpp"

#include <gtest/gtest.h>

#include "tests/support/processes.hpp"
#include "tests/training/meshes/draws.hpp"

namespace wreath::gpt::test {
namespace {

// Returns the sum of the peaks of all tags, as the counting allocator has them.
double peak_of(const training::MemoryAccounting& memory) {
  double sum = 0;
  for (std::size_t i = 0; i < training::kMemoryTags; ++i) {
    sum += static_cast<double>(memory.peak_bytes(static_cast<training::MemoryTag>(i)));
  }
  return sum;
}

// A run that is refused must be one that would not have fitted. The need is at least a quarter of what a run takes, and
// more for most runs.
TEST(MemoryNeed, IsNeverMoreThanIsTakenAndNotMuchLess) {
  const int draws = testing_support::kSanitized ? 4 : testing_support::rounds(20, 200);
  double least = 1;
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(draws); ++seed) {
    TrainOptions options = draw_options(seed);
    SCOPED_TRACE("draw " + std::to_string(seed) + ": " + describe(options));
    const TrainingRun run = train(options, 1);
    options.model.vocabulary = small_text().vocabulary();
    for (int rank = 0; rank < options.mesh.ranks(); ++rank) {
      const auto need = static_cast<double>(memory_need(options, training::place_of(options.mesh, rank)).all());
      const double taken = peak_of(run.memory[static_cast<std::size_t>(rank)]);
      EXPECT_LE(need, taken) << "rank " << rank;
      EXPECT_GE(need, 0.25 * taken) << "rank " << rank;
      least = std::min(least, need / taken);
    }
  }
  std::printf("the least share of what was taken: %.2f\n", least);
}

}  // namespace
}  // namespace wreath::gpt::test
