// The host device makes these streams and events. A stream has one thread and a queue of work, and an event has a
// counter.
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

// The state that an event shares with the streams that record it or wait for it. Points are numbered from 1 in the
// order of record() calls. Streams pass them in any order.
class HostEventState {
 public:
  std::uint64_t next();
  // Returns the point of a capture that the event means now. No stream passes that point.
  CaptureMembership& captured() { return captured_; }
  // Returns the number of the last point, or 0 where the event was never recorded.
  std::uint64_t recorded() const;
  // Marks the point `number` as passed.
  void reach(std::uint64_t number);
  // Returns the time at which the last point that was passed was passed. Returns InvalidUsage before the first record,
  // and NotReady until the last recorded point is passed.
  Result<std::int64_t> reached_ns() const;
  // Waits until that point is passed. Returns false when the time runs out; timeout_ms < 0 sets no limit.
  bool wait(std::uint64_t number, std::int64_t timeout_ms);

 private:
  mutable std::mutex mutex_;
  std::condition_variable reached_;
  std::uint64_t recorded_ = 0;
  // The points that no stream has passed yet.
  std::set<std::uint64_t> ahead_;
  std::int64_t passed_ns_ = 0;  // of the point passed last
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
  // Throws std::system_error where the stream gets no thread.
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
    // The item runs after a failure, too, because others wait for it.
    bool always;
  };
  // Adds the items together, also where the stream has failed. A failed stream skips the items that do not run always.
  void give(std::vector<Item> items);
  void give(Item item);
  // Returns the stream's first failure, or success where there is none.
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
