// Tests which device a rank gets, and that its peers learn of it.
#include "src/communicator/own_device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "src/bootstrap/bootstrap.hpp"
#include "src/device/runs/device_parts.hpp"
#include "wreath/communicator.hpp"

namespace wreath {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(OwnDevice, IsNamedAsDevicesAre) {
  for (const char* const good : {"", "host", "none", "cuda:0", "cuda:17", "cuda:0,cuda:1,none"}) {
    EXPECT_TRUE(check_device_names(good)) << good;
  }
  for (const char* const bad :
       {"gpu", "cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "host,", ",", "cuda:99999999999"}) {
    const Status refused = check_device_names(bad);
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().code, ErrorCode::InvalidArgument);
    EXPECT_THAT(refused.error().message, HasSubstr(std::string("device (WREATH_DEVICE) = ") + bad + ": '"));
  }
}

TEST(OwnDevice, IsTheRanksPlaceInTheList) {
  Device* const host = &host_device();
  EXPECT_THAT(devices_of_ranks("host,none", 3).value(), ElementsAre(host, nullptr, host));
  // The program uses no CUDA, so its ranks get no device.
  EXPECT_THAT(devices_of_ranks("", 2).value(), ElementsAre(nullptr, nullptr));
  EXPECT_EQ(identity_of(host).kind, EndpointDevice::Kind::Host);
  EXPECT_EQ(identity_of(nullptr).kind, EndpointDevice::Kind::None);
}

TEST(OwnDevice, ThatIsNotThereIsAnErrorOfTheStart) {
  CommunicatorOptions options;
  options.device = "cuda:4711";
  const auto none = Communicator::create_local(2, options);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("device (WREATH_DEVICE) = cuda:4711: "));
  options.device = "gpu";
  const auto bad = Communicator::create_local(2, options);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, ErrorCode::InvalidArgument);
}

TEST(OwnDevice, IsToldToPeersOfTheProcess) {
  const EndpointDevice gpu{EndpointDevice::Kind::Cuda, {1, 2, 3}};
  const auto members = join_local(2, "", std::vector<EndpointDevice>{gpu, {}}).value();
  for (const Membership& own : members) {
    EXPECT_EQ(own.members[0].endpoint.device, gpu);
    EXPECT_EQ(own.members[1].endpoint.device, EndpointDevice());
  }
}

TEST(OwnDevice, IsToldToPeersThroughTheMeetingPoint) {
  const UniqueId id = UniqueId::create().value();
  const auto meet = [&](int rank) {
    BootstrapRequest request{};
    request.rank = rank;
    request.ranks = 2;
    request.timeout_ms = 60'000;
    request.device = {EndpointDevice::Kind::Cuda, {static_cast<std::uint8_t>(rank), 5, 255}};
    const auto membership = join(id, request);
    ASSERT_TRUE(membership) << membership.error().message;
    for (int peer : {0, 1}) {
      const EndpointDevice expected{EndpointDevice::Kind::Cuda, {static_cast<std::uint8_t>(peer), 5, 255}};
      EXPECT_EQ(membership->members[static_cast<std::size_t>(peer)].endpoint.device, expected);
    }
  };
  std::jthread other([&] { meet(1); });
  meet(0);
}

}  // namespace
}  // namespace wreath
