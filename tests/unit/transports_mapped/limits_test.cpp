// A refusal of memory is an error that names the call, and never a signal. Repeated cycles leak nothing.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/fifo/mapped_link.hpp"
#include "src/fifo/segment.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/timer.hpp"
#include "tests/unit/transports_mapped/processes.hpp"
#include "wreath/memory.hpp"

namespace wreath::limits {
namespace {

constexpr FifoShape kShape{.lanes = 1, .slot_count = 4, .slot_bytes = 1 << 20, .first_sequence = 0, .epoch = 0};

// Runs `refused` in a child whose `resource` is limited to `value`; it must return an error with `words`.
template <typename Refused>
void expect_refusal(__rlimit_resource resource, rlim_t value, const std::string& words, Refused refused) {
  const pid_t child = start_child([&] {
    const rlimit limit{value, value};
    ASSERT_EQ(::setrlimit(resource, &limit), 0);
    const Error error = refused();
    EXPECT_EQ(error.code, ErrorCode::System);
    EXPECT_THAT(error.message, testing::HasSubstr(words));
  });
  expect_success(child);
}

Error allocate_error(std::size_t bytes) {
  const auto memory = allocate(bytes);
  return memory ? Error{ErrorCode::InvalidUsage, "none"} : memory.error();
}

Error segment_error(bool shareable) {
  const auto segment = OwnSegment::create(0, 2, kShape, host_segment_memory(shareable));
  return segment ? Error{ErrorCode::InvalidUsage, "none"} : segment.error();
}

Error staging_error() {
  const auto segment = std::move(OwnSegment::create(0, 2, kShape, host_segment_memory(true))).value();
  std::move(segment->offer(1, true)).value();
  const auto staging = segment->staging(1, 0);
  return staging ? Error{ErrorCode::InvalidUsage, "none"} : staging.error();
}

TEST(Limits, OfFileSizeAreErrors) {
  expect_refusal(RLIMIT_FSIZE, 4096, "RLIMIT_FSIZE", [] { return allocate_error(1 << 20); });
  expect_refusal(RLIMIT_FSIZE, 4096, "control segment", [] { return segment_error(true); });
  const std::size_t segment_bytes = SegmentLayout(2, kShape).bytes + 4096;
  expect_refusal(RLIMIT_FSIZE, segment_bytes, "staging memory", [] { return staging_error(); });
}

TEST(Limits, OfDescriptorsAreErrors) {
  if (testing_support::kSanitized) GTEST_SKIP() << "sanitizers need descriptors of their own: run it in the preset dev";
  expect_refusal(RLIMIT_NOFILE, 3, "memfd_create: Too many open files", [] { return allocate_error(4096); });
  expect_refusal(RLIMIT_NOFILE, 3, "eventfd: Too many open files", [] { return segment_error(false); });
}

TEST(Limits, OfAddressSpaceAreErrors) {
  if (testing_support::kSanitized)
    GTEST_SKIP() << "sanitizers need more address space than any limit leaves: run it in the preset dev";
  constexpr rlim_t kSpace = rlim_t{256} << 20;
  expect_refusal(RLIMIT_AS, kSpace, "mmap: Cannot allocate memory", [] { return allocate_error(kSpace); });
}

TEST(Limits, OfTheMachineAreErrors) {
  EXPECT_EQ(allocate_error(0).code, ErrorCode::InvalidArgument);
  EXPECT_EQ(allocate_error(~std::size_t{0}).code, ErrorCode::InvalidArgument);
  const Error error = allocate_error(std::size_t{1} << 60);
  EXPECT_EQ(error.code, ErrorCode::System);
  EXPECT_THAT(error.message, testing::AllOf(testing::HasSubstr("1152921504606846976 bytes of shareable memory"),
                                            testing::HasSubstr("available")));
}

TEST(SharedMemory, IsZeroedPresentAndSealed) {
  const Memory memory = std::move(allocate(3 * 4096 + 1)).value();
  EXPECT_EQ(memory.size(), 3U * 4096 + 1);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 4096, 0U);
  for (std::size_t i = 0; i < memory.size(); ++i) ASSERT_EQ(memory.data()[i], std::byte{0});
  unsigned char present[4] = {};
  ASSERT_EQ(::mincore(memory.data(), 4 * 4096, present), 0);
  for (const unsigned char page : present) EXPECT_EQ(page & 1, 1);
  const int descriptor = find_containing(memory.data(), 1)->descriptor();
  EXPECT_EQ(::ftruncate(descriptor, 0), -1);
  EXPECT_EQ(::ftruncate(descriptor, 1 << 20), -1);
  EXPECT_EQ(::fcntl(descriptor, F_ADD_SEALS, F_SEAL_WRITE), -1);
  EXPECT_NE(::fcntl(descriptor, F_GETFD) & FD_CLOEXEC, 0);
}

// A timer sends signals all the time. On older kernels fallocate() gives back all that it has made when a signal comes.
TEST(SharedMemory, IsMadeInSpiteOfSignalsThatComeFaster) {
  const test::Timer timer(1'000);
  const auto memory = allocate(std::size_t{256} << 20);
  ASSERT_TRUE(memory) << memory.error().message;
  EXPECT_EQ(memory->data()[memory->size() - 1], std::byte{0});
}

TEST(SharedMemory, IsFreedWithItsOwner) {
  const int descriptors = open_descriptors();
  const std::size_t regions = region_count();
  const int maps = mapped_memfds();
  for (int i = 0; i < 100; ++i) {
    Memory memory = std::move(allocate(1 << 16)).value();
    const Memory other = std::move(memory);
    EXPECT_EQ(memory.data(), nullptr);
    EXPECT_NE(find_containing(other.data(), other.size()), nullptr);
  }
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(region_count(), regions);
  EXPECT_EQ(mapped_memfds(), maps);
}

TEST(SharedMemory, LeavesNothingAfterManyLinks) {
  const int descriptors = open_descriptors();
  const std::size_t regions = region_count();
  for (int i = 0; i < 30; ++i) {
    const bool shareable = i % 2 == 0;
    const auto own = std::move(OwnSegment::create(0, 2, kShape, host_segment_memory(shareable))).value();
    const auto peer = std::move(OwnSegment::create(1, 2, kShape, host_segment_memory(shareable))).value();
    // No peer takes this offer.
    std::move(own->offer(1, shareable)).value();
    auto link = std::move(MappedLink::connect(*own, 1, std::move(peer->offer(0, shareable)).value())).value();
    std::vector<Memory> memories;
    for (int j = 0; j < 10; ++j) {
      memories.push_back(std::move(allocate(4096)).value());
      EXPECT_TRUE(peer->name_memory(memories.back().data(), 1).has_value());
    }
    peer->staging(0, 0).value();
    std::vector<Announcement> news = peer->take_announcements(0).value();
    EXPECT_EQ(news.size(), 11U);
    for (Announcement& announcement : news)
      link->accept_region(announcement.index, std::move(announcement.offer)).value();
  }
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(region_count(), regions);
  EXPECT_EQ(mapped_memfds(), 0);
}

}  // namespace
}  // namespace wreath::limits
