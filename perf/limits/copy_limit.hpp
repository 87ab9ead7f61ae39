// The limit of calls that move data through memory and compute nothing: the time of a flag and a copy.
#pragma once

#include <cstddef>
#include <map>
#include <utility>

namespace wreath::perf {

class CopyLimit {
 public:
  explicit CopyLimit(double flag_ns) : flag_ns_(flag_ns) {}

  // Returns the microseconds until the flag is seen and each of `receivers` ranks, all at once, has copied
  // `received_bytes` bytes. Each power of two of working sets is measured once. Returns NaN with fewer cores than
  // receivers.
  double time_us(double received_bytes, int receivers);

 private:
  double flag_ns_;
  // The bandwidth of one thread, by the number of threads and the working set.
  std::map<std::pair<int, std::size_t>, double> copy_gbps_;
};

}  // namespace wreath::perf
