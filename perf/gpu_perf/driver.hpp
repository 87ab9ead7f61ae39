// Uses CUDA's driver directly, for things that this library does not offer. These are a current context, streams whose
// handles another library takes, and the name of a card.
#pragma once

#include <string>
#include <vector>

#include "wreath/result.hpp"

namespace wreath::perf {

// Returns the name, such as "NVIDIA H200"; empty: it is not known.
std::string card_name(int device);

// Streams of the driver on the primary context of a device. The destructor destroys them.
class DriverStreams {
 public:
  static Result<DriverStreams> make(int device, int count);
  DriverStreams(DriverStreams&& other) noexcept;
  DriverStreams& operator=(DriverStreams&&) = delete;
  ~DriverStreams();
  void* handle(int i) const { return streams_[static_cast<std::size_t>(i)]; }
  // Makes the context current in this thread.
  Status enter() const;

 private:
  DriverStreams() = default;
  int device_ = 0;
  void* context_ = nullptr;
  std::vector<void*> streams_;
};

}  // namespace wreath::perf
