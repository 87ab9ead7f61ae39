// Training state is kept in files: the bits are the same, it takes no memory, and no file stays behind.
#include "training/parameters/offload.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/training/data_parallel/driver.hpp"

namespace wreath::training::test {
namespace {

class Offload : public testing::Test {
 protected:
  Offload() { std::filesystem::create_directories(folder); }
  ~Offload() override { std::filesystem::remove_all(folder); }
  std::string folder = testing::TempDir() + "wreath_offload_test";
};

// Returns the resident bytes of files and shared memory that this process has mapped.
std::size_t resident_of_files() {
  std::ifstream status("/proc/self/status");
  std::size_t sum = 0;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssFile:") || line.starts_with("RssShmem:")) sum += std::stoul(line.substr(9)) * 1024;
  }
  return sum;
}

TEST_F(Offload, HasTheSameBitsAndKeepsNoMemory) {
  const Outcome expected = run(job_of(3, 0))[0];
  for (const int prefetch : {0, 1, 2}) {
    Job job = job_of(3, 3);
    job.options.prefetch = prefetch;
    job.options.offload_folder = folder;
    job.adamw.offload_folder = folder;
    for (const Outcome& outcome : run(job)) {
      EXPECT_EQ(outcome.weights, expected.weights);
      EXPECT_EQ(outcome.memory.peak_bytes(MemoryTag::Parameters), 0u);
      EXPECT_EQ(outcome.memory.peak_bytes(MemoryTag::Optimizer), 0u);
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST_F(Offload, HybridShardsMayLieInFiles) {
  const Outcome expected = run(job_of(4, 0))[0];
  Job job = job_of(4, 3);
  job.hybrid_shards = 2;
  job.options.offload_folder = folder;
  for (const Outcome& outcome : run(job)) EXPECT_EQ(outcome.weights, expected.weights);
}

TEST_F(Offload, MemoryThatIsLetGoComesBackFromTheFile) {
  constexpr std::size_t kBytes = std::size_t{32} << 20;
  MemoryAccounting memory;
  const OffloadableBuffer buffer(memory, MemoryTag::Optimizer, kBytes / 4, folder);
  for (std::size_t i = 0; i < buffer.size(); ++i) buffer.span()[i] = static_cast<float>(i % 1000);
  const std::size_t before = resident_of_files();
  buffer.let_go(buffer.span());
  EXPECT_LT(resident_of_files() + kBytes * 9 / 10, before);
  buffer.read_ahead(buffer.span().subspan(5, 1000));
  for (std::size_t i = 0; i < buffer.size(); ++i) ASSERT_EQ(buffer.span()[i], static_cast<float>(i % 1000));
  EXPECT_EQ(memory.bytes(MemoryTag::Optimizer), 0u);
}

TEST_F(Offload, AFolderThatIsNotThereIsNamed) {
  try {
    const MappedFile file(folder + "/missing", 4096);
    FAIL();
  } catch (const Exception& exception) {
    EXPECT_EQ(exception.error().code, ErrorCode::System);
    EXPECT_NE(exception.error().message.find(folder + "/missing"), std::string::npos) << exception.what();
  }
}

TEST_F(Offload, MoreThanTheDiskHoldsIsAnErrorAndNoSignal) {
  EXPECT_THROW(MappedFile(folder, std::size_t{1} << 55), Exception);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

}  // namespace
}  // namespace wreath::training::test
