// Tells listeners that a stream's work has failed. They hear of it before the stream comes to the kernels behind that
// work, which run all the same.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "wreath/device.hpp"

namespace wreath {

class StreamFailureListener {
 public:
  virtual ~StreamFailureListener() = default;
  // The caller is a thread on its way to other work of the stream. It may hold locks of streams.
  virtual void stream_failed(const Error& error) = 0;
};

class StreamFailures {
 public:
  // Notes that `listener` has work in the stream until `passed` is over. Null means that the listener is about to add
  // that work. The note replaces the listener's earlier one.
  void expect(const std::shared_ptr<StreamFailureListener>& listener, std::shared_ptr<Event> passed);
  // Calls all listeners whose work is not over.
  void tell(const Error& error);

 private:
  struct Expecting {
    std::weak_ptr<StreamFailureListener> listener;
    std::shared_ptr<Event> passed;
  };
  std::mutex mutex_;
  std::vector<Expecting> each_;
};

}  // namespace wreath
