// One end of a channel tells the other in these bytes how its queue pair is reached.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/topology/rdma_ports.hpp"
#include "wreath/result.hpp"

namespace wreath {

struct VerbsAddress {
  bool infiniband = false;
  bool active = false;  // the port's state when the address was made
  std::uint8_t mtu = 1;
  std::uint16_t lid = 0;
  GidType gid_type = GidType::Unknown;
  Gid gid{};
  std::uint32_t queue_pair = 0;
  std::uint32_t packet = 0;  // the number of its first packet
};

std::vector<std::byte> encode_address(const VerbsAddress& address);
// The bytes are a stranger's. Mismatch names what is wrong with them.
Result<VerbsAddress> decode_address(std::span<const std::byte> bytes);

// Mismatch says why no packets would go between the two; Unavailable says that the other's port is down.
Status check_pair(const VerbsAddress& own, const VerbsAddress& theirs);
// Returns whether packets to the peer need its GID, besides its LID.
bool crosses_subnets(const VerbsAddress& own, const VerbsAddress& theirs);

}  // namespace wreath
