// One end of a channel tells the other how its queue pair is reached.
#pragma once

#include <fmt/format.h>

#include <cstdint>

#include "src/put/address.hpp"
#include "src/topology/rdma_ports.hpp"
#include "wreath/result.hpp"

namespace wreath {

struct VerbsAddress : PortEnd {
  std::uint32_t queue_pair = 0;
  std::uint32_t packet = 0;  // the number of its first packet

  template <typename Self, typename Visit>
  static void each_field(Self& self, Visit visit) {
    visit(self.infiniband);
    visit(self.active);
    visit(self.mtu);
    visit(self.lid);
    visit(self.gid_type);
    visit(self.gid);
    visit(self.queue_pair);
    visit(self.packet);
  }
  Status check() const {
    constexpr std::uint32_t kMost24Bits = (1U << 24) - 1;
    WREATH_TRY(check_end(*this));
    if (queue_pair == 0 || queue_pair > kMost24Bits) {
      return bad_address(fmt::format("its queue pair is {}, must be a number of 24 bits", queue_pair));
    }
    if (packet > kMost24Bits) return bad_address(fmt::format("its packet number is {}, must be of 24 bits", packet));
    return {};
  }
};

}  // namespace wreath
