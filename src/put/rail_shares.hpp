// Splits data among the rails of a port. Each part goes to the rail that is expected to have it at the peer first, so
// rails carry shares as their measured rates are, and end together.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/put/adapter.hpp"

namespace wreath {

class RailShares {
 public:
  // Parts of large messages have so many bytes, but the last one of each, and other puts have fewer.
  static constexpr std::uint32_t kLeastMeasured = 8 * 1024;

  // Returns the rail for a part of so many bytes, among `usable` ones, a bit each, of which there is one.
  std::size_t next(std::uint32_t bytes, std::uint32_t usable, std::int64_t now_ns) const;
  // Take note that a rail was given bytes, that they are at the peer, or that they never will be. Small puts do not
  // count: their time is the way's, and says nothing of a rate.
  void on_added(std::size_t rail, std::uint32_t bytes, std::int64_t now_ns);
  void on_ended(std::size_t rail, std::uint32_t bytes, std::int64_t now_ns);
  void on_dropped(std::size_t rail, std::uint32_t bytes);

 private:
  struct Rail {
    std::uint64_t under_way = 0;  // bytes
    std::int64_t since_ns = 0;    // the last bytes have ended, or the first ones were added
    // The bytes that have ended lately, and the time that they took.
    double bytes = 0;
    double ns = 0;
    // Returns bytes a nanosecond; 0 where nothing is known.
    double rate(std::int64_t now_ns) const;
  };
  std::array<Rail, kMostRails> rails_;
};

}  // namespace wreath
