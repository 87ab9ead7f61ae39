// A CUDA stream may hold work of the host. A thread of the stream's own does the work, and looks at a word that the
// stream writes. The driver's host functions would need no such looks. But a thread that adds one waits for a lock,
// which another thread holds while the driver has no room for its kernels. That thread stands behind a stream that
// waits for this process (decision 0026).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "src/device/cuda/context.hpp"
#include "src/device/cuda/stream_waits.hpp"
#include "src/device/stream_failures.hpp"

namespace wreath {

// Item i begins when the stream has written i to one word in pinned memory. It ends when the host has written i to the
// other word, for which the stream waits.
class CudaHostWork {
  struct Item {
    std::function<Status()> work;
    // The number of commands that were given before the item.
    std::uint64_t commands;
  };

 public:
  static Result<std::unique_ptr<CudaHostWork>> make(const CudaContext& context);
  ~CudaHostWork();
  CudaHostWork(const CudaHostWork&) = delete;
  CudaHostWork& operator=(const CudaHostWork&) = delete;

  // Returns the lock that is held over every addition to the stream, so that items and words have one order.
  std::unique_lock<std::mutex> turn() { return std::unique_lock(turn_); }

  std::optional<Error> failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  // Records a failure; the first one stays. `drops` is true for a device that does nothing any more: its items are
  // dropped.
  void fail(const Error& error, bool drops) {
    std::deque<Item> dropped;
    {
      const std::lock_guard lock(mutex_);
      // The failure is stored before listeners hear of it. From here on the stream refuses new kernels.
      if (!failure_) failure_ = error;
      if (drops) dropped.swap(items_);
    }
    room_.notify_all();
    failures_.tell(error);
    drop(dropped.size());
  }
  StreamFailures& failures() { return failures_; }

  // Adds an item. The caller has the turn. Returns the item's number, or an error where there is no thread for it.
  Result<std::uint32_t> add(std::function<Status()> work);
  // Counts a command that is about to be added. Waits while the stream waits for the host and has as many commands
  // behind it as it may. Otherwise the driver would wait under its locks.
  void pace();
  // Takes back the last item, to which the stream does not come.
  void withdraw();
  CudaAddress word_of_stream() const { return reinterpret_cast<CudaAddress>(&words_[0]); }
  CudaAddress word_of_host() const { return reinterpret_cast<CudaAddress>(&words_[1]); }
  // Ends the thread. Items that have not begun stay undone.
  void stop();
  // Keeps `work` for as long as the process lives, because a lost device's streams may still write to the words.
  static void keep(std::shared_ptr<void> work);

 private:
  CudaHostWork(const CudaContext& context, std::uint32_t* words) : context_(context), words_(words) {}
  Status start();
  // Waits until the stream has come to the first item. Returns false where no item is left, or the thread stops.
  bool await_stream(std::unique_lock<std::mutex>& lock);
  void work();
  // Ends the stream waits of `items` items, for which no stream will wait any more.
  static void drop(std::size_t items) {
    for (; items > 0; --items) StreamWaits::of_process().end();
  }

  const CudaContext& context_;
  std::uint32_t* words_;
  std::mutex turn_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable room_;
  std::deque<Item> items_;
  std::uint32_t added_ = 0;
  std::uint32_t done_ = 0;
  std::uint64_t commands_ = 0;  // given to the driver
  // Counts the commands before the item that was done last, and those given while the stream waited for nobody.
  std::uint64_t passed_ = 0;
  std::optional<Error> failure_;
  StreamFailures failures_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace wreath
