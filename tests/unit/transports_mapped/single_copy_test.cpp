// A rank reads a peer's memory through the kernel. Ranks find out when they link whether they can, and they notice when
// what they read is no data.
#include <sys/mman.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <memory>
#include <utility>

#include "src/base/peer_memory.hpp"
#include "src/fifo/access.hpp"
#include "src/fifo/mapped_link.hpp"
#include "src/fifo/segment.hpp"
#include "tests/support/refusal.hpp"
#include "tests/unit/transports_mapped/processes.hpp"

namespace wreath::single_copy {
namespace {

constexpr FifoShape kShape{.lanes = 1, .slot_count = 4, .slot_bytes = 4096, .first_sequence = 0, .epoch = 0};
constexpr std::uint64_t kToken = 0x1122334455667788;

ProcessMemory own_process(const std::uint64_t& token) {
  return {kToken, reinterpret_cast<std::uintptr_t>(&token), ::getpid()};
}

const std::byte* bytes_of(const void* data) { return static_cast<const std::byte*>(data); }

TEST(ReadPeer, GivesItsBytes) {
  const std::array<int, 3> given{1, 2, 3};
  std::array<int, 3> got{};
  ASSERT_EQ(read_peer(own_process(kToken), reinterpret_cast<std::byte*>(got.data()), bytes_of(given.data()), 12), 0);
  EXPECT_EQ(got, given);
}

TEST(ReadPeer, OfAnotherProcessUnderItsNumberIsNothing) {
  const std::uint64_t other_token = kToken + 1;
  std::uint64_t got = 0;
  EXPECT_EQ(read_peer(own_process(other_token), reinterpret_cast<std::byte*>(&got), bytes_of(&kToken), 8), ESRCH);
}

// The second page is already unmapped: a read that gets half of the bytes is an error.
TEST(ReadPeer, OfFreedMemoryIsAnErrorAndNoFault) {
  auto* const pages = static_cast<std::byte*>(
      ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
  ASSERT_EQ(::munmap(pages + 4096, 4096), 0);
  std::array<std::byte, 8192> got{};
  EXPECT_EQ(read_peer(own_process(kToken), got.data(), pages, 4096), 0);
  EXPECT_EQ(read_peer(own_process(kToken), got.data(), pages, 8192), EFAULT);
  EXPECT_EQ(read_peer(own_process(kToken), got.data(), pages + 4096, 64), EFAULT);
  ::munmap(pages, 4096);
}

// Returns for each end whether the other end can read its memory, or nothing where the other end did not try.
// `single_copy` holds the setting of each end.
std::array<std::optional<Status>, 2> linked(std::array<bool, 2> single_copy) {
  std::unique_ptr<OwnSegment> segments[2];
  std::unique_ptr<MappedLink> links[2];
  Offer offers[2];
  for (Rank rank : {0, 1})
    segments[rank] = std::move(OwnSegment::create(rank, 2, kShape, host_segment_memory(false))).value();
  for (Rank rank : {0, 1}) offers[rank] = std::move(segments[rank]->offer(1 - rank, false)).value();
  for (Rank rank : {0, 1}) {
    links[rank] = std::move(MappedLink::connect(*segments[rank], 1 - rank, std::move(offers[1 - rank]),
                                                {single_copy[static_cast<std::size_t>(rank)]}))
                      .value();
  }
  for (Rank rank : {0, 1}) {
    links[rank]->prepare(0).value();
    const auto said = links[rank]->single_copy();
    EXPECT_EQ(links[rank]->send_fifo(0).single_copy, said && *said);
  }
  return {links[0]->single_copy(), links[1]->single_copy()};
}

TEST(SingleCopyLink, SaysOfEachWayWhetherItsReaderCan) {
  const auto neither = linked({false, false});
  EXPECT_FALSE(neither[0] || neither[1]);
  const auto one = linked({false, true});
  ASSERT_TRUE(one[0]) << "rank 1 tried to read rank 0";
  EXPECT_FALSE(one[1]) << "rank 0 did not try";
}

TEST(SingleCopyLink, SaysWhyTheKernelRefuses) {
  expect_success(start_child([] {
    test::refuse_system_call(SYS_process_vm_readv);
    const auto said = linked({true, true});
    ASSERT_TRUE(said[0] && !*said[0]);
    EXPECT_EQ(said[0]->error().message, "refused: Operation not permitted");
  }));
}

}  // namespace
}  // namespace wreath::single_copy
