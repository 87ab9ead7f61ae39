// What a program does with CUDA's driver by itself, for what needs more than this library shows: a current context,
// streams whose handles another library takes, a card's name.
#pragma once

#include <string>
#include <vector>

#include "wreath/result.hpp"

namespace wreath::perf {

// "NVIDIA H200"; empty: not known.
std::string card_name(int device);

// Streams of the driver's, on the primary context of a device. Destroyed with this.
class DriverStreams {
 public:
  static Result<DriverStreams> make(int device, int count);
  DriverStreams(DriverStreams&& other) noexcept;
  DriverStreams& operator=(DriverStreams&&) = delete;
  ~DriverStreams();
  void* handle(int i) const { return streams_[static_cast<std::size_t>(i)]; }
  // Makes the context this thread's.
  Status enter() const;

 private:
  DriverStreams() = default;
  int device_ = 0;
  void* context_ = nullptr;
  std::vector<void*> streams_;
};

}  // namespace wreath::perf
