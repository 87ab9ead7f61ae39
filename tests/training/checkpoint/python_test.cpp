// Python reads a checkpoint with its standard library.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/local_ranks.hpp"
#include "tests/support/surroundings.hpp"
#include "tests/training/checkpoint/model.hpp"

namespace wreath::training {
namespace {

TEST(CheckpointInPython, StandardLibraryReadsEveryValue) {
  if (std::system("python3 -c ''") != 0) GTEST_SKIP() << "needs python3: install it";
  const wreath::test::Folder folder;
  const test::Division division{2, 1, 2, true};
  wreath::test::LocalRanks ranks(division.ranks(), {});
  ranks.run([&](Communicator& world) {
    test::RankState rank(division, world.rank());
    rank.fill(42);
    MemoryAccounting memory;
    CheckpointOptions options;
    options.file_bytes = 2000;
    auto made = Checkpointer::create(world, folder.path(), rank.shard(), memory, options);
    const auto checkpointer = std::move(made).value();
    checkpointer->save(test::state_of(42), rank.shard()).value();
    checkpointer->wait().value();
  });
  const std::string script = std::string(WREATH_SOURCE_DIR) + "/tests/training/checkpoint/check_safetensors.py";
  EXPECT_EQ(std::system(("python3 '" + script + "' '" + folder / "step-000042" + "' 42").c_str()), 0);
}

}  // namespace
}  // namespace wreath::training
