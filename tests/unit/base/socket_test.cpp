// Sockets between two ends on one host.
#include "src/base/socket.hpp"

#include <gtest/gtest.h>
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

// Set on a connection that exists already it is too late: what bbr began to pace stays paced.
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

}  // namespace
}  // namespace wreath
