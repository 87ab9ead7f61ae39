// Checks the interfaces, and the kernel's settings for TCP.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "src/topology/kernel_files.hpp"
#include "tools/doctor/findings.hpp"

namespace wreath {
namespace {

constexpr std::int64_t kFast = 10'000;  // Mbit/s

bool is_card(const NetworkInterface& interface) {
  return interface.kind == "ethernet" || interface.kind == "infiniband" || interface.kind == "bond";
}

std::string text_of(const NetworkInterface& interface) {
  std::string text = interface.kind + " " + interface.state;
  if (interface.speed_mbit > 0) text += fmt::format(", {:g} Gbit/s", static_cast<double>(interface.speed_mbit) / 1000);
  text += fmt::format(", mtu {}", interface.mtu);
  if (!interface.addresses.empty()) text += fmt::format(", {}", fmt::join(interface.addresses, " "));
  return text;
}

// Returns the words of a file as numbers, such as "4096 131072 6291456".
std::vector<std::int64_t> numbers_of(const std::string& path) {
  std::istringstream words(line_of(path));
  std::vector<std::int64_t> numbers;
  for (std::int64_t number = 0; words >> number;) numbers.push_back(number);
  return numbers;
}

void check_buffers(const Surroundings& surroundings, Findings& findings) {
  constexpr std::int64_t kEnough = 4 << 20;  // 10 Gbit/s over 3 ms
  for (const char* which : {"tcp_rmem", "tcp_wmem"}) {
    const auto sizes = numbers_of(fmt::format("{}/proc/sys/net/ipv4/{}", surroundings.root, which));
    if (sizes.size() != 3) continue;
    const std::string text = fmt::format("at most {} a connection", size_text(static_cast<std::uint64_t>(sizes[2])));
    if (sizes[2] >= kEnough) {
      findings.ok(which, text);
    } else {
      findings.note(which, text + "; fast networks want more in flight",
                    fmt::format("as root: sysctl -w net.ipv4.{}='4096 131072 33554432'", which));
    }
  }
}

// Checks whether reno is allowed. The library asks for it between ranks of one host, since reno does not pace.
void check_congestion(const Surroundings& surroundings, Findings& findings) {
  const std::string folder = surroundings.root + "/proc/sys/net/ipv4/";
  const std::string present = line_of(folder + "tcp_congestion_control");
  if (present.empty()) return;
  const std::string allowed = fmt::format(" {} ", line_of(folder + "tcp_allowed_congestion_control"));
  if (present == "reno" || allowed.find(" reno ") != std::string::npos) {
    return findings.ok("congestion control", present + "; reno between ranks of one host");
  }
  findings.note("congestion control", present + ", and reno is not allowed: tcp within a host may be paced",
                fmt::format("as root: sysctl -w net.ipv4.tcp_allowed_congestion_control='reno {}'", present));
}

void check_backlog(const Surroundings& surroundings, Findings& findings) {
  const auto most = number_of(surroundings.root + "/proc/sys/net/core/somaxconn");
  if (!most) return;
  if (*most >= 1024) return findings.ok("somaxconn", fmt::format("{} connections may wait", *most));
  findings.note("somaxconn", fmt::format("{} connections may wait: large jobs take longer to meet", *most),
                "as root: sysctl -w net.core.somaxconn=4096");
}

}  // namespace

void check_interfaces(const Surroundings& surroundings, Findings& findings) {
  bool any = false;
  for (const NetworkInterface& interface : surroundings.topology.interfaces) {
    if (interface.kind == "loopback" && interface.state == "down") {
      findings.problem(interface.name, "loopback is down: tcp within this host cannot work",
                       fmt::format("as root: ip link set {} up", interface.name));
    }
    if (!is_card(interface)) continue;
    if (interface.state == "down") {
      findings.note(interface.name, text_of(interface),
                    fmt::format("where it is meant to be used, as root: ip link set {} up; then look at its cable",
                                interface.name));
      continue;
    }
    any = true;
    const bool small = interface.kind == "ethernet" && interface.speed_mbit >= kFast && interface.mtu < 9000;
    if (small) {
      findings.note(interface.name, text_of(interface),
                    fmt::format("where all of the network can, as root: ip link set {} mtu 9000", interface.name));
    } else {
      findings.ok(interface.name, text_of(interface));
    }
  }
  if (any) return;
  findings.note("interfaces", "none is up beside loopback: no rank of another host can be reached",
                "for jobs of several hosts: bring one up (ip link, ip addr)");
}

void check_tcp(const Surroundings& surroundings, Findings& findings) {
  check_congestion(surroundings, findings);
  check_buffers(surroundings, findings);
  check_backlog(surroundings, findings);
}

}  // namespace wreath
