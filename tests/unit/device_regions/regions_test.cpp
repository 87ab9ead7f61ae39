// Tests regions of a device's memory, on every device that is here: refusals and their reasons, names, and that nothing
// is left behind. The tests in tests/multiprocess/device_memory run between processes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>

#include "src/executor/block/device_fifo.hpp"
#include "src/fifo/access.hpp"
#include "tests/unit/device/devices.hpp"
#include "tests/unit/device_regions/ends.hpp"
#include "tests/unit/transports_mapped/processes.hpp"

namespace wreath {
namespace {

using testing::HasSubstr;

class Regions : public testing::TestWithParam<LibraryDevice*> {
 protected:
  static LibraryDevice& device() { return *GetParam(); }
  test::End own{device(), 0};
  test::End peer{device(), 1};

  void SetUp() override {
    own.link_to(peer);
    peer.link_to(own);
  }
  // Returns an offer of memory that the peer names, with its descriptor where it has one.
  Offer offer_of_peer() { return std::move(peer.announce(memory_).front().offer); }
  static void set_word(Offer& offer, std::size_t word, std::uint64_t value) {
    std::memcpy(offer.bytes.data() + word * sizeof value, &value, sizeof value);
  }
  Error refused(Offer offer) const {
    const Status status = own.link->accept_region(1, std::move(offer));
    EXPECT_FALSE(status);
    return status ? Error{} : status.error();
  }
  DeviceMemory memory_ = device().allocate(100'000, MemoryUse::Exportable).value();
};
INSTANTIATE_TEST_SUITE_P(Devices, Regions, testing::ValuesIn(test::devices()), test::name_of);

// Returns the number of lines of /proc/self/maps that are memory of devices here.
int mappings() {
  std::ifstream maps("/proc/self/maps");
  int lines = 0;
  for (std::string line; std::getline(maps, line);) lines += line.find("memfd:") != std::string::npos ? 1 : 0;
  return lines;
}

// An offer has the words magic, id, bytes, exported, exported bytes, and then a handle.
TEST_P(Regions, RefuseOffersThatAreNone) {
  Offer whole = offer_of_peer();
  const auto copy = [&] {
    Offer offer;
    offer.bytes = whole.bytes;
    return offer;
  };
  const int before = mappings();
  const std::size_t regions = region_count();
  EXPECT_THAT(refused(Offer()).message, HasSubstr("region 1 of rank 1: a peer's offer of memory has 0"));
  Offer magic = copy();
  set_word(magic, 0, 7);
  EXPECT_THAT(refused(std::move(magic)).message, HasSubstr("a peer's offer of memory has"));
  Offer bytes = copy();
  set_word(bytes, 1, 1);
  set_word(bytes, 2, std::uint64_t{1} << 40);
  EXPECT_THAT(refused(std::move(bytes)).message, HasSubstr("says 1099511627776 bytes of an allocation of"));
  Offer wrong_bytes = copy();
  set_word(wrong_bytes, 2, 4096);
  EXPECT_THAT(refused(std::move(wrong_bytes)).message, HasSubstr("says 4096 bytes of region"));
  Offer cut = copy();
  cut.bytes.resize(20);
  EXPECT_THAT(refused(std::move(cut)).message, HasSubstr("a peer's offer of device memory has 20 bytes"));
  EXPECT_FALSE(own.link->accept_region(kMaximumRegions, copy()));
  EXPECT_EQ(region_count(), regions);
  EXPECT_EQ(mappings(), before);
  EXPECT_EQ(own.segment->reads(1)->regions, 0u);
}

// The descriptor is one of something else. The peer is not at fault where memory cannot be imported: its messages are
// staged.
TEST_P(Regions, AreNotMappedFromForeignDescriptors) {
  Offer offer = offer_of_peer();
  if (offer.descriptors.empty()) GTEST_SKIP() << "this device has handles: run it on one with descriptors";
  const std::size_t regions = region_count();
  set_word(offer, 1, 3);
  ASSERT_EQ(::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), offer.descriptors[0]), offer.descriptors[0]);
  const Status status = own.link->accept_region(1, std::move(offer));
  EXPECT_TRUE(status || status.error().code == ErrorCode::Mismatch) << status.error().message;
  EXPECT_EQ(own.segment->reads(1)->regions, 0u);
  EXPECT_EQ(region_count(), regions);
}

TEST_P(Regions, AreNoMemoryOfTheHost) {
  const Offer host = std::move(peer.segment->offer(0, false)).value();
  std::uint64_t id = 0;
  std::memcpy(&id, host.bytes.data() + sizeof id, sizeof id);
  Offer offer = offer_of_peer();
  set_word(offer, 1, id);
  EXPECT_THAT(refused(std::move(offer)).message, HasSubstr("which is memory of the host"));
}

TEST_P(Regions, AreOfLivingMemoryThatPeersCanMapOnly) {
  OwnSegment& segment = *own.segment;
  const auto plain = device().allocate(1000).value();
  EXPECT_FALSE(segment.name_device_memory(plain.data(), 10));
  int value = 0;
  EXPECT_FALSE(segment.name_device_memory(&value, 4));
  // The function name_memory() is for memory of the host.
  EXPECT_FALSE(segment.name_memory(memory_.data(), 4));
  auto first = device().allocate(70'000, MemoryUse::Exportable).value();
  EXPECT_EQ(segment.name_device_memory(first.data() + 7, 10).value().offset, 7u);
  EXPECT_EQ(segment.name_device_memory(first.data(), 10).value().index, 1u);
  EXPECT_FALSE(segment.name_device_memory(first.data(), std::size_t{1} << 30));
  first = DeviceMemory();
  // The memory was freed before any peer learned of it.
  EXPECT_TRUE(segment.take_announcements(1).value().empty());
  // The new memory may have the same address.
  first = device().allocate(70'000, MemoryUse::Exportable).value();
  EXPECT_EQ(segment.name_device_memory(first.data(), 10).value().index, 2u);
  EXPECT_EQ(segment.take_announcements(1).value().size(), 1u);
}

// Staging needs indices, too.
TEST_P(Regions, AreNotMoreThanTheTableHas) {
  std::vector<DeviceMemory> all;
  std::optional<RegionName> last;
  do {
    ASSERT_LT(all.size(), std::size_t{kMaximumRegions});
    all.push_back(device().allocate(4096, MemoryUse::Exportable).value());
    last = own.segment->name_device_memory(all.back().data(), 4096);
  } while (last);
  EXPECT_GT(all.size(), std::size_t{kMaximumRegions} / 2);
  EXPECT_TRUE(own.segment->name_device_memory(all.front().data(), 4096));
  for (std::uint16_t lane = 0; lane < test::kShape.lanes; ++lane) EXPECT_TRUE(own.segment->staging(1, lane)) << lane;
}

TEST_P(Regions, AreToldToPeersThatMayMapThem) {
  test::End stranger(device(), 2);
  ASSERT_TRUE(peer.segment->offer(2, true));
  ASSERT_TRUE(peer.segment->name_device_memory(memory_.data(), 4));
  EXPECT_TRUE(peer.segment->take_announcements(2).value().empty());
  EXPECT_EQ(peer.segment->take_announcements(0).value().size(), 1u);
}

TEST_P(Regions, LeaveNothingBehind) {
  const auto once = [&] {
    test::End first(device(), 0);
    test::End second(device(), 1);
    first.link_to(second);
    second.link_to(first);
    DeviceMemory memory = device().allocate(5'000, MemoryUse::Exportable).value();
    for (Announcement& news : first.announce(memory)) {
      second.link->accept_region(news.index, std::move(news.offer)).value();
      // The link takes no second offer for one index.
      EXPECT_FALSE(second.link->accept_region(news.index, Offer()));
    }
    memory = DeviceMemory();
  };
  once();
  const int descriptors = open_descriptors();
  const std::size_t regions = region_count();
  const int before = mappings();
  for (int i = 0; i < 200; ++i) once();
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(region_count(), regions);
  EXPECT_EQ(mappings(), before);
}

// The host's code, blocks of the device and blocks of another device look up the region that a slot names.
TEST_P(Regions, AreReachedByTheirDevice) {
  const auto news = own.announce(memory_);
  SendFifo& send = own.link->send_fifo(1);
  RecvFifo& recv = peer.link->recv_fifo(1);
  const std::uint64_t& mapped = own.link->mapped()->mapped_regions();
  EXPECT_EQ(mapped, 0u);
  SlotHeader& slot = next_slot(send);
  slot.region = news.front().index;
  slot.offset = 100;
  slot.bytes = 1'000;
  publish(send);
  EXPECT_EQ(locate(recv, *peek(recv)).state, Locating::Unmapped);
  Offer offer;
  offer.bytes = news.front().offer.bytes;
  peer.link->accept_region(news.front().index, std::move(offer)).value();
  EXPECT_EQ(mapped, 1u << news.front().index);
  const std::byte* const there = device().address_in_kernels(memory_.data()) + 100;
  // The function find_at() is for memory of the host.
  EXPECT_EQ(Region::find_at(there), nullptr);
  const Located by_host = locate(recv, *peek(recv));
  EXPECT_EQ(by_host.state, Locating::Fetched);
  EXPECT_EQ(by_host.data, there);
  EXPECT_EQ(by_host.device, number_of(device()));
  PulledMessage pulled;
  DeviceRecvFifo by_blocks{recv};
  by_blocks.pulled = &pulled;
  by_blocks.device = number_of(device());
  EXPECT_EQ(locate(by_blocks, *peek(recv)).state, Locating::Found);
  EXPECT_EQ(locate(by_blocks, *peek(recv)).data, there);
  by_blocks.device = number_of(device()) + 1;
  // The blocks ask the host for the region.
  EXPECT_EQ(locate(by_blocks, *peek(recv)).state, Locating::Unmapped);
  EXPECT_EQ(pulled.wanted, recv.next);
  // The offset is beyond the size to which a device may round the region up.
  slot.offset = std::uint64_t{1} << 30;
  EXPECT_EQ(locate(recv, *peek(recv)).state, Locating::Invalid);
}

}  // namespace
}  // namespace wreath
