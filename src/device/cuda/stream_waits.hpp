// Counts the streams that wait for this process: for the host's work, or for kernels that wait for other ranks. Some
// calls wait for all of a device's streams, such as those that free its memory or unregister the host's. Such a call
// would wait for work that itself needs the driver, which admits nobody else meanwhile. So the call is deferred until
// no stream waits. The process has one count, because streams of one device may wait for another device.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

namespace wreath {

class StreamWaits {
 public:
  static StreamWaits& of_process();

  // Counts a stream that is about to wait. The call itself waits while deferred work is done.
  void begin();
  // Ends a stream's wait. Does the deferred work if no other stream waits.
  void end();
  // Does `work` at once if no stream waits, else later, in the thread that ends the last wait.
  void when_none(std::function<void()> work);
  // Returns whether some work was deferred, and all of it was done within this time.
  bool settle(std::int64_t timeout_ms);

 private:
  void do_all(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable done_;
  std::vector<std::function<void()>> put_off_;
  std::uint64_t waits_ = 0;
  bool busy_ = false;
};

// Counts as one wait while it lives.
class StreamWait {
 public:
  StreamWait() { StreamWaits::of_process().begin(); }
  StreamWait(const StreamWait&) = delete;
  StreamWait& operator=(const StreamWait&) = delete;
  ~StreamWait() { StreamWaits::of_process().end(); }
};

}  // namespace wreath
