// Streams that wait for this process: for the host's work, or for kernels that wait for other ranks. What waits for all
// of a device's streams (to free its memory does, to unregister the host's, too) would then wait for work that itself
// needs the driver, which lets nobody else in meanwhile. So it is put off until no stream waits. One for the process,
// for what one device's streams wait for may be another's.
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

  // A stream is about to wait. Itself waits while what was put off is done.
  void begin();
  // It no longer waits. Does what was put off, where no other does.
  void end();
  // At once where no stream waits, else later, by the thread that ends the last wait.
  void when_none(std::function<void()> work);
  // Whether there was anything put off, and none is any more, within this time.
  bool settle(std::int64_t timeout_ms);

 private:
  void do_all(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable done_;
  std::vector<std::function<void()>> put_off_;
  std::uint64_t waits_ = 0;
  bool busy_ = false;
};

// One wait, while it lives.
class StreamWait {
 public:
  StreamWait() { StreamWaits::of_process().begin(); }
  StreamWait(const StreamWait&) = delete;
  StreamWait& operator=(const StreamWait&) = delete;
  ~StreamWait() { StreamWaits::of_process().end(); }
};

}  // namespace wreath
