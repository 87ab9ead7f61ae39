// Work of the host in a CUDA stream, done by a thread of the stream's own, which looks at a word that the stream
// writes. The driver's functions of the host would do without looking; but who adds one waits for a lock that another
// thread holds while the driver has no room for its kernels, behind a stream that waits for this process (decision
// 0026).
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

// Item i begins when the stream has written i to one word in pinned memory, and ends when the host has written i to the
// other, for which the stream waits.
class CudaHostWork {
  struct Item {
    std::function<Status()> work;
    std::uint64_t commands;  // that were given before it
  };

 public:
  static Result<std::unique_ptr<CudaHostWork>> make(const CudaContext& context);
  ~CudaHostWork();
  CudaHostWork(const CudaHostWork&) = delete;
  CudaHostWork& operator=(const CudaHostWork&) = delete;

  // Held over what is added to the stream, so that items and words have one order.
  std::unique_lock<std::mutex> turn() { return std::unique_lock(turn_); }

  std::optional<Error> failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  // The first failure stays. Items of a device that does nothing any more are dropped.
  void fail(const Error& error, bool drops) {
    std::deque<Item> dropped;
    {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = error;  // first: who adds a kernel from here on is refused, others are told
      if (drops) dropped.swap(items_);
    }
    room_.notify_all();
    failures_.tell(error);
    drop(dropped.size());
  }
  StreamFailures& failures() { return failures_; }

  // The caller has the turn. Returns the item's number, or an error where there is no thread for it.
  Result<std::uint32_t> add(std::function<Status()> work);
  // Counts a command that is about to be added. Waits here while the stream waits for the host and has as many behind
  // it as it may: the driver would wait under locks.
  void pace();
  // Takes back the last one, which the stream does not come to.
  void withdraw();
  CudaAddress word_of_stream() const { return reinterpret_cast<CudaAddress>(&words_[0]); }
  CudaAddress word_of_host() const { return reinterpret_cast<CudaAddress>(&words_[1]); }
  // Ends the thread; items that have not begun stay undone.
  void stop();
  // For as long as the process lives: a lost device's streams may still write to the words.
  static void keep(std::shared_ptr<void> work);

 private:
  CudaHostWork(const CudaContext& context, std::uint32_t* words) : context_(context), words_(words) {}
  Status start();
  // Waits until the stream has come to the first item; false where there is none any more.
  bool await_stream(std::unique_lock<std::mutex>& lock);
  void work();
  // So many items are nobody's any more, for which the stream would have waited.
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
  std::uint64_t passed_ = 0;    // of these, before the item that was done last, or while the stream waited for nobody
  std::optional<Error> failure_;
  StreamFailures failures_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace wreath
