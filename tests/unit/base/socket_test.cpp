// Tests sockets and their addresses on one host.
#include "src/base/socket.hpp"

#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <string>

namespace wreath {
namespace {

std::string congestion_control(int socket) {
  std::array<char, 32> name{};
  socklen_t bytes = name.size();
  EXPECT_EQ(::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), &bytes), 0);
  return name.data();
}

// It is too late to choose reno on a connection that exists already: a socket that had bbr goes on pacing.
TEST(Socket, EndsOnOneHostAreUnpacedFromTheirBegin) {
  const Fd probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  set_unpaced(probe.get());
  if (congestion_control(probe.get()) != "reno") GTEST_SKIP() << "run it where the kernel lets programs use reno";
  for (const int family : {AF_INET, AF_INET6}) {
    auto listener = listen_on(SocketAddress::loopback(family, 0));
    if (!listener && family == AF_INET6) continue;
    ASSERT_TRUE(listener) << listener.error().message;
    const auto near = connect_to(local_address(listener->get()), Deadline::after_ms(10'000));
    ASSERT_TRUE(near) << near.error().message;
    ASSERT_TRUE(wait_for(listener->get(), POLLIN, Deadline::after_ms(10'000)));
    const Fd far(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT_EQ(congestion_control(near->get()), "reno");
    EXPECT_EQ(congestion_control(far.get()), "reno");
  }
}

std::string read_back(const std::string& text) {
  const auto address = SocketAddress::parse_ip(text, 7);
  return address ? address->text() : address.error().message;
}

// Users write addresses in these forms. IPv6 may have brackets, and a link-local address has its interface at its end,
// since it means something only there.
TEST(SocketAddress, IsReadAsItIsWritten) {
  EXPECT_EQ(read_back("10.0.0.1"), "10.0.0.1:7");
  EXPECT_EQ(read_back("fd00::1"), "[fd00::1]:7");
  EXPECT_EQ(read_back("[fd00::1]"), "[fd00::1]:7");
  EXPECT_EQ(read_back("fe80::1"), "[fe80::1]:7");
  EXPECT_EQ(read_back("fe80::1%lo"), "[fe80::1%lo]:7");
  EXPECT_EQ(read_back("[fe80::1%lo]"), "[fe80::1%lo]:7");
  EXPECT_EQ(read_back("fe80::1%" + std::to_string(::if_nametoindex("lo"))), "[fe80::1%lo]:7");
  EXPECT_EQ(read_back("fe80::1%nic9"), "'fe80::1%nic9': this host has no interface 'nic9'");
  EXPECT_EQ(read_back("fe80::1%"), "'fe80::1%': this host has no interface ''");
  for (const std::string wrong : {"", "[", "[]", "[fd00::1", "fd00::1]", "[10.0.0.1]", "10.0.0.1%lo", "h0", "[[::1]]"})
    EXPECT_EQ(read_back(wrong), "'" + wrong + "' is not an IP address");
}

TEST(SocketAddress, KeepsItsInterface) {
  const SocketAddress address = SocketAddress::parse_ip("fe80::1%lo", 7).value();
  EXPECT_EQ(address.zone(), ::if_nametoindex("lo"));
  EXPECT_TRUE(address.is_link_local());
  EXPECT_EQ(address.with_port(8).text(), "[fe80::1%lo]:8");
  EXPECT_EQ(SocketAddress::from_ip(address.ip_bytes(), 7).text(), "[fe80::1]:7");
  EXPECT_EQ(SocketAddress::from_ip(address.ip_bytes(), 7).with_zone(address.zone()).text(), address.text());
  EXPECT_FALSE(SocketAddress::parse_ip("fd00::1", 7)->is_link_local());
}

TEST(Socket, SendsLostPacketsAgainEachSecond) {
  constexpr int kTcpRtoMaxMs = 44;
  for (const auto set_options : {set_control_options, set_stream_options}) {
    auto pair = loopback_pair().value();
    int ms = 0;
    socklen_t length = sizeof ms;
    if (::getsockopt(pair.first.get(), IPPROTO_TCP, kTcpRtoMaxMs, &ms, &length) != 0) {
      GTEST_SKIP() << "this kernel does not let programs say so: run it on Linux 6.15 or newer";
    }
    set_options(pair.first.get());
    EXPECT_EQ(::getsockopt(pair.first.get(), IPPROTO_TCP, kTcpRtoMaxMs, &ms, &length), 0);
    EXPECT_EQ(ms, 1000);
  }
}

}  // namespace
}  // namespace wreath
