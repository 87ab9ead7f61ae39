// Streams and events of the host device: one thread a stream, a queue of work, a counter per event.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "wreath/device.hpp"

namespace wreath {

// What an event and the streams that record it or wait for it share. Points are numbered from 1 in the order of
// record() calls; streams pass them in any order.
class HostEventState {
 public:
  std::uint64_t next();
  // The last one; 0: never recorded.
  std::uint64_t recorded() const;
  // The point `number` was passed.
  void reach(std::uint64_t number);
  // Until that point is passed. False when the time runs out (timeout_ms < 0: never).
  bool wait(std::uint64_t number, std::int64_t timeout_ms);

 private:
  mutable std::mutex mutex_;
  std::condition_variable reached_;
  std::uint64_t recorded_ = 0;
  std::set<std::uint64_t> ahead_;  // points that no stream has passed yet
};

class HostEvent final : public Event {
 public:
  bool done() const override;
  Status synchronize(std::int64_t timeout_ms) override;
  const std::shared_ptr<HostEventState>& state() const { return state_; }

 private:
  std::shared_ptr<HostEventState> state_ = std::make_shared<HostEventState>();
};

class HostStream final : public Stream {
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

 private:
  struct Item {
    std::function<Status()> work;
    bool always;  // after a failure, too: others wait for it
  };
  Status add(Item item);
  void work();

  Device& device_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool busy_ = false;
  bool stop_ = false;
  std::optional<Error> failure_;
  std::thread thread_;
};

}  // namespace wreath
