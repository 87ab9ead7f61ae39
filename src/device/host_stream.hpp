// Streams and events of the host device: one thread a stream, a queue of work, a counter per event.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "src/device/capture.hpp"
#include "src/device/library_stream.hpp"
#include "wreath/device.hpp"

namespace wreath {

// What an event and the streams that record it or wait for it share. Points are numbered from 1 in the order of
// record() calls; streams pass them in any order.
class HostEventState {
 public:
  std::uint64_t next();
  // The point of a capture that it means now, which no stream passes.
  CaptureMembership& captured() { return captured_; }
  // The last one; 0: never recorded.
  std::uint64_t recorded() const;
  // The point `number` was passed.
  void reach(std::uint64_t number);
  // When the last point that was passed was; InvalidUsage before the first record, NotReady until it is passed.
  Result<std::int64_t> reached_ns() const;
  // Until that point is passed. False when the time runs out (timeout_ms < 0: never).
  bool wait(std::uint64_t number, std::int64_t timeout_ms);

 private:
  mutable std::mutex mutex_;
  std::condition_variable reached_;
  std::uint64_t recorded_ = 0;
  std::set<std::uint64_t> ahead_;  // points that no stream has passed yet
  std::int64_t passed_ns_ = 0;     // the last one
  CaptureMembership captured_;
};

class HostEvent final : public Event {
 public:
  explicit HostEvent(EventUse use) : use_(use) {}
  bool done() const override;
  Status synchronize(std::int64_t timeout_ms) override;
  Result<std::int64_t> ns_since(const Event& earlier) const override;
  const std::shared_ptr<HostEventState>& state() const { return state_; }

 private:
  Result<std::int64_t> passed_ns() const;

  EventUse use_;
  std::shared_ptr<HostEventState> state_ = std::make_shared<HostEventState>();
};

class HostStream final : public LibraryStream {
 public:
  // Throws std::system_error without a thread.
  explicit HostStream(Device& device);
  ~HostStream() override;
  Device& device() const override { return device_; }
  Status copy(void* target, const void* source, std::size_t bytes) override;
  Status run(std::function<Status()> work) override;
  Status record(Event& event) override;
  Status wait(Event& event) override;
  bool idle() const override;
  Status synchronize(std::int64_t timeout_ms) override;
  Status begin_capture() override;
  Result<std::unique_ptr<Graph>> end_capture() override;
  bool capturing() const override { return part_.open().capture != nullptr; }
  CapturePart capture_part() const override { return part_.open(); }
  Status capture(std::shared_ptr<GraphWork> work) override;
  void invalidate(const std::string& reason) override;
  StreamFailures& failures() override { return failures_; }

  struct Item {
    std::function<Status()> work;
    bool always;  // after a failure, too: others wait for it
  };
  // Adds them together, also where the stream has failed, and skips there what is not for always.
  void give(std::vector<Item> items);
  void give(Item item);
  // Success: none.
  Status failure() const;

 private:
  Status add(Item item);
  void work();

  Device& device_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool busy_ = false;
  bool stop_ = false;
  std::optional<Error> failure_;
  StreamFailures failures_;
  CaptureMembership part_;
  std::thread thread_;
};

}  // namespace wreath
