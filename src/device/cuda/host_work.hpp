// Work of the host in a CUDA stream: handed from the driver's callback to a thread of its own, for work that waits for
// another stream would stop the driver's one thread for all.
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

// Item i is begun by callback i and ends by a word in pinned memory, for which the stream waits: it becomes i.
class CudaHostWork {
 public:
  static Result<std::unique_ptr<CudaHostWork>> make(const CudaContext& context);
  ~CudaHostWork() {
    stop();
    drop(items_.size());
    context_.words->give(word_);
  }
  CudaHostWork(const CudaHostWork&) = delete;
  CudaHostWork& operator=(const CudaHostWork&) = delete;

  // Held over what is added to the stream, so that items and callbacks have one order.
  std::unique_lock<std::mutex> turn() { return std::unique_lock(turn_); }

  std::optional<Error> failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  // The first failure stays. Items of a device that does nothing any more are dropped.
  void fail(const Error& error, bool drops) {
    std::deque<std::function<Status()>> dropped;
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

  // The caller has the turn. Waits here while the stream has as much as it takes: in the driver it would wait under
  // locks. Returns the word's value at its end, or an error where there is no thread for it.
  Result<std::uint32_t> add(std::function<Status()> work);
  // Takes back the last one, whose callback does not come.
  void withdraw() {
    std::function<Status()> item;
    {
      const std::lock_guard lock(mutex_);
      item.swap(items_.back());
      items_.pop_back();
      --added_;
    }
    drop(1);
  }
  static void arrive(void* self) { static_cast<CudaHostWork*>(self)->arrived(); }
  CudaAddress word() const { return reinterpret_cast<CudaAddress>(word_); }
  // Ends the thread; items that have not begun stay undone.
  void stop();
  // For as long as the process lives: the driver may still call back with what a lost device had.
  static void keep(std::shared_ptr<void> work);

 private:
  CudaHostWork(const CudaContext& context, std::uint32_t* word) : context_(context), word_(word) {}
  void arrived() {
    {
      const std::lock_guard lock(mutex_);
      ++arrived_;
    }
    changed_.notify_all();
  }
  Status start();
  void work();
  // So many items are nobody's any more, for which the stream would have waited.
  static void drop(std::size_t items) {
    for (; items > 0; --items) StreamWaits::of_process().end();
  }

  const CudaContext& context_;
  std::uint32_t* word_;
  std::mutex turn_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable room_;
  std::deque<std::function<Status()>> items_;
  std::uint32_t added_ = 0;
  std::uint32_t arrived_ = 0;
  std::uint32_t done_ = 0;
  std::optional<Error> failure_;
  StreamFailures failures_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace wreath
