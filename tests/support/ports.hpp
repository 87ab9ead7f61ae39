// Holds ports of this host that no other test has meanwhile.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "src/base/socket.hpp"

namespace wreath::test {

// Holds 20 ports, in this process and all others that hold theirs so. Two jobs without a key that use the same
// MASTER_PORT would meet each other's ranks.
class Ports {
 public:
  Ports() {
    static std::atomic<int> next{::getpid()};
    for (int tries = 0; tries < kBlocks && !held_; ++tries) {
      const int block = next++ % kBlocks;
      auto held = listen_on(SocketAddress::abstract_unix("wreath-test-ports-" + std::to_string(block)));
      if (!held) continue;
      held_ = std::move(*held);
      first_ = static_cast<std::uint16_t>(kLowest + block * kPorts);
    }
    if (!held_) throw std::runtime_error("other tests have all ports");
  }
  std::uint16_t first() const { return first_; }

 private:
  static constexpr int kLowest = 20'000;
  static constexpr int kPorts = 20;
  static constexpr int kBlocks = 500;
  Fd held_;
  std::uint16_t first_ = 0;
};

}  // namespace wreath::test
