// Makes a network namespace by unshare(2).
#include "perf/compare/network.hpp"

#include <fmt/format.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace wreath::perf {
namespace {

constexpr char kControlFile[] = "/proc/sys/net/ipv4/tcp_congestion_control";

Error refused(const std::string& what) {
  return {ErrorCode::Unavailable, fmt::format("{}: {}", what, std::strerror(errno))};
}

Status raise_loopback() {
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return refused("socket");
  ifreq request{};
  std::strncpy(request.ifr_name, "lo", sizeof request.ifr_name - 1);
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  const int result = ::ioctl(socket, SIOCSIFFLAGS, &request);
  const int error = errno;
  ::close(socket);
  errno = error;
  if (result != 0) return refused("bringing lo up");
  return {};
}

}  // namespace

Status enter_own_network(const std::string& congestion_control) {
  if (::unshare(CLONE_NEWNET) != 0) return refused("a network namespace of its own (needs root)");
  WREATH_TRY(raise_loopback());
  std::ofstream file(kControlFile);
  file << congestion_control << std::flush;
  if (file) return {};
  return Error{ErrorCode::Unavailable, fmt::format("'{}' is no congestion control of this kernel; `sysctl "
                                                   "net.ipv4.tcp_available_congestion_control` lists those it has",
                                                   congestion_control)};
}

std::string congestion_control() {
  std::ifstream file(kControlFile);
  std::string name;
  file >> name;
  return name;
}

}  // namespace wreath::perf
