// The limit of calls that move data through memory and compute nothing: a flag, and a copy.
#pragma once

#include <cstddef>
#include <map>
#include <utility>

namespace wreath::perf {

class CopyLimit {
 public:
  explicit CopyLimit(double flag_ns) : flag_ns_(flag_ns) {}

  // Microseconds until the flag is seen and each of `receivers` ranks, all at once, has copied so many bytes. Each
  // power of two of working sets is measured once. NaN with fewer cores than receivers.
  double time_us(double received_bytes, int receivers);

 private:
  double flag_ns_;
  std::map<std::pair<int, std::size_t>, double> copy_gbps_;  // of one of so many threads, by working set
};

}  // namespace wreath::perf
