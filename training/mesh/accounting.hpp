// This file counts the communication of a rank's training by group and operation: payload and time where the call is
// made, and the bytes that the transports moved for it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace wreath::training {

struct Traffic {
  std::uint64_t calls = 0;
  // The payload. all_reduce and broadcast count the vector; calls that move blocks count all blocks of the whole
  // vector; send and recv count the message.
  std::uint64_t bytes = 0;
  // The time that this rank spent in the call, or waiting for it.
  double seconds = 0;
  // The bytes that this rank handed to transports or loaded from peers (WireBytes). For messages between two ranks
  // "send" has them all.
  std::uint64_t wire_bytes = 0;
};

// Counts for one rank; one thread at a time uses it.
class CommunicationAccounting {
 public:
  // The key is a group and an operation: {"tp", "all_reduce"}.
  using Key = std::pair<std::string, std::string>;
  void add(const std::string& group, const std::string& operation, std::uint64_t bytes);
  void add_seconds(const std::string& group, const std::string& operation, double seconds);
  void add_wire(const std::string& group, const std::string& operation, std::uint64_t bytes);
  // Returns zeros where nothing was counted.
  Traffic of(const std::string& group, const std::string& operation) const;
  const std::map<Key, Traffic>& all() const noexcept { return traffic_; }
  double seconds() const noexcept;
  void reset() noexcept { traffic_.clear(); }

 private:
  std::map<Key, Traffic> traffic_;
};

}  // namespace wreath::training
