// Links over device memory in one process: what is refused and why, and that nothing is left behind. Which rows work
// over them: tests/conformance/block_executor, and between processes tests/multiprocess/cuda_ipc.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "src/fifo/access.hpp"
#include "tests/support/fake_cuda.hpp"
#include "tests/unit/device/devices.hpp"
#include "tests/unit/transports_cuda_ipc/ends.hpp"
#include "tests/unit/transports_mapped/processes.hpp"

namespace wreath {
namespace {

using test::DeviceEnd;
using testing::HasSubstr;

constexpr FifoShape kShape{.lanes = 2, .slot_count = 4, .slot_bytes = 4096, .first_sequence = 0xFFFFFFFEU, .epoch = 0};
constexpr std::size_t kOfferWords = 5;  // magic, id, bytes, exported, exported bytes; then a handle

class Links : public testing::TestWithParam<LibraryDevice*> {
 protected:
  static LibraryDevice& device() { return *GetParam(); }
  DeviceEnd own{device(), 0, 1, kShape};
  DeviceEnd peer{device(), 1, 1, kShape};
  // The peer as if it were in another process.
  Endpoint elsewhere() const { return {1, 2, 1, device().identity()}; }
  Endpoint seen_from_elsewhere() const { return {0, 2, 1, device().identity()}; }

  Offer offer_of_peer() const { return peer.offer(seen_from_elsewhere()); }
  static void set_word(Offer& offer, std::size_t word, std::uint64_t value) {
    std::memcpy(offer.bytes.data() + word * sizeof value, &value, sizeof value);
  }
  Error refused(Offer offer) const {
    const auto link = own.connect(elsewhere(), std::move(offer));
    EXPECT_FALSE(link);
    return link ? Error{} : link.error();
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Links, testing::ValuesIn(test::devices()), test::name_of);

// Lines of /proc/self/maps that are memory of devices here.
int mappings() {
  std::ifstream maps("/proc/self/maps");
  int lines = 0;
  for (std::string line; std::getline(maps, line);) lines += line.find("memfd:") != std::string::npos ? 1 : 0;
  return lines;
}

TEST_P(Links, RefuseOffersThatAreNone) {
  const int descriptors = open_descriptors();
  const int before = mappings();
  const std::size_t regions = region_count();
  EXPECT_THAT(refused(Offer()).message,
              HasSubstr("the control segment of rank 1: a peer's offer of device memory has 0"));
  Offer magic = offer_of_peer();
  set_word(magic, 0, 7);
  EXPECT_THAT(refused(std::move(magic)).message, HasSubstr("wrong magic"));
  Offer bytes = offer_of_peer();
  set_word(bytes, 1, 1);
  set_word(bytes, 2, std::uint64_t{1} << 40);
  EXPECT_THAT(refused(std::move(bytes)).message, HasSubstr("says 1099511627776 bytes of an allocation of"));
  Offer nowhere = offer_of_peer();
  set_word(nowhere, 1, 1);
  set_word(nowhere, 3, 0);
  EXPECT_THAT(refused(std::move(nowhere)).message, HasSubstr("region 0000000000000001 is not of this process"));
  Offer small = offer_of_peer();
  set_word(small, 1, 2);
  set_word(small, 2, 4096);
  EXPECT_THAT(refused(std::move(small)).message, HasSubstr("4096 bytes where at least"));
  EXPECT_EQ(region_count(), regions);
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(mappings(), before);
}

// A descriptor of something else: a file, or memory of another size.
TEST_P(Links, RefuseForeignDescriptors) {
  Offer offer = offer_of_peer();
  if (offer.descriptors.empty()) GTEST_SKIP() << "this device has handles: run it on one with descriptors";
  const std::size_t regions = region_count();
  set_word(offer, 1, 3);
  ASSERT_EQ(::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), offer.descriptors[0]), offer.descriptors[0]);
  const Error error = refused(std::move(offer));
  EXPECT_TRUE(error.code == ErrorCode::Mismatch || error.code == ErrorCode::System) << error.message;
  EXPECT_THAT(error.message, HasSubstr("the control segment of rank 1: "));
  EXPECT_EQ(region_count(), regions);
}

TEST_P(Links, RefuseMemoryOfTheHost) {
  const auto segment = std::move(OwnSegment::create(1, 2, kShape, false)).value();
  const Offer host = std::move(segment->offer(0, false)).value();
  std::uint64_t id = 0;
  std::memcpy(&id, host.bytes.data() + sizeof id, sizeof id);
  Offer offer = offer_of_peer();
  set_word(offer, 1, id);
  EXPECT_THAT(refused(std::move(offer)).message, HasSubstr("which is memory of the host"));
}

TEST_P(Links, TellWhyAPeerIsOutOfReach) {
  const auto reason = [&](const Endpoint& endpoint) {
    const Status status = own.transport->reachable(own.endpoint, endpoint);
    EXPECT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::Unavailable);
    return status.error().message;
  };
  EXPECT_TRUE(own.transport->reachable(own.endpoint, peer.endpoint));
  EXPECT_EQ(reason({1, 2, 2, device().identity()}), "rank 1 is on another host");
  EXPECT_EQ(reason({1, 2, 1}), "rank 1 has no device");
  const bool host = own.endpoint.device.kind == EndpointDevice::Kind::Host;
  EXPECT_THAT(reason({1, 2, 1, {host ? EndpointDevice::Kind::Cuda : EndpointDevice::Kind::Host}}),
              HasSubstr("rank 1 is on another device: "));
}

TEST(CudaIpc, NeedsADeviceAndASegmentOnIt) {
  TransportContext context{{0, 1, 1}, 2, kShape, nullptr};
  const TransportRow& row = *find_transport("cuda_ipc");
  EXPECT_EQ(row.fifos, FifoMemory::Device);
  EXPECT_EQ(row.make(context).error().message, "cuda_ipc: this rank has no device");
  context.device = &host_device();
  EXPECT_THAT(row.make(context).error().message, HasSubstr("no control segment in its device's memory"));
}

TEST_P(Links, NameLivingMemoryThatPeersCanMapOnly) {
  OwnSegment& segment = *own.segment;
  static_cast<void>(own.offer(peer.endpoint));
  const auto plain = device().allocate(1000).value();
  EXPECT_FALSE(segment.name_memory(plain.data(), 10));
  int value = 0;
  EXPECT_FALSE(segment.name_memory(&value, 4));
  auto first = device().allocate(70'000, MemoryUse::Exportable).value();
  EXPECT_EQ(segment.name_memory(first.data() + 7, 10).value().offset, 7u);
  EXPECT_EQ(segment.name_memory(first.data(), 10).value().index, 1u);
  EXPECT_FALSE(segment.name_memory(first.data(), std::size_t{1} << 30));
  first = DeviceMemory();
  EXPECT_TRUE(segment.take_announcements(1).value().empty());        // it was freed before anybody was told
  first = device().allocate(70'000, MemoryUse::Exportable).value();  // maybe at the same address
  EXPECT_EQ(segment.name_memory(first.data(), 10).value().index, 2u);
  EXPECT_EQ(segment.take_announcements(1).value().size(), 1u);
}

TEST_P(Links, LeaveNothingBehind) {
  const auto once = [&] {
    const DeviceEnd first(device(), 0, 1, kShape);
    const DeviceEnd second(device(), 1, 1, kShape);
    const auto there = first.connect(second.endpoint, second.offer(first.endpoint)).value();
    const auto back = second.connect(first.endpoint, first.offer(second.endpoint)).value();
    there->prepare(1).value();
    auto announced = std::move(first.segment->take_announcements(1)).value();
    for (Announcement& news : announced) {
      back->accept_region(news.index, std::move(news.offer)).value();
      EXPECT_FALSE(back->accept_region(news.index, Offer()));  // a second time
    }
    EXPECT_FALSE(back->accept_region(kMaximumRegions, Offer()));
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

// Host code does what a block would: its memory is reached by the host here, too.
TEST_P(Links, CarryMessagesThroughStagingAndByReference) {
  const bool host_reaches = &device() == &host_device() || test::FakeCuda::find();
  if (!host_reaches) GTEST_SKIP() << "memory of a GPU: run it with the stand-in (unit_transports_cuda_ipc_fake_cuda)";
  const auto there = own.connect(peer.endpoint, peer.offer(own.endpoint)).value();
  const auto back = peer.connect(own.endpoint, own.offer(peer.endpoint)).value();
  there->prepare(1).value();
  SendFifo& send = there->send_fifo(1);
  RecvFifo& recv = back->recv_fifo(1);
  ASSERT_TRUE(has_credit(send));
  std::memset(stage(send), 0x77, 100);
  next_slot(send).bytes = 100;
  publish(send);
  const SlotHeader* slot = peek(recv);
  ASSERT_NE(slot, nullptr);
  EXPECT_EQ(locate(recv, *slot).state, Locating::Unmapped);
  auto announced = std::move(own.segment->take_announcements(1)).value();
  for (Announcement& news : announced) {
    back->accept_region(news.index, std::move(news.offer)).value();
  }
  ASSERT_EQ(locate(recv, *slot).state, Locating::Found);
  EXPECT_EQ(locate(recv, *slot).data[99], std::byte{0x77});
  EXPECT_TRUE(read_is_valid(*recv.owner_aborted));
  own.segment->set_aborted();
  EXPECT_FALSE(read_is_valid(*recv.owner_aborted));
  consume(recv);
  EXPECT_TRUE(drained(send));
}

}  // namespace
}  // namespace wreath
