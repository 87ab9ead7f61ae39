// Tests how the ofi transport chooses a provider and an adapter, and what ends say of themselves. Nothing asks
// libfabric.
#include "transports/ofi/provider.hpp"

#include <gmock/gmock.h>

#include "src/topology/rdma_ports.hpp"
#include "transports/ofi/channel.hpp"

namespace wreath::ofi {
namespace {

using ::testing::HasSubstr;

std::string wanted(std::string_view named, std::string_view filter, bool has_efa) {
  const auto provider = wanted_provider(named, filter, has_efa);
  return provider ? *provider : provider.error().message;
}

TEST(OfiProvider, IsTheNamedOneOrEfa) {
  EXPECT_EQ(wanted("tcp;ofi_rxm", "", false), "tcp;ofi_rxm");
  EXPECT_EQ(wanted("net", "tcp", true), "net");
  EXPECT_EQ(wanted("", "verbs;ofi_rxm", true), "verbs;ofi_rxm");
  EXPECT_EQ(wanted("", "", true), "efa");
  EXPECT_EQ(wanted("", "^tcp", true), "efa");
}

TEST(OfiProvider, IsNoneWhereNothingIsWanted) {
  EXPECT_EQ(wanted("", "", false),
            "there is no EFA adapter, and WREATH_OFI_PROVIDER names no other provider of libfabric");
  EXPECT_EQ(wanted("", "^shm", false), "FI_PROVIDER=^shm does not name one provider; set WREATH_OFI_PROVIDER");
  EXPECT_EQ(wanted("", "tcp,udp", false), "FI_PROVIDER=tcp,udp does not name one provider; set WREATH_OFI_PROVIDER");
  EXPECT_EQ(wanted_provider("", "", false).error().code, ErrorCode::Unavailable);
}

TEST(OfiProvider, OfSharedMemoryIsRefused) {
  EXPECT_THAT(wanted("shm", "", false), HasSubstr("provider shm is not taken: it leaves files of 16 MiB in /dev/shm"));
  EXPECT_THAT(wanted("", "shm", false), HasSubstr("shm is not taken"));
  EXPECT_THAT(wanted("shm;ofi_hook", "", true), HasSubstr("shm is not taken"));
  EXPECT_EQ(wanted("shmem", "", false), "shmem");
}

TEST(OfiProvider, ThatCannotTellIsRefused) {
  EXPECT_THAT(wanted("cxi", "", false), HasSubstr("cxi is not taken: its fi_writemsg"));
  EXPECT_THAT(wanted("", "opx", true), HasSubstr("opx is not taken: its writes without bytes"));
}

TEST(OfiProvider, OfEfaIsNotTheDirectOne) {
  fi_fabric_attr fabric{};
  fi_info info{};
  info.fabric_attr = &fabric;
  EXPECT_TRUE(is_driven(info)) << "it has no name";
  std::string name = "efa";
  fabric.name = name.data();
  EXPECT_TRUE(is_driven(info));
  name = "efa-direct";
  fabric.name = name.data();
  EXPECT_FALSE(is_driven(info));
}

TEST(OfiProvider, ThatIsOrderedTellsApart) {
  fi_tx_attr sent{};
  fi_fabric_attr fabric{};
  fi_info info{};
  info.tx_attr = &sent;
  info.fabric_attr = &fabric;
  std::string name = "tcp;ofi_rxm";
  fabric.prov_name = name.data();
  EXPECT_FALSE(must_tell_apart(info)) << "the word might come first";
  sent.msg_order = FI_ORDER_RMA_WAW;
  EXPECT_TRUE(must_tell_apart(info));
  name = "verbs;ofi_rxm";
  fabric.prov_name = name.data();
  EXPECT_FALSE(must_tell_apart(info));
}

std::string chosen(const std::vector<OfferedAdapter>& all, std::string_view choice, std::string_view interfaces,
                   int rank = 0, std::size_t count = 1) {
  const auto indices = choose_offered(all, choice, interfaces, rank, count);
  return indices ? fmt::format("{}", fmt::join(*indices, " ")) : indices.error().message;
}

TEST(OfiAdapters, OfSocketsLeadToOtherHosts) {
  const std::vector<OfferedAdapter> all{{"lo", true, true}, {"eth0", true}, {"eth0", true}, {"eth1", true}};
  for (const int rank : {0, 1, 2}) EXPECT_EQ(chosen(all, "", "", rank), "1") << "interfaces need not reach each other";
  EXPECT_EQ(chosen(all, "", "=eth1"), "3");
  EXPECT_EQ(chosen(all, "", "lo"), "0");
  EXPECT_EQ(chosen({{"lo", true, true}}, "mlx5", ""), "0") << "WREATH_HCA is for adapters";
  EXPECT_EQ(chosen(all, "", "ib"), "WREATH_HCA and WREATH_SOCKET_IFNAME admit none of lo, eth0, eth1");
}

TEST(OfiAdapters, AreTakenInTurns) {
  const std::vector<OfferedAdapter> all{{"efa_0"}, {"efa_0"}, {"efa_1"}, {"efa_2"}};
  EXPECT_EQ(chosen(all, "", "eth0", 0), "0");
  EXPECT_EQ(chosen(all, "", "eth0", 1), "2");
  EXPECT_EQ(chosen(all, "", "eth0", 3), "0");
  EXPECT_EQ(chosen(all, "^efa_0", "", 0), "2");
  EXPECT_EQ(chosen(all, "^efa_0", "", 1), "3");
}

TEST(OfiAdapters, OfSeveralRailsAreInTheirOrder) {
  const std::vector<OfferedAdapter> all{{"efa_0"}, {"efa_0"}, {"efa_1"}, {"efa_2"}};
  EXPECT_EQ(chosen(all, "", "", 0, 2), "0 2");
  EXPECT_EQ(chosen(all, "", "", 2, 2), "0 3");
  EXPECT_EQ(chosen(all, "", "", 1, 8), "0 2 3");
  const std::vector<OfferedAdapter> sockets{{"lo", true, true}, {"eth0", true}, {"eth1", true}, {"eth2", true}};
  EXPECT_EQ(chosen(sockets, "", "", 1, 2), "1 2");
  EXPECT_EQ(chosen({{"lo", true, true}}, "", "", 0, 2), "0");
}

TEST(OfiLibraryFile, ThatIsMissingOrAnotherIsNamed) {
  const auto missing = OfiLibrary::load("libnothing.so.9");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::Unavailable);
  EXPECT_THAT(missing.error().message, HasSubstr("no libnothing.so.9"));
  EXPECT_THAT(missing.error().message, HasSubstr("install libfabric1"));
  const auto other = OfiLibrary::load("libm.so.6");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().message, "libm.so.6 has no fi_version; install another libfabric");
}

TEST(OfiAddresses, ComeBackAsTheyWere) {
  const OfiAddress address{"tcp;ofi_rxm", 2, 513, std::vector<std::byte>(16, std::byte{7})};
  const auto again = decode_address<OfiAddress>(encode_address(address));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->provider, address.provider);
  EXPECT_EQ(again->format, 2U);
  EXPECT_EQ(again->channel, 513);
  EXPECT_EQ(again->endpoint, address.endpoint);
}

TEST(OfiAddresses, OfStrangersAreChecked) {
  const std::vector<std::byte> good =
      encode_address(OfiAddress{"tcp;ofi_rxm", 2, 1, std::vector<std::byte>(16, std::byte{7})});
  const auto refused = [](const std::vector<std::byte>& bytes) {
    const auto address = decode_address<OfiAddress>(bytes);
    return address ? std::string() : address.error().message;
  };
  EXPECT_EQ(refused(good), "");
  std::vector<std::byte> changed = good;
  changed[0] = std::byte{9};
  EXPECT_EQ(refused(changed), "the peer's address: its version is 9, must be 1");
  for (std::size_t bytes = 0; bytes < good.size(); ++bytes) {
    EXPECT_THAT(refused({good.begin(), good.begin() + static_cast<long>(bytes)}), HasSubstr("bytes are malformed"));
  }
  changed = good;
  changed.push_back(std::byte{0});
  EXPECT_EQ(refused(changed), "the peer's address: its 40 bytes are malformed");
}

}  // namespace
}  // namespace wreath::ofi
