// What a rank's training communicates, by group and operation: payload and time, counted where it is asked for, and
// what the transports moved for it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace wreath::training {

struct Traffic {
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;  // payload: of all_reduce and broadcast the vector, of calls that move blocks all blocks of
                            // the whole vector, of send and recv the message
  double seconds = 0;       // this rank spent in the call, or waiting for it
  std::uint64_t wire_bytes = 0;  // that this rank handed to transports or loaded from peers (WireBytes); of messages
                                 // between two ranks "send" has them all
};

// One rank's: of one thread at a time.
class CommunicationAccounting {
 public:
  using Key = std::pair<std::string, std::string>;  // group, operation: {"tp", "all_reduce"}
  void add(const std::string& group, const std::string& operation, std::uint64_t bytes);
  void add_seconds(const std::string& group, const std::string& operation, double seconds);
  void add_wire(const std::string& group, const std::string& operation, std::uint64_t bytes);
  // Zeros where nothing was counted.
  Traffic of(const std::string& group, const std::string& operation) const;
  const std::map<Key, Traffic>& all() const noexcept { return traffic_; }
  double seconds() const noexcept;
  void reset() noexcept { traffic_.clear(); }

 private:
  std::map<Key, Traffic> traffic_;
};

}  // namespace wreath::training
