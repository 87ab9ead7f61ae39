// inproc and shm are used through the Transport interface: they link the peers that they can reach, and refuse wrong
// offers with a reason.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/fifo/access.hpp"
#include "src/fifo/segment.hpp"
#include "tests/unit/transports_mapped/processes.hpp"

namespace wreath {
namespace {

constexpr FifoShape kShape{.lanes = 2, .slot_count = 4, .slot_bytes = 4096, .first_sequence = 5, .epoch = 3};

struct Side {
  std::unique_ptr<OwnSegment> segment;
  std::unique_ptr<Transport> transport;
  Endpoint endpoint;

  Side(std::string_view name, Rank rank, const FifoShape& shape = kShape, int ranks = 2)
      : segment(std::move(OwnSegment::create(rank, ranks, shape, host_segment_memory(name == "shm"))).value()),
        endpoint{rank, 7, 9} {
    transport = std::move(find_transport(name)->make({endpoint, ranks, shape, segment.get()})).value();
  }
};

class Mapped : public testing::TestWithParam<const char*> {};

TEST_P(Mapped, LinksTwoRanksOfOneProcessBothWays) {
  Side sides[2] = {{GetParam(), 0}, {GetParam(), 1}};
  std::unique_ptr<Link> links[2];
  Offer offers[2];
  for (int i : {0, 1}) offers[i] = std::move(sides[i].transport->offer(sides[1 - i].endpoint)).value();
  for (int i : {0, 1}) {
    links[i] = std::move(sides[i].transport->connect(sides[1 - i].endpoint, std::move(offers[1 - i]))).value();
  }
  for (int i : {0, 1}) {
    SendFifo& send = links[i]->send_fifo(1);
    EXPECT_EQ(send.next, 5U);
    EXPECT_FALSE(send.by_reference);
    next_slot(send).signature = 40U + static_cast<std::uint32_t>(i);
    publish(send);
    EXPECT_EQ(links[i]->wire(), nullptr);
    EXPECT_NE(links[i]->mapped(), nullptr);
  }
  for (int i : {0, 1}) {
    const SlotHeader* slot = peek(links[1 - i]->recv_fifo(1));
    ASSERT_NE(slot, nullptr);
    EXPECT_EQ(slot->signature, 40U + static_cast<std::uint32_t>(i));
  }
}

TEST_P(Mapped, RefusesAnotherShape) {
  Side self(GetParam(), 0);
  FifoShape other = kShape;
  other.epoch = 4;
  Side peer(GetParam(), 1, other);
  const auto link = self.transport->connect(peer.endpoint, std::move(peer.transport->offer(self.endpoint)).value());
  ASSERT_FALSE(link);
  EXPECT_EQ(link.error().code, ErrorCode::Mismatch);
  EXPECT_THAT(link.error().message, testing::HasSubstr("epoch"));
}

TEST_P(Mapped, RefusesAShortSegment) {
  FifoShape longer = kShape;
  longer.slot_count = 64;
  Side self(GetParam(), 0, longer);
  Side peer(GetParam(), 1);
  const auto link = self.transport->connect(peer.endpoint, std::move(peer.transport->offer(self.endpoint)).value());
  ASSERT_FALSE(link);
  EXPECT_THAT(link.error().message, testing::HasSubstr("bytes where at least"));
}

TEST_P(Mapped, RefusesTheSegmentOfAnotherRank) {
  Side self(GetParam(), 0, kShape, 3);
  Side peer(GetParam(), 1, kShape, 3);
  Side third(GetParam(), 2, kShape, 3);
  const auto link = self.transport->connect(peer.endpoint, std::move(third.transport->offer(self.endpoint)).value());
  ASSERT_FALSE(link);
  EXPECT_THAT(link.error().message, testing::HasSubstr("it is rank 2 of 3 where 1 of 3 is meant"));
}

TEST_P(Mapped, RefusesBytesThatAreNoOffer) {
  Side self(GetParam(), 0);
  Side peer(GetParam(), 1);
  for (std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{24}, std::size_t{1000}}) {
    Offer offer;
    offer.bytes.resize(bytes, std::byte{0x55});
    const auto link = self.transport->connect(peer.endpoint, std::move(offer));
    ASSERT_FALSE(link);
    EXPECT_EQ(link.error().code, ErrorCode::Mismatch);
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, Mapped, testing::Values("inproc", "shm"));

TEST(MappedTransport, IsTheProcessForInprocAndTheHostForShm) {
  const Endpoint self{0, 7, 9};
  const Endpoint thread{1, 7, 9};
  const Endpoint process{2, 8, 9};
  const Endpoint far{3, 7, 10};
  const Side inproc("inproc", 0);
  const Side shm("shm", 0);
  EXPECT_TRUE(inproc.transport->reachable(self, thread));
  EXPECT_THAT(inproc.transport->reachable(self, process).error().message,
              testing::HasSubstr("rank 2 is in another process"));
  EXPECT_TRUE(shm.transport->reachable(self, thread));
  EXPECT_TRUE(shm.transport->reachable(self, process));
  EXPECT_THAT(shm.transport->reachable(self, far).error().message, testing::HasSubstr("rank 3 is on another host"));
}

TEST(MappedTransport, NeedsASegmentAndToOtherProcessesOneTheyCanMap) {
  const Endpoint self{0, 7, 9};
  for (const char* name : {"inproc", "shm"}) {
    EXPECT_EQ(find_transport(name)->make({self, 2, kShape, nullptr}).error().code, ErrorCode::Unavailable);
  }
  const auto segment = std::move(OwnSegment::create(0, 2, kShape, host_segment_memory(false))).value();
  const Endpoint peer{1, 7, 9};
  const auto inproc = find_transport("inproc")->make({self, 2, kShape, segment.get()}).value();
  EXPECT_TRUE(inproc->offer(peer));
  const auto shm = find_transport("shm")->make({self, 2, kShape, segment.get()}).value();
  const auto refused = shm->offer(peer);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::Unavailable);
}

TEST(Registry, PrefersMemoryOverWires) {
  const auto order = [](const TransportRow& row) {
    return row.is_wire() ? 2 : row.shares == SharedMemory::Host ? 1 : 0;
  };
  EXPECT_TRUE(std::ranges::is_sorted(transports(), {}, order));
  for (const TransportRow& row : transports()) EXPECT_EQ(find_transport(row.name), &row);
  EXPECT_EQ(find_transport("sh"), nullptr);
}

TEST(Registry, SaysWhatATransportIs) {
  const TransportRow& inproc = *find_transport("inproc");
  const TransportRow& shm = *find_transport("shm");
  const TransportRow& tcp = *find_transport("tcp");
  EXPECT_EQ(inproc.shares, SharedMemory::Process);
  EXPECT_EQ(shm.shares, SharedMemory::Host);
  EXPECT_TRUE(tcp.is_wire());
  EXPECT_FALSE(inproc.needs_stream || shm.needs_stream);
  EXPECT_TRUE(tcp.needs_stream);
  EXPECT_THAT(transports_between_processes(), testing::IsSupersetOf({"shm", "tcp", "verbs", "ofi"}));
  EXPECT_THAT(usable_between_processes(), testing::IsSupersetOf({"shm", "tcp"}));
  EXPECT_THAT(transports_between_processes(), testing::Not(testing::Contains("inproc")));
}

TEST(Registry, NamesHowDevicesReachEachOther) {
  EXPECT_EQ(transport_names().size(), transports().size() + 1);
  EXPECT_EQ(transport_names().front(), transports().front().name);
  EXPECT_EQ(transport_names().back(), "cuda_ipc");
  EXPECT_EQ(find_transport("cuda_ipc"), nullptr);
}

// A peer may announce anything: the memory that arrives must be sealed and of the announced size.
class ForeignMemory : public testing::Test {
 protected:
  static Fd memory(std::size_t bytes, int seals) {
    Fd descriptor(::memfd_create("foreign", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(::ftruncate(descriptor.get(), static_cast<off_t>(bytes)), 0);
    EXPECT_EQ(::fcntl(descriptor.get(), F_ADD_SEALS, seals), 0);
    return descriptor;
  }
  static Error error_of(Fd descriptor, std::uint64_t bytes) {
    const std::size_t before = region_count();
    const auto region = Region::open(random_id(), bytes, std::move(descriptor));
    EXPECT_EQ(region_count(), before + (region ? 1U : 0U));
    return region ? Error{ErrorCode::InvalidUsage, "none"} : region.error();
  }
};

// Returns how many pages of the region are in memory.
std::size_t present_pages(const Region& region) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages(region.bytes() / page);
  EXPECT_EQ(::mincore(region.data(), region.bytes(), pages.data()), 0);
  return static_cast<std::size_t>(
      std::count_if(pages.begin(), pages.end(), [](unsigned char of_page) { return (of_page & 1) != 0; }));
}

TEST(Regions, HaveAllPagesButThoseThatBecomePresentLater) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  for (const bool shareable : {false, true}) {
    SCOPED_TRACE(shareable);
    const auto whole = Region::create(100 * page, shareable, "memory").value();
    EXPECT_EQ(present_pages(*whole), 100U);
    const auto parted = Region::create({100 * page, 30 * page + 1}, shareable, "memory").value();
    EXPECT_EQ(parted->bytes(), 100 * page);
    EXPECT_EQ(present_pages(*parted), 70U);
    ASSERT_TRUE(parted->make_present("memory"));
    EXPECT_EQ(present_pages(*parted), 100U);
    ASSERT_TRUE(parted->make_present("memory"));
    EXPECT_EQ(parted->data()[100 * page - 1], std::byte{0});
  }
}

TEST(Regions, AreFoundByTheAddressesTheyHold) {
  auto own = Region::create(8192, false, "a test's memory").value();
  std::byte* const data = own->data();
  EXPECT_EQ(Region::find_at(data), own);
  EXPECT_EQ(Region::find_at(data + 8191), own);
  EXPECT_NE(Region::find_at(data + 8192), own);
  EXPECT_TRUE(own->is_writable());
  own.reset();
  EXPECT_EQ(Region::find_at(data), nullptr);
}

TEST(Regions, OfUsersArePutWhereTheirMemoryWas) {
  void* const page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  auto region = Region::take_over(static_cast<std::byte*>(page), 4096).value();
  EXPECT_EQ(Region::find_at(page), region);
  region->give_back();
  region.reset();
  EXPECT_EQ(Region::find_at(page), nullptr);
  ::munmap(page, 4096);
}

TEST_F(ForeignMemory, MustBeSealed) {
  EXPECT_THAT(error_of(memory(8192, 0), 8192).message, testing::HasSubstr("not sealed"));
  EXPECT_THAT(error_of(memory(8192, F_SEAL_GROW), 8192).message, testing::HasSubstr("not sealed"));
  EXPECT_THAT(error_of(Fd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)), 8192).code, ErrorCode::Mismatch);
  EXPECT_EQ(error_of(memory(8192, F_SEAL_GROW | F_SEAL_SHRINK), 8192).message, "none");
}

TEST_F(ForeignMemory, MustHaveTheAnnouncedSize) {
  constexpr int kSeals = F_SEAL_GROW | F_SEAL_SHRINK;
  EXPECT_THAT(error_of(memory(4096, kSeals), 8192).message, testing::HasSubstr("4096 bytes where 8192"));
  EXPECT_THAT(error_of(memory(8192, kSeals), 4096).code, ErrorCode::Mismatch);
  EXPECT_THAT(error_of(memory(0, kSeals), 0).code, ErrorCode::Mismatch);
  EXPECT_THAT(error_of(memory(4096, kSeals), ~std::uint64_t{0}).code, ErrorCode::Mismatch);
}

TEST_F(ForeignMemory, MustBeADescriptorThatIsOpen) {
  EXPECT_THAT(error_of(Fd(), 4096).code, ErrorCode::Unavailable);
  EXPECT_THAT(error_of(packet_pair().first, 4096).code, ErrorCode::Mismatch);
}

}  // namespace
}  // namespace wreath
