// Chooses an RDMA adapter, its port and the GID that peers know it by. Most of it is pure functions of plain values,
// for tests on machines without such adapters.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wreath/result.hpp"

namespace wreath {

using Gid = std::array<std::uint8_t, 16>;

enum class GidType : std::uint8_t { Unknown, InfiniBand, RoceV1, RoceV2 };

struct GidEntry {
  int index = 0;
  Gid gid{};
  GidType type = GidType::Unknown;
};

struct PortFacts {
  std::string device;
  int number = 1;
  std::string state;  // "ACTIVE", "DOWN", ...
  bool infiniband = false;
  std::uint32_t rate_mbit = 0;  // 0: not known
  int node = -1;                // the NUMA node that the adapter is near; -1: not known
  std::uint16_t lid = 0;
  std::uint8_t mtu = 1;         // as ibv_mtu counts
  std::uint64_t put_bytes = 0;  // of the largest message
  bool needs_route = false;     // the subnet wants GIDs, besides LIDs
  std::vector<GidEntry> gids;

  bool active() const { return state == "ACTIVE"; }
};

// The two ends of a connection tell each other this of their ports.
struct PortEnd {
  bool infiniband = false;
  bool active = false;  // the port's state when this was written
  std::uint8_t mtu = 1;
  std::uint16_t lid = 0;
  GidType gid_type = GidType::Unknown;
  Gid gid{};
};

// Returns "mlx5_0 port 1".
std::string port_text(const PortFacts& port);
// Returns the short form of an address: "10.77.0.2", "fe80::1".
std::string gid_address(const Gid& gid);
// Returns whether the GID is an IPv4 address.
bool is_ipv4(const Gid& gid);

// Returns the indices of the ports that a rank uses, `count` at most and in order: active ones that `choice` (as
// WREATH_HCA) admits, faster ones first, among these the nearest to NUMA `nodes`, and the ranks take turns among
// equals. StartupFailed says that `choice` admits none of the ports, Unavailable that no port is active; both name the
// ports.
Result<std::vector<std::size_t>> choose_ports(const std::vector<PortFacts>& ports, std::string_view choice,
                                              const std::vector<int>& nodes, int rank, std::size_t count);

// A provider of libfabric offers such adapters.
struct OfferedAdapter {
  std::string device;     // the adapter's name; of a network of sockets the interface's
  bool sockets = false;   // messages go through sockets of the kernel
  bool loopback = false;  // they reach this host only
};
// Returns the indices of the adapters that a rank uses, `count` at most and in order. Among those that `choice` (as
// WREATH_HCA) admits ranks take turns. Where there are interfaces, they are the first that `interfaces` (as
// WREATH_SOCKET_IFNAME) admits and that lead to other hosts, if any does. Unavailable names what there is.
Result<std::vector<std::size_t>> choose_offered(const std::vector<OfferedAdapter>& all, std::string_view choice,
                                                std::string_view interfaces, int rank, std::size_t count);

// Returns the type that the kernel's files call so: "RoCE v2", "IB/RoCE v1".
GidType gid_type_of(std::string_view text);
// Returns the type that ibv_gid_entry has as that number.
GidType gid_type_of(std::uint32_t number);

// Mismatch names the field of a peer's end that is out of range.
Status check_end(const PortEnd& theirs);
// Mismatch says why no packets would go between the two; Unavailable says that the other's port is down.
Status check_pair(const PortEnd& own, const PortEnd& theirs);
// Returns whether packets to the peer need its GID, besides its LID.
bool crosses_subnets(const PortEnd& own, const PortEnd& theirs);

// Returns the GIDs that most networks route: on Ethernet RoCE v2 before v1, and an IPv4 address before IPv6 before a
// link-local one; on InfiniBand all.
std::vector<GidEntry> best_gids(std::vector<GidEntry> gids, bool infiniband);

// Returns the GID with that index or, where it is -1, the first of best_gids().
Result<GidEntry> choose_gid(const PortFacts& port, int index);

// Returns the NUMA nodes of the processors that this thread may use. Where all ports are at one node, there is nothing
// to choose, and it returns none.
std::vector<int> nodes_to_be_near(const std::vector<PortFacts>& ports);

// Returns megabits per second of a port's width and speed, as ibv_port_attr has them; 0 where they are not known.
std::uint32_t rate_of(unsigned width, unsigned speed);
// Returns the name of a port's state, as ibv_port_attr has it: "ACTIVE".
std::string port_state(int state);

// Returns the bytes that this process may lock.
std::uint64_t lock_limit();
// Returns the reason why `bytes` cannot be locked where the limit is `limit`, with the way to raise it; empty where
// they can.
std::string lock_complaint(std::uint64_t bytes, std::uint64_t limit);

}  // namespace wreath
