// The faults of a wire: what it does to the packets that it carries is set by commands.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/wire/packet.hpp"

namespace wreath::wire {

struct Delivery {
  std::int64_t after_ns;
  Packet packet;
};

class Faults {
 public:
  explicit Faults(std::uint32_t seed) : random_(seed) {}

  // One line of `help()`. What is wrong with it, or nothing.
  std::string command(const std::string& line);
  static std::string help();

  // Gives what comes of a packet: nothing, itself, or more.
  std::vector<Delivery> carry(Packet packet, std::int64_t now_ns);
  // Packets by what became of them, as JSON.
  std::string counts() const;

 private:
  // Names of `counts()`.
  enum Count {
    kPackets,
    kLost,
    kCut,
    kTooLarge,
    kForgotten,
    kReset,
    kCorrupt,
    kFlipped,
    kReordered,
    kDuplicate,
    kCounts
  };
  struct Settings {
    double loss = 0, reorder = 0, duplicate = 0, corrupt = 0, flip = 0;  // shares of all packets
    std::size_t flip_bytes = 1;                                          // of payload: smaller packets are not flipped
    double delay_ms = 0, jitter_ms = 0;
    double largest_bytes = 0;  // 0: any
    double forget_s = 0;       // 0: never
    int resets = 0;            // still to send
    std::set<int> cut;         // hosts
    std::set<std::pair<int, int>> cut_ways;
  };

  bool stops(const Packet& packet, std::int64_t now_ns);
  bool forgotten(const Packet& packet, std::int64_t now_ns);
  void alter(Packet& packet);
  bool happens(double share) { return share > 0 && std::uniform_real_distribution<>()(random_) < share; }
  std::size_t any_of(std::size_t first, std::size_t last) {
    return std::uniform_int_distribution<std::size_t>(first, last - 1)(random_);
  }
  bool counted(Count which) { return ++counts_[which] > 0; }

  Settings settings_;
  std::mt19937 random_;
  std::array<long, kCounts> counts_{};
  std::map<Connection, std::int64_t> last_ns_;  // of connections, with forget_s
  std::set<Connection> forgotten_;
};

}  // namespace wreath::wire
