// The faults of a wire. Commands set what the wire does to the packets that it carries.
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

  // Obeys a command, which is one line of `help()`. Returns what is wrong with it, or an empty text.
  std::string command(const std::string& line);
  static std::string help();

  // Returns the packets that result from one packet: none, the packet itself, or more.
  std::vector<Delivery> carry(Packet packet, std::int64_t now_ns);
  // Returns as JSON how many packets had each fault.
  std::string counts() const;

 private:
  // The names in `counts()`.
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
    // Packets with fewer bytes of payload are not flipped.
    std::size_t flip_bytes = 1;
    double delay_ms = 0, jitter_ms = 0;
    double largest_bytes = 0;   // 0: any
    double flow_megabytes = 0;  // a second, of each connection's direction; 0: any
    double forget_s = 0;        // 0: never
    int resets = 0;             // still to send
    std::set<int> cut;          // hosts
    std::set<std::pair<int, int>> cut_ways;
  };

  bool stops(const Packet& packet, std::int64_t now_ns);
  bool forgotten(const Packet& packet, std::int64_t now_ns);
  std::int64_t time_in_line(const Packet& packet, std::int64_t now_ns);
  void alter(Packet& packet);
  bool happens(double share) { return share > 0 && std::uniform_real_distribution<>()(random_) < share; }
  std::size_t any_of(std::size_t first, std::size_t last) {
    return std::uniform_int_distribution<std::size_t>(first, last - 1)(random_);
  }
  bool counted(Count which) { return ++counts_[which] > 0; }

  Settings settings_;
  std::mt19937 random_;
  std::array<long, kCounts> counts_{};
  // The time of each connection's last packet, which `forget_s` needs.
  std::map<Connection, std::int64_t> last_ns_;
  std::set<Connection> forgotten_;
  // The time when the last packet of a connection, from this host, has gone.
  std::map<std::pair<Connection, int>, std::int64_t> free_ns_;
};

}  // namespace wreath::wire
