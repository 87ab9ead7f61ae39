// Adapters of libfabric read and write memory of devices by themselves, where the provider takes it (FI_HMEM). They do
// so over the stand-in, which checks how it is asked. Elsewhere the log says why messages are staged.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "tests/support/device_link.hpp"
#include "tests/support/host_device.hpp"
#include "tests/support/local_ranks.hpp"
#include "tests/support/shuffled_fabric.hpp"
#include "tests/support/surroundings.hpp"
#include "transports/ofi/adapter.hpp"
#include "wreath/device.hpp"

namespace wreath::ofi {
namespace {

using test::DeviceReads;
using test::FabricDevices;
using test::FabricFault;
using test::kDeviceBytes;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::uint32_t kByAddress = FI_VERSION(1, 18);
constexpr std::uint32_t kByDmaBuf = FI_VERSION(1, 20);

class OfiDevices : public ::testing::Test {
 protected:
  void SetUp() override {
    if (fabric_.flush == nullptr)
      GTEST_SKIP() << "this libfabric takes no devices; run it by ctest -R unit_transports_ofi_devices";
  }
  void TearDown() override {
    ranks_.a.reset();
    ranks_.b.reset();
    if (fabric_.flush == nullptr) return;
    fabric_.take_devices({});
    fabric_.behave_at_reads(DeviceReads::Work);
  }
  void link(const FabricDevices& devices, bool has_device = true) {
    fabric_.take_devices(devices);
    const auto end = [has_device](Rank peer) {
      return std::make_unique<test::DeviceEnd>(OfiAdapter::open_all(1 - peer, 2, has_device), peer,
                                               test::device_shape());
    };
    ranks_.link(end(1), end(0));
  }
  std::string adapter() const { return ranks_.a->port->name(0); }

  const test::ShuffledFabric fabric_ = test::ShuffledFabric::find();
  const test::Environment environment_{{{"WREATH_OFI_PROVIDER", "tcp;ofi_rxm"}, {"SHUFFLED_FABRIC_ADAPTERS", "2"}}};
  test::DeviceLink ranks_{[this] { fabric_.flush(); }};
};

// Newer libraries take the dma-buf, older ones the address.
class OfiDeviceVersions : public OfiDevices, public ::testing::WithParamInterface<std::uint32_t> {};

TEST_P(OfiDeviceVersions, AreReadAndWrittenByTheAdapters) {
  link({.version = GetParam(), .offered = true, .holds_writes = true});
  ranks_.let_in();
  const int flushes = ranks_.to.flushes;
  ASSERT_EQ(ranks_.send_and_receive(), "");
  EXPECT_TRUE(ranks_.has_landed());
  EXPECT_EQ(ranks_.to.flushes, flushes + 1);
  EXPECT_EQ(ranks_.a->link->counts().copied_bytes, 0U);
  EXPECT_EQ(ranks_.a->link->counts().by_reference, 1U);
  EXPECT_EQ(ranks_.b->link->counts().landed_bytes, kDeviceBytes);
}

INSTANTIATE_TEST_SUITE_P(OfiDevices, OfiDeviceVersions, ::testing::Values(kByAddress, kByDmaBuf));

// The stand-in would show a transport that leaves the flush out.
TEST_F(OfiDevices, SeeNothingWithoutAFlush) {
  link({.version = kByDmaBuf, .offered = true, .holds_writes = true});
  ranks_.let_in();
  ranks_.to.leaves_out = true;
  ASSERT_EQ(ranks_.send_and_receive(), "");
  EXPECT_EQ(ranks_.received(), ranks_.to.data());
  EXPECT_FALSE(ranks_.has_landed());
}

// Drivers cannot flush, and each rail reads.
class OfiDevicesWithoutFlush : public OfiDevices {
 protected:
  void link_and_let_in() {
    link({.version = kByDmaBuf, .offered = true, .holds_writes = true});
    ranks_.from.can_flush = ranks_.to.can_flush = false;
    const std::size_t reads = fabric_.count_reads();
    ranks_.let_in();
    EXPECT_EQ(fabric_.count_reads(), reads + 4) << "an adapter did not try a read";
  }

  const test::Environment rails_{{{"WREATH_RAILS", "2"}}};
};

// The read of an adapter finds what that adapter has written, and nothing else.
TEST_F(OfiDevicesWithoutFlush, AreFlushedByReads) {
  link_and_let_in();
  const std::size_t reads = fabric_.count_reads();
  ASSERT_EQ(ranks_.send_and_receive(), "");
  EXPECT_TRUE(ranks_.has_landed());
  EXPECT_EQ(fabric_.count_reads(), reads + 2);
  EXPECT_EQ(ranks_.b->link->counts().landed_bytes, kDeviceBytes);
  EXPECT_EQ(ranks_.to.flushes, 2) << "the driver was asked once for each adapter";
}

TEST_F(OfiDevicesWithoutFlush, AreReadByANewEndpointWhereAReadFails) {
  link_and_let_in();
  fabric_.behave_at_reads(DeviceReads::FailOnce);
  ASSERT_EQ(ranks_.send_and_receive(), "");
  EXPECT_TRUE(ranks_.has_landed());
}

struct UnflushedRow {
  std::string name;
  DeviceReads reads;
  std::string reason;
  bool recovers;  // a later read may be right
};

class OfiDevicesUnflushed : public OfiDevicesWithoutFlush, public ::testing::WithParamInterface<UnflushedRow> {};

TEST_P(OfiDevicesUnflushed, GiveNoMessage) {
  link_and_let_in();
  fabric_.behave_at_reads(GetParam().reads);
  EXPECT_THAT(ranks_.send_and_receive(),
              AllOf(HasSubstr("tcp;ofi_rxm fake_"), HasSubstr("memory of a device was not flushed: "),
                    HasSubstr(GetParam().reason)));
  EXPECT_EQ(peek(ranks_.b->link->recv_fifo(0)), nullptr);
  fabric_.behave_at_reads(DeviceReads::Work);
  EXPECT_EQ(static_cast<bool>(ranks_.b->port->flush(ranks_.to.data(), 0b11)), GetParam().recovers);
}

INSTANTIATE_TEST_SUITE_P(OfiDevices, OfiDevicesUnflushed,
                         ::testing::Values(UnflushedRow{"Failed", DeviceReads::Fail, "Input/output error", true},
                                           UnflushedRow{"Stalled", DeviceReads::Stall, "nothing came within 5000 ms",
                                                        false}),
                         [](const auto& row) { return row.param.name; });

TEST_F(OfiDevices, AreOnlyReadWhereNobodyFlushes) {
  link({.version = kByDmaBuf, .offered = true, .not_read = true});
  ranks_.to.can_flush = false;
  ranks_.let_in();
  ASSERT_EQ(ranks_.send_and_receive(), "");
  EXPECT_NE(ranks_.received(), ranks_.to.data());
  EXPECT_TRUE(std::equal(ranks_.received(), ranks_.received() + kDeviceBytes, ranks_.from.data()));
  EXPECT_EQ(ranks_.a->link->counts().copied_bytes, 0U);
}

// Hosts without devices choose a provider as if there were none.
TEST_F(OfiDevices, AreAskedForWhereARankHasOne) {
  fabric_.take_devices({.version = kByDmaBuf, .offered = true});
  for (const bool has_device : {false, true}) {
    const auto found = find_providers(0, has_device).value();
    EXPECT_EQ((found[0].info->caps & FI_HMEM) != 0, has_device);
    EXPECT_EQ((found[0].info->domain_attr->mr_mode & FI_MR_HMEM) != 0, has_device);
    EXPECT_EQ(found[0].no_device_memory.empty(), has_device);
  }
}

struct StagedRow {
  std::string name;
  FabricDevices devices;
  bool has_device;
  std::string reason;
};

class OfiDevicesStaged : public OfiDevices, public ::testing::WithParamInterface<StagedRow> {};

TEST_P(OfiDevicesStaged, AreNamedOnceWithTheReason) {
  link(GetParam().devices, GetParam().has_device);
  ::testing::internal::CaptureStderr();
  for (int time = 0; time < 2; ++time) {
    const Status let = ranks_.a->link->let_in(ranks_.from.range());
    ASSERT_FALSE(let);
    EXPECT_EQ(let.error().code, ErrorCode::Unavailable);
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, AllOf(HasSubstr(adapter() + ": 256K of memory of a device cannot be registered, and are copied: "),
                          HasSubstr(GetParam().reason)));
  EXPECT_EQ(said.find("cannot be registered"), said.rfind("cannot be registered"));
}

INSTANTIATE_TEST_SUITE_P(
    OfiDevices, OfiDevicesStaged,
    ::testing::Values(
        StagedRow{"NoDevice", {.version = kByDmaBuf, .offered = true}, false, "this rank has no device"},
        StagedRow{"NotOffered",
                  {.version = kByDmaBuf},
                  true,
                  "libfabric's provider tcp;ofi_rxm takes none (FI_HMEM): fi_getinfo: No data available"},
        StagedRow{"OldLibrary", {.offered = true}, true, "may call CUDA while kernels wait for messages; take 1.18"},
        StagedRow{"NeedsCuda",
                  {.version = kByDmaBuf, .offered = true, .needs_cuda = true},
                  true,
                  "its endpoint would call CUDA: fi_setopt: Operation not supported"},
        StagedRow{"Refused",
                  {.version = kByDmaBuf, .offered = true, .refuses = true},
                  true,
                  "tcp;ofi_rxm fake_0: fi_mr_regattr: Function not implemented"}),
    [](const auto& row) { return row.param.name; });

// Whole calls from and to memory of the host device.
class OfiDeviceCalls : public OfiDevices {
 protected:
  static constexpr std::size_t kCount = 1 << 18;  // of each rank

  void SetUp() override {
    OfiDevices::SetUp();
    if (!test::has_host_device()) GTEST_SKIP() << test::kNeedsDevices;
  }
  // Makes two ranks, with memory of their own.
  void make(const FabricDevices& devices) {
    fabric_.take_devices(devices);
    CommunicatorOptions options;
    options.transports = {"ofi"};
    options.device = "host";
    communicators_ = std::make_unique<test::LocalRanks>(2, options);
    for (int rank = 0; rank < 2; ++rank) {
      in_.push_back(host_device().allocate(kCount * 4, MemoryUse::Exportable).value());
      out_.push_back(host_device().allocate(2 * kCount * 4, MemoryUse::Exportable).value());
    }
  }
  // Gathers the memory of both ranks, and compares what each has.
  void gather(int call) {
    communicators_->run([&](Communicator& communicator) {
      const auto me = static_cast<std::size_t>(communicator.rank());
      std::vector<std::int32_t> values(kCount);
      std::iota(values.begin(), values.end(), communicator.rank() * 1000 + call);
      host_device().copy(in_[me].data(), values.data(), kCount * 4).value();
      const Status done = communicator.all_gather(in_[me].data(), out_[me].data(), kCount, DataType::Int32);
      ASSERT_TRUE(done) << done.error().message;
      std::vector<std::int32_t> got(2 * kCount);
      host_device().copy(got.data(), out_[me].data(), got.size() * 4).value();
      for (std::size_t i = 0; i < got.size(); ++i) {
        const auto rank = static_cast<std::int32_t>(i / kCount);
        ASSERT_EQ(got[i], rank * 1000 + call + static_cast<std::int32_t>(i % kCount)) << "element " << i;
      }
    });
  }
  std::map<std::string_view, std::uint64_t> counted() {
    std::map<std::string_view, std::uint64_t> sums;
    for (const Communicator& each : communicators_->communicators()) {
      for (const WireCounts& wire : each.wire_counts()) {
        sums["bytes"] += wire.bytes;
        for (const WireCounts::Count& count : wire.counts) sums[count.name] += count.number;
      }
    }
    return sums;
  }

  const test::Environment waiting_{{{"WREATH_LANDING_WAIT_MS", "60000"}, {"WREATH_RAILS", "2"}}};
  std::vector<DeviceMemory> in_;
  std::vector<DeviceMemory> out_;
  std::unique_ptr<test::LocalRanks> communicators_;
};

TEST_F(OfiDeviceCalls, AreCopiedByNoCore) {
  make({.version = kByDmaBuf, .offered = true});
  gather(0);
  auto before = counted();
  for (int call = 1; call < 4; ++call) gather(call);
  auto after = counted();
  EXPECT_GE(after["bytes"] - before["bytes"], 3 * 2 * kCount * 4);
  EXPECT_EQ(after["landed_bytes"] - before["landed_bytes"], after["bytes"] - before["bytes"]);
  EXPECT_EQ(after["copied_bytes"], before["copied_bytes"]);
}

TEST_F(OfiDeviceCalls, AreRightWhereTheProviderTakesNone) {
  make({.version = kByDmaBuf});
  for (int call = 0; call < 3; ++call) gather(call);
  EXPECT_EQ(counted()["landed_bytes"], 0U);
}

// Writes that failed may arrive late, and the adapter's endpoint is opened anew.
TEST_F(OfiDeviceCalls, GoOnWithoutALostAdapter) {
  make({.version = kByDmaBuf, .offered = true});
  gather(0);
  fabric_.spoil(0, 1, FabricFault::Fails);
  for (int call = 1; call < 6; ++call) gather(call);
  EXPECT_THAT(communicators_->communicators()[0].transport_to(1), HasSubstr("lost: tcp;ofi_rxm fake_1"));
}

}  // namespace
}  // namespace wreath::ofi
