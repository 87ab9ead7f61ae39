// Who is told that a stream's work has failed, before the stream comes to what stands behind it: kernels, which run
// all the same.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "wreath/device.hpp"

namespace wreath {

class StreamFailureListener {
 public:
  virtual ~StreamFailureListener() = default;
  // By a thread that is on its way to other work of the stream, and may hold locks of streams.
  virtual void stream_failed(const Error& error) = 0;
};

class StreamFailures {
 public:
  // `listener` has work in the stream until `passed` is; null: it is about to add it. Instead of what it said before.
  void expect(const std::shared_ptr<StreamFailureListener>& listener, std::shared_ptr<Event> passed);
  // Tells all whose work is not over.
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
